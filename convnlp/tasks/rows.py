"""Turns texts and token ids into what an exported model reads."""

import functools

import numpy as np
import tensorflow as tf

from convnlp import kernels
from convnlp.data import batching
from convnlp.models.reading import ROUND_TO, mixes_any_length, shortened
from convnlp.tasks.length_groups import in_groups

TEXT = tf.TensorSpec([None], tf.string)
TOKEN_IDS = tf.TensorSpec([None, None], tf.int32)


def signature(function, **inputs):
    """Returns a tf.function of named inputs, each given by its `tf.TensorSpec`.

    Servers feed tensors of any shape. So texts may also be [B,1], or a single one without a batch, and more
    than one per example is an error of the graph.
    """
    specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in inputs.items()]

    @functools.wraps(function)
    def checked(*values, **named):
        values, named = tf.nest.map_structure(_one_text_each, (values, named))
        return function(*values, **named)

    return tf.function(checked, input_signature=specs, autograph=False)


def _one_text_each(values):
    """Returns texts as [B], and other values unchanged.

    By way of [B,1], because TensorFlow removes a reshape to what it takes for the shape of the input.
    """
    if values.dtype != tf.string:
        return values
    shape = tf.concat([tf.shape(values), [1, 1]], axis=0)[:2]
    return tf.squeeze(tf.reshape(values, shape), 1, name="one_text_per_example")  # named in the error


def outputs_of(model, found, batch_size=64):
    """Returns the outputs of a model with a head on the encoder for examples, in their order.

    Args:
        model: `convnlp.models.PooledEncoder`.
        found: `convnlp.data.examples.Examples` of one column, N of them.
        batch_size: int, examples per batch, grouped by length. Default 64.

    Returns:
        float array [N,U].
    """
    return _in_order(model, mixes_any_length(model.backbone), found, batch_size)


def vectors_of(model, found, batch_size=64):
    """Returns the inputs of a model's `head` for examples, in their order, like `outputs_of`: float [N,D]."""
    return _in_order(model.without_head(), mixes_any_length(model.backbone), found, batch_size)


def _in_order(model, any_length, found, batch_size):
    """Returns a model's outputs; with `any_length`, batches may be as short as their longest text.

    The fast form of kernels is compiled for each length, which takes longer than most sets of texts.
    """
    (ids,), (length,) = found.columns, found.lengths
    shape = [None, None if any_length else length]
    specs = {"token_ids": tf.TensorSpec(shape, tf.int32), "padding_mask": tf.TensorSpec(shape, tf.bool)}
    call = tf.function(lambda rows: model(rows, training=False), input_signature=[specs], autograph=False)
    with kernels.implementation("inference"):
        call = call.get_concrete_function()
    order = np.argsort(ids.row_lengths().numpy(), kind="stable")
    outputs = []
    for first in range(0, len(order), batch_size):
        rows = tf.gather(ids, order[first : first + batch_size])
        longest = -(-int(rows.bounding_shape(axis=1)) // ROUND_TO) * ROUND_TO
        longest = min(longest, length) if any_length else length
        token_ids, padding_mask = batching.dense(rows, [int(rows.nrows()), longest])
        outputs.append(call({"token_ids": token_ids, "padding_mask": padding_mask}).numpy())
    outputs = np.concatenate(outputs)
    return outputs[np.argsort(order)]


class EncoderRows:
    """Makes an encoder's rows, {"token_ids" int32 [B,T], "padding_mask" bool [B,T]}, from texts or ids.

    Args:
        backbone: `Seq2SeqBackbone`.
        max_length: int. Longer rows are cut.
        preprocess: function from texts [B], or a tuple of two for pairs, to such rows of full length.

    Attributes:
        max_length: int, L. Longer rows are cut.
        any_length: bool. Whether rows may be as short as the longest text of the batch.
        group_size: int, how many rows of similar length are computed together; None, the default, for a
            whole batch.
    """

    group_size = None

    def __init__(self, backbone, max_length, preprocess):
        self._backbone, self._preprocess = backbone, preprocess
        self.max_length = max_length
        self.any_length = mixes_any_length(backbone)

    def of_texts(self, text):
        """Takes texts [B], or pairs as a tuple of two; makes training's rows without most shared pads."""
        rows = self._preprocess(text)
        return shortened(rows, self.max_length) if self.any_length else rows

    def of_ids(self, token_ids):
        """Takes token ids [B,T] with pads = 0, including the end token."""
        token_ids = token_ids[:, : self.max_length]
        if not self.any_length:
            missing = self.max_length - tf.shape(token_ids)[1]
            token_ids = tf.ensure_shape(tf.pad(token_ids, [[0, 0], [0, missing]]), [None, self.max_length])
        return {"token_ids": token_ids, "padding_mask": token_ids != 0}

    def answered(self, function, rows):
        """Applies a function to rows [B,T], which returns a dict of tensors [B,...]; see `group_size`."""
        if self.group_size is None or not self.any_length:
            return function(rows)
        return in_groups(function, rows, self.group_size, ROUND_TO)

    def full_length(self, values):
        """Fills up values of the places of rows, [B,T], with "" or 0 to [B,L].

        No output's length may depend on the longest text of its batch: a server that splits a request, or
        joins several, could not put such parts together, and TensorFlow Serving ends there.
        """
        filled = tf.pad(values, [[0, 0], [0, self.max_length - tf.shape(values)[1]]])
        return tf.ensure_shape(filled, [None, self.max_length])

    def embed(self, rows):
        """Returns the mean of the encoder's output over the tokens of each row, float32 [B,D].

        A decoder-only model reads the text as a source, in the stack that its `encoder_only()` has.
        """
        backbone, mask = self._backbone, rows["padding_mask"]
        encoded = backbone.read(rows["token_ids"], mask)
        weight = tf.expand_dims(tf.cast(backbone.encoder_output_mask(mask), tf.float32), -1)  # [B,T,1]
        total = tf.reduce_sum(tf.cast(encoded, tf.float32) * weight, axis=1)  # [B,D]
        return total / tf.maximum(tf.reduce_sum(weight, axis=1), 1.0)
