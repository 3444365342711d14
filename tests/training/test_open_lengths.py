"""One graph of the training step for batches of all lengths, against a graph for each length."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.models import Seq2SeqBackbone, TextClassifier
from convnlp.tasks.classification import classification_loss
from convnlp.training import graphs, optimizers, strategy
from tests.mixer_table import MIXER_TABLE
from tests.training.toy import OPTIMIZER

USUAL = ("dynamic_conv", "self_attention")
LENGTHS = (8, 16, 5)
BATCH_SIZE, VOCABULARY = 6, 50
SHAPES = {  # of a super-batch, -1 for the length
    "token_ids": ([1, BATCH_SIZE, -1], tf.int32),
    "padding_mask": ([1, BATCH_SIZE, -1], tf.bool),
    "label": ([1, BATCH_SIZE], tf.int32),
    "weight": ([1, BATCH_SIZE], tf.float32),
}
SPEC = {
    name: tf.TensorSpec([None if size < 0 else size for size in shape], dtype)
    for name, (shape, dtype) in SHAPES.items()
}


def batch(length):
    random = np.random.default_rng(length)
    mask = np.arange(length) < random.integers(1, length + 1, [1, BATCH_SIZE, 1])
    return {
        "token_ids": tf.constant(random.integers(1, VOCABULARY, mask.shape) * mask, tf.int32),
        "padding_mask": tf.constant(mask),
        "label": tf.constant(random.integers(0, 3, [1, BATCH_SIZE]), tf.int32),
        "weight": tf.ones([1, BATCH_SIZE]),
    }


def trained(mixer, spec):
    """Returns (metrics of a step for each length, how often the loss was traced)."""
    tf.keras.utils.set_random_seed(0)
    backbone = Seq2SeqBackbone(
        VOCABULARY, 1, 2, 16, 32, num_decoder_layers=0, encoder_mixer=mixer, max_sequence_length=16
    )
    model, traces = TextClassifier(backbone, 3), []
    loss_of = classification_loss(model)

    def loss_fn(*arguments):
        traces.append(arguments)
        return loss_of(*arguments)

    optimizer = optimizers.build(OPTIMIZER, 10)
    optimizers.build_slots(optimizer, model.trainable_variables)
    steps = graphs.training_steps(strategy.build("one_device"), model, optimizer, loss_fn, 1.0, seed=0)
    metrics = [steps(batch(length), number, spec)[0] for number, length in enumerate(LENGTHS)]
    return metrics, len(traces)


@pytest.mark.parametrize(
    "mixer",
    [pytest.param(name, marks=[] if name in USUAL else [pytest.mark.slow]) for name in MIXER_TABLE],
)
def test_one_graph_trains_as_one_for_each_length_does(mixer):
    """The losses of later steps depend on the weights that the earlier ones have left."""
    metrics, traces = trained(mixer, SPEC)
    expected, for_each = trained(mixer, None)
    assert (traces, for_each) == (1, len(LENGTHS))
    for found, wanted in zip(metrics, expected, strict=True):
        assert found["tokens"] == wanted["tokens"]
        np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=1e-4)
        np.testing.assert_allclose(found["gradient_norm"], wanted["gradient_norm"], rtol=1e-3)
