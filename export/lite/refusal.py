"""Says which mixers of a model cannot be converted to TFLite."""

import tensorflow as tf

from convnlp.export.lite import conversion
from convnlp.export.saved_models import signatures
from convnlp.models.reading import reading_mixers
from convnlp.tasks.rows import signature

_BATCH, _LENGTH = 2, 8


def message(model, error):
    """Returns in one line why a model cannot be converted: which mixers fail, or the converter's reason.

    Args:
        model: the model, of any task.
        error: `conversion.UnsupportedError` of the whole model.
    """
    reasons = {}
    for mixer in mixers(model):
        if reason := _reason(mixer):
            reasons.setdefault(type(mixer).__name__, reason)
    if not reasons:
        return f"this model cannot be converted to TFLite: {error}"
    listed = "; ".join(f"{name} ({reason})" for name, reason in reasons.items())
    return f"TFLite has no built-in operations for the mixer {listed}"


def mixers(model):
    """Returns the token mixers of the stack that reads a text, one of each class."""
    found = {}
    for mixer in reading_mixers(model.backbone):
        found.setdefault(type(mixer), mixer)
    return list(found.values())


def _reason(mixer):
    """Returns why a mixer cannot be converted, or None if it can."""
    specs = {
        "x": tf.TensorSpec([_BATCH, _LENGTH, mixer.hidden_dim]),
        "padding_mask": tf.TensorSpec([_BATCH, _LENGTH], tf.bool),
    }
    mixed = signature(
        lambda x, padding_mask: {"y": mixer(x, padding_mask=padding_mask, training=False)}, **specs
    )
    servable = signatures.Servable(signatures.owner(mixer), {"serving_default": mixed}, None)
    try:
        conversion.convert(servable, "fp32", "ids")
    except conversion.UnsupportedError as error:
        return str(error)
    return None
