"""Computes what is constant in a trained model once, on export, instead of for every text."""

import contextlib

import numpy as np
import tensorflow as tf
from scipy import special

from convnlp.layers.conv_mixer import StaticConvMixer
from convnlp.models import lora
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone

_LEAST_SCALE = 1e-3  # of a norm, by which its offset is divided; that of a trained norm is around 1


@contextlib.contextmanager
def folded(model, writes_text=False, keeps_offsets=False):
    """Moves constants of a model's encoder into its weights, for functions that are traced inside.

    1. A norm's scale s and offset o move into the products that read its output, in layers of the form
       "pre": (z s + o) W = z (diag(s) W) + o W. With `keeps_offsets`, o stays before the product, divided by
       s: (z + o / s) (diag(s) W). This is an addition of the width of z, often less than the product's, and
       suits kernels in bfloat16, which are multiplied more slowly if something is added.
    2. The factor of the embedding moves into its table.
    3. The means that the norms subtract are removed. In a stack of the form "pre", only norms read the
       running sum x, and to a norm, x and x + c 1 are the same. So the mean can be subtracted from the rows
       of the embedding and of the last products of all sublayers. Then x has mean 0, and
       (x - m) / sqrt(v + epsilon) is x / sqrt(mean(x^2) + epsilon).
    4. The softmax of taps that are weights is computed in advance.

    Each holds for any x, up to the rounding of float32. What cannot be folded is left unchanged: 1 if a mixer
    does not declare what reads its input (`TokenMixer.entry_projections`), or a norm is elsewhere; 2 and 3 if
    the table also gives the logits of a text; 3 if a mixer does not declare what its output is the sum of
    (`TokenMixer.exit_projections`), if positions are merged (their maxima have a mean), if each layer's state
    is pooled, and with sinusoids. Decoders are left alone.

    Source of 3: Jiang et al., 2023, "Pre-RMSNorm and Pre-CRMSNorm Transformers: Equivalent and Efficient
    Pre-LN Transformers", https://arxiv.org/abs/2305.14858.

    Args:
        model: a model of any task. Inside the context, trace it in the form "inference" or "edge", and do not
            train it. Afterwards, it is what it was.
        writes_text: bool. Whether the traced functions compute the logits of a text. Defaults to `False`.
        keeps_offsets: bool. Whether offsets stay before the products. Defaults to `False`.

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
        if not lora.is_enabled(backbone):
            _fold(changes, model, backbone, writes_text, keeps_offsets)
        yield
    finally:
        changes.undo()


class _Changes:
    """Records attributes that have been set, and their old values."""

    def __init__(self):
        self._before = []

    def set(self, owner, name, value):
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def assign(self, weight, values):
        """Gives a Keras variable other values, held in a new TensorFlow variable."""
        values = tf.cast(values, weight._value.dtype)
        self.set(weight, "_value", tf.Variable(values, trainable=False, name=weight.name))

    def undo(self):
        for owner, name, value in reversed(self._before):
            setattr(owner, name, value)


def _fold(changes, model, backbone, writes_text, keeps_offsets):
    encoder = backbone.encoder
    for layer in encoder._flatten_layers():
        if isinstance(layer, StaticConvMixer) and layer.weight_softmax:
            changes.set(layer, "folded_taps", special.softmax(np.asarray(layer.kernel), axis=-1))
    if not encoder.layers:
        return
    if not writes_text:
        _fold_embedding(changes, backbone)
    if encoder.layer_arguments["residual_form"] != "pre":
        return
    sublayers = [pair for layer in encoder.layers for pair in _sublayers(layer)]
    for residual, sublayer in sublayers:
        _fold_norm(changes, residual.norm, sublayer.entry_projections, keeps_offsets)
    if not writes_text and _can_be_centred(model, backbone, sublayers):
        _centre(changes, backbone, sublayers)


def _sublayers(layer):
    """Returns the pairs (residual, sublayer) of an `EncoderLayer`."""
    yield layer.mixing_residual, layer.mixing
    if layer.feed_forward is not None:
        yield layer.feed_forward_residual, layer.feed_forward


def _fold_embedding(changes, backbone):
    embedding = backbone.token_embedding
    changes.assign(embedding.embeddings, embedding.embeddings * embedding.input_scale)
    changes.set(embedding, "is_folded", True)


def _fold_norm(changes, norm, projections, keeps_offset):
    if not projections:
        return
    scale, offset = np.asarray(norm.gamma), np.asarray(norm.beta)
    if keeps_offset:
        divides = np.abs(scale) > _LEAST_SCALE  # other channels' offsets are folded
        kept = np.divide(offset, scale, out=np.zeros_like(offset), where=divides)
        changes.set(norm, "kept_offset", kept)
        offset = np.where(divides, 0.0, offset)
    for projection in projections:
        kernel = np.asarray(projection.kernel)
        changes.assign(projection.kernel, scale[:, np.newaxis] * kernel)
        if offset.any():
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
