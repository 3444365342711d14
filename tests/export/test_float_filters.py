"""Filters of depthwise convolutions in the mode dynamic."""

import numpy as np
import tensorflow as tf

from convnlp.export.lite import delegation, tflite_files
from convnlp.export.lite.float_filters import with_float_filters
from convnlp.export.lite.forms import form_named

CHANNELS, TAPS = 256, 7  # 1,792 weights: fewer than 1,024 stay float32 by themselves


def test_the_fast_implementation_takes_the_convolution():
    random = np.random.default_rng(0)
    table = random.normal(size=[50, CHANNELS]).astype("float32")
    matrix = random.normal(size=[CHANNELS, CHANNELS]).astype("float32")
    taps = random.normal(size=[1, TAPS, CHANNELS, 1]).astype("float32")

    def convolution(ids):
        x = tf.expand_dims(tf.gather(tf.constant(table), ids), 1)  # [B,1,T,D]
        return tf.nn.depthwise_conv2d(x, tf.constant(taps), [1, 1, 1, 1], "SAME")[:, 0]

    def converter(function):
        concrete = tf.function(function).get_concrete_function(tf.TensorSpec([None, None], tf.int32))
        return tf.lite.TFLiteConverter.from_concrete_functions([concrete])

    as_it_comes = converter(convolution)
    as_it_comes.optimizations = [tf.lite.Optimize.DEFAULT]
    as_it_comes = as_it_comes.convert()
    ours = form_named("dynamic").flatbuffer(converter(convolution), None)
    assert with_float_filters(ours) == ours

    def is_fast(content):
        found, _ = delegation.operations(content, 1, 9)
        (taken,) = (each.is_fast for each in found if each.kind == "DEPTHWISE_CONV_2D")
        return taken

    assert is_fast(ours)
    assert not is_fast(as_it_comes)  # else there is no need for this any more
    # Four bytes in place of one, without a scale (4) and a zero (8) for each channel; and some padding.
    assert abs(len(ours) - len(as_it_comes) - (3 * TAPS - 12) * CHANNELS) < 500

    # The table is rounded to steps of 1/127 of its largest number, each channel's filter by those of its own:
    # by half a step at most. The activations are not rounded again.
    ids = random.integers(0, 50, [2, 9]).astype("int32")
    step_of_table = np.abs(table).max() / 127
    step_of_taps = np.abs(taps[0, :, :, 0]).max(0) / 127  # [D]
    windows = np.pad(np.abs(table[ids]), [[0, 0], [TAPS // 2] * 2, [0, 0]])
    met = sum(windows[:, j : j + 9] for j in range(TAPS))  # [B,T,D]
    sizes = np.abs(taps[0, :, :, 0]).sum(0)  # [D]
    bound = 0.5 * step_of_table * (sizes + 0.5 * TAPS * step_of_taps) + 0.5 * step_of_taps * met
    error = np.abs(tflite_files.runner(ours)(ids) - convolution(ids).numpy())
    assert (error <= bound + 1e-5).all()

    def product(ids):
        return tf.gather(tf.constant(table), ids) @ tf.constant(matrix)

    as_it_comes = converter(product)
    as_it_comes.optimizations = [tf.lite.Optimize.DEFAULT]
    content = as_it_comes.convert()
    np.testing.assert_array_equal(
        tflite_files.runner(with_float_filters(content))(ids), tflite_files.runner(content)(ids)
    )
