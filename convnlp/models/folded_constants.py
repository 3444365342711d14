"""What is constant once a model is trained, computed once when it is exported instead of for every text."""

import contextlib

import numpy as np
import tensorflow as tf

from convnlp.layers.conv_mixer import StaticConvMixer
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone


@contextlib.contextmanager
def folded(model, writes_text=False):
    """Moves constants of a model's encoder into its weights, for what is traced inside.

    1. A norm's scale s and offset o, into the products that read what it gives, in layers of the form "pre":
       (z s + o) W = z (diag(s) W) + o W.
    2. The factor of the embedding, into its table.
    3. The means that the norms subtract. In a stack of the form "pre" all that reads the running sum x is a
       norm, for which x and x + c 1 are the same. So the rows of the embedding, and those of the last
       products of all sublayers, may have their mean taken off; then x has none, and
       (x - m) / sqrt(v + epsilon) is x / sqrt(mean(x^2) + epsilon).
    4. The softmax of taps that are weights.

    Each holds for any x, up to the rounding of float32. What cannot be folded stays as it is: 1 where a mixer
    does not say what reads its input (`TokenMixer.entry_projections`), or a norm stands elsewhere; 2 and 3
    where the table gives the logits of a text too; 3 where a mixer does not say what its output is the sum of
    (`TokenMixer.exit_projections`), where positions are merged, whose maxima have a mean, where each layer's
    state is pooled, and with sinusoids. Decoders are left alone.

    Source of 3: Jiang et al., 2023, "Pre-RMSNorm and Pre-CRMSNorm Transformers: Equivalent and Efficient
    Pre-LN Transformers", https://arxiv.org/abs/2305.14858.

    Args:
        model: a model of any task. Inside it is to be traced in the form "inference" or "edge" and not to be
            trained; behind it, it is what it was.
        writes_text: bool. Whether the logits of a text are part of what is traced. Defaults to `False`.

    Example:
    ```python
    import tensorflow as tf
    from convnlp import kernels
    from convnlp.models import Seq2SeqBackbone, folded_constants
    backbone = Seq2SeqBackbone(
        9, num_layers=1, num_heads=1, hidden_dim=4, intermediate_dim=8, num_decoder_layers=0
    )
    ids = tf.constant([[3, 4, 5]])
    plain = backbone.encode(ids)
    with kernels.implementation("inference"), folded_constants.folded(backbone):
        assert float(tf.reduce_max(tf.abs(backbone.encode(ids) - plain))) < 1e-5
    ```
    """
    backbone = model if isinstance(model, Seq2SeqBackbone) else model.backbone
    changes = _Changes()
    try:
        if not getattr(backbone, "_lora_enabled_layers", None):
            _fold(changes, model, backbone, writes_text)
        yield
    finally:
        changes.undo()


class _Changes:
    """Attributes that have been set, and what they were."""

    def __init__(self):
        self._before = []

    def set(self, owner, name, value):
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def assign(self, weight, values):
        """Gives a Keras variable other values, in a variable of TensorFlow of their own."""
        values = tf.cast(values, weight._value.dtype)
        self.set(weight, "_value", tf.Variable(values, trainable=False, name=weight.name))

    def undo(self):
        for owner, name, value in reversed(self._before):
            setattr(owner, name, value)


def _fold(changes, model, backbone, writes_text):
    encoder = backbone.encoder
    for layer in encoder._flatten_layers():
        if isinstance(layer, StaticConvMixer) and layer.weight_softmax:
            changes.set(layer, "folded_taps", _softmax(np.asarray(layer.kernel)))
    if not encoder.layers:
        return
    if not writes_text:
        _fold_embedding(changes, backbone)
    if encoder.layer_arguments["residual_form"] != "pre":
        return
    sublayers = [pair for layer in encoder.layers for pair in _sublayers(layer)]
    for residual, sublayer in sublayers:
        _fold_norm(changes, residual.norm, sublayer.entry_projections)
    if not writes_text and _can_be_centred(model, backbone, sublayers):
        _centre(changes, backbone, sublayers)


def _sublayers(layer):
    """The pairs (residual, sublayer) of an `EncoderLayer`."""
    yield layer.mixing_residual, layer.mixing
    if layer.feed_forward is not None:
        yield layer.feed_forward_residual, layer.feed_forward


def _fold_embedding(changes, backbone):
    embedding = backbone.token_embedding
    changes.assign(embedding.embeddings, embedding.embeddings * embedding.input_scale)
    changes.set(embedding, "is_folded", True)


def _fold_norm(changes, norm, projections):
    if not projections:
        return
    scale, offset = np.asarray(norm.gamma), np.asarray(norm.beta)
    for projection in projections:
        kernel = np.asarray(projection.kernel)
        changes.assign(projection.kernel, scale[:, np.newaxis] * kernel)
        changes.set(projection, "folded_offset", offset @ kernel)
    changes.set(norm, "is_folded", True)


def _can_be_centred(model, backbone, sublayers):
    return (
        backbone.encoder.pool_factor == 1
        and not getattr(model, "pools_layers", False)
        and backbone.position_embedding in (None, "learned")
        and all(sublayer.exit_projections for _, sublayer in sublayers)
    )


def _centre(changes, backbone, sublayers):
    tables = [backbone.token_embedding.embeddings]
    if backbone.position_layer is not None:
        tables.append(backbone.position_layer.position_embeddings)
    for _, sublayer in sublayers:
        tables += [projection.kernel for projection in sublayer.exit_projections]
    for table in tables:
        values = np.asarray(table)
        changes.assign(table, values - values.mean(axis=1, keepdims=True))
    for norm in (*(residual.norm for residual, _ in sublayers), backbone.encoder.final_norm):
        changes.set(norm, "is_centred", True)


def _softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
