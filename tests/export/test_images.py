"""Stacks of convolutions as TFLite: rows are images of height 1 from the first layer to the last."""

import collections

import numpy as np
import pytest

from convnlp.export.lite import delegation, tflite_files
from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer
from tests import corpus

LENGTH, LAYERS = 24, 3


def classifier(**options):
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(),
        **{"num_layers": LAYERS, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2, **options},
        num_decoder_layers=0,
        max_sequence_length=LENGTH,
    )
    return TextClassifier(backbone, 3, TextClassifierPreprocessor(tokenizer, LENGTH))


CONVOLUTIONS = {
    "one filter a head": {"mixer": "lightweight_conv", "kernel_size": [3, 7, 4]},
    "two gates": {"mixer": "lightweight_conv", "mixer_options": {"double_gate": True}},
    "a filter a channel": {"mixer": "dilated_conv"},
}
OTHERS = {
    "another mixer": {"mixer": ["lightweight_conv", "dynamic_conv", "lightweight_conv"]},
    "dilation": {"mixer": "lightweight_conv", "dilation_rate": 2},
    "merged positions": {"mixer": "lightweight_conv", "pool_size": [1, 2, 1]},
}


@pytest.mark.parametrize("options", [*CONVOLUTIONS.values(), *OTHERS.values()], ids=[*CONVOLUTIONS, *OTHERS])
def test_answers_with_pads_equal_the_model(options):
    model = classifier(**options)
    run = tflite_files.runner(tflite_files.converted(model, "fp32")[1])
    rng = np.random.default_rng(0)
    for batch, length in ((1, 5), (4, LENGTH), (3, 9)):
        ids = rng.integers(3, 60, [batch, length]).astype("int32")
        for row in range(1, batch):
            ids[row, length - 2 * row :] = 0
        expected = model({"token_ids": ids, "padding_mask": ids != 0}, training=False)
        np.testing.assert_allclose(run(ids), expected, atol=5e-6)  # float32 sums in another order


@pytest.mark.parametrize(
    ("options", "copies"),
    [*((options, 0) for options in CONVOLUTIONS.values()), (OTHERS["another mixer"], 2)],
    ids=[*CONVOLUTIONS, "another mixer"],
)
def test_nothing_is_copied_around_a_convolution(options, copies):
    """Of copies one stands in front of the first layer and one behind the last."""
    found, _ = delegation.operations(tflite_files.converted(classifier(**options), "dynamic")[1], 1, 8)
    by_layer = collections.Counter(each.kind for each in found if each.place != "elsewhere")
    assert by_layer["DEPTHWISE_CONV_2D"] == LAYERS - (copies > 0)
    assert by_layer["SQUEEZE"] == copies
