"""Asks other classifiers about the training data, for the soft labels of a distillation."""

import numpy as np
import tensorflow as tf

from convnlp.data import rules
from convnlp.models import TextClassifier


def soft_labels(teachers, texts, label_names):
    """Returns the mean class probabilities of several classifiers.

    Args:
        teachers: sequence of str, presets of `TextClassifier`s with any backbones and tokenizers.
        texts: tuple of one or two lists of n strings, the texts or pairs.
        label_names: sequence of C str, the classes in order.

    Returns:
        float32 array [n,C].

    Raises:
        ValueError: if a preset is missing or damaged, has other classes, or compares two texts where there is
            one; before any of them is asked.
    """
    models = [_teacher(preset, label_names, len(texts)) for preset in teachers]
    found = np.zeros([len(texts[0]), len(label_names)], "float32")
    for model in models:
        logits = model.predict(texts if len(texts) > 1 else texts[0], batch_size=64, verbose=0)
        found += tf.nn.softmax(logits).numpy() / len(models)
    return found


def _teacher(preset, label_names, num_texts):
    """Returns the classifier of a preset; raises ValueError if it cannot answer such examples."""
    model = TextClassifier.from_preset(preset)
    if model.num_classes != len(label_names) or (model.labels and list(model.labels) != list(label_names)):
        raise ValueError(
            f"`teachers` must have the classes {rules.short(list(label_names))}. "
            f"Received: {preset}, which has {rules.short(model.labels or model.num_classes)}"
        )
    if model.compares_texts and num_texts < 2:
        raise ValueError(
            "`teachers` must answer single texts if `task.second_text_field` is not given. "
            f"Received: {preset}, which compares two texts"
        )
    return model
