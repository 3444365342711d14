"""How far down each variable of a model is."""

import pytest

from convnlp.models import PrefixLM, Seq2SeqBackbone, Seq2SeqLM, TextClassifier

SMALL = {"num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "mixer": "lightweight_conv"}


def depths(model, backbone):
    """Dict from the first parts of a variable's path to the depths of the variables there."""
    found = {}
    for variable in model.trainable_variables:
        parts = variable.path.split("/")
        layer = next((part for part in parts if part.startswith("layer_")), "")
        stack = next((part for part in ("encoder", "decoder", "embedding") if part in variable.path), "head")
        found.setdefault(f"{stack} {layer}".strip(), set()).add(backbone.depth_of(variable))
    return found


@pytest.mark.parametrize("position_embedding", ["none", "learned"])
def test_a_classifier(position_embedding):
    backbone = Seq2SeqBackbone(
        20, num_layers=3, num_decoder_layers=0, position_embedding=position_embedding, **SMALL
    )
    assert depths(TextClassifier(backbone, num_classes=2), backbone) == {
        "embedding": {4},
        "encoder layer_0": {3},
        "encoder layer_1": {2},
        "encoder layer_2": {1},
        "encoder": {0},  # the last norm
        "head": {0},
    }


def test_an_encoder_and_a_decoder():
    backbone = Seq2SeqBackbone(20, num_layers=1, num_decoder_layers=2, **SMALL)
    assert depths(Seq2SeqLM(backbone), backbone) == {
        "embedding": {3},
        "encoder layer_0": {1},
        "decoder layer_0": {2},
        "decoder layer_1": {1},
        "encoder": {0},
        "decoder": {0},
    }


def test_language_models_of_one_stack():
    backbone = Seq2SeqBackbone(20, num_layers=2, num_decoder_layers=0, **SMALL)
    expected = {"embedding": {3}, "encoder layer_0": {2}, "encoder layer_1": {1}, "encoder": {0}}
    assert depths(PrefixLM(backbone), backbone) == expected
    backbone = Seq2SeqBackbone(20, num_layers=0, num_decoder_layers=2, **SMALL)
    expected = {"embedding": {3}, "decoder layer_0": {2}, "decoder layer_1": {1}, "decoder": {0}}
    assert depths(Seq2SeqLM(backbone), backbone) == expected
