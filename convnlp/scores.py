"""What the scores of several tasks are made of."""

import unicodedata

import keras
import numpy as np


def normalized(text):
    """The form in which texts are compared: NFKC, as SentencePiece normalises, and single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def of_logits(logits, labels):
    """Logits [N,C] and integer labels [N] -> dict of floats.

    "accuracy", with two classes "f1" (of class 1), "f1_macro", "loss" (nats) and "num_examples".
    """
    num_classes = logits.shape[-1]
    f1 = keras.metrics.F1Score(average=None)
    f1.update_state(keras.ops.one_hot(labels, num_classes), logits)
    f1 = f1.result().numpy()  # [C]
    loss = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return {
        "accuracy": float(np.mean(logits.argmax(-1) == labels)),
        **({"f1": float(f1[1])} if num_classes == 2 else {}),
        "f1_macro": float(f1.mean()),
        "loss": float(np.mean(loss)),
        "num_examples": float(len(labels)),
    }
