"""Small SavedModels for the server's tests, written in a moment, without convnlp."""

import socket

import tensorflow as tf


def save_affine(path, offset):
    """Writes a model with y = 0.5 x + offset, and a second signature with two inputs and outputs."""
    module = tf.Module()
    module.scale, module.offset = tf.Variable(0.5), tf.Variable(float(offset))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def affine(x):
        return {"y": module.scale * x + module.offset}

    text, count = tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([None], tf.int32, "count")

    @tf.function(input_signature=[text, count])
    def repeat(text, count):
        return {"length": tf.strings.length(text) * count, "raw_bytes": text}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def slow(x):
        steps = tf.while_loop(lambda i, _: i < 10**9, lambda i, y: (i + 1, y + 1.0), (0, x))
        return {"y": steps[1]}

    tf.saved_model.save(module, str(path), {"serving_default": affine, "repeat": repeat, "slow": slow})


def save_upper(path):
    """Writes a model that answers a text in capitals."""
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def upper(text):
        return {"upper": tf.strings.upper(text)}

    tf.saved_model.save(module, str(path), {"serving_default": upper})


def free_port():
    """Returns a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
