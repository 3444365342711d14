"""A SavedModel made in a moment, whose answers are known: the text in capitals, and its length."""

import pytest
import tensorflow as tf


def save_capitals(path, offset=0.0):
    """Writes the model; `offset` is added to its scores."""
    module = tf.Module()
    module.offset = tf.Variable(offset)
    text, pair = tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([None], tf.string, "text_pair")

    @tf.function(input_signature=[text])
    def capitals(text):
        length = tf.cast(tf.strings.length(text), tf.float32) + module.offset
        return {"label": tf.strings.upper(text), "scores": tf.stack([length, -length], axis=1)}

    @tf.function(input_signature=[text, pair])
    def joined(text, text_pair):
        return {"joined": text + "|" + text_pair}

    @tf.function(input_signature=[text])
    def total(text):
        return {"count": tf.size(text)}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "token_ids")])
    def ids(token_ids):
        return {"sum": tf.reduce_sum(token_ids, axis=1)}

    signatures = {"serving_default": capitals, "pair": joined, "total": total, "ids": ids}
    tf.saved_model.save(module, str(path), signatures)
    return str(path)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return save_capitals(tmp_path_factory.mktemp("models") / "1")
