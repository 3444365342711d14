"""The plain form neither gathers nor scatters: a TPU does both entry by entry (docs/tpu.md)."""

import pytest
import tensorflow as tf

from convnlp import kernels
from convnlp.layers import build_mixer
from convnlp.testing import DIM
from tests.mixer_table import MIXER_TABLE

# Its table of distances is as long as the row, too long for a product with ones and zeros.
LOOKS_UP = {"relative_attention"}


@pytest.mark.parametrize("name", sorted(MIXER_TABLE))
def test_training_looks_nothing_up(name):
    mixer = build_mixer(name, hidden_dim=DIM, **MIXER_TABLE[name].variants[0])
    x = tf.ones([2, 20, DIM])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = mixer(x, training=True)
        return tape.gradient(y, [x, *mixer.trainable_variables])

    with kernels.implementation("plain"):
        mixer(x)
        graph = step.get_concrete_function(x).graph.as_graph_def()
    operations = {node.op for node in graph.node}
    operations |= {node.op for function in graph.library.function for node in function.node_def}
    looked_up = {op for op in operations if any(word in op for word in ("Gather", "Scatter", "Segment"))}
    assert bool(looked_up) == (name in LOOKS_UP), looked_up
