"""The profile names and counts the operations that a model runs, at a size at which times mean nothing."""

import pytest

from benchmarks import machine, profile
from benchmarks.small_models import CONVOLUTION

SIZES = {
    "vocabulary_size": 60,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 24,
}


def found(work, dtype="float32", num_calls=2):
    """Dict, name of a call -> (ms, kinds), of a tiny model."""
    calls = profile.calls(work, dtype, CONVOLUTION, 8, SIZES, tokens_per_call=16)
    return {name: profile.profile(call, kinds_of, num_calls) for name, (call, kinds_of) in calls.items()}


def times(kinds, word):
    """How many operations a call has whose kind contains that word."""
    return sum(times for kind, (_, times) in kinds.items() if word.lower() in kind.lower())


def test_of_an_encoder():
    profiles = found("encoder")
    milliseconds, kinds = profiles["convnlp"]
    assert milliseconds > 0
    assert times(kinds, "MatMul") == 2 * 4 + 1  # a layer's gate, output, inner and outer; the head
    assert times(kinds, "Depthwise") == 2
    assert all(milliseconds > 0 for milliseconds, _ in kinds.values())
    if machine.optional_torch():
        kinds = profiles["PyTorch convolution encoder, float32"][1]
        assert times(kinds, "aten::mm") == 2 * 4
        assert times(kinds, "glu") == 2


@pytest.mark.slow
def test_of_a_training_step():
    _, forward = found("encoder")["convnlp"]
    _, step = found("training")["convnlp"]
    assert times(step, "MatMul") > 3 * times(forward, "MatMul")
    assert times(step, "AssignSub") + times(step, "AssignVariable") > 0


def test_pytorch_trains_in_bfloat16():
    pytest.importorskip("torch", reason="a peer of the benchmarks, in requirements-bench.txt")
    assert "PyTorch" not in profile.calls("training", "float32", CONVOLUTION, 8, SIZES, tokens_per_call=16)
    kinds = found("training", "bfloat16")["PyTorch"][1]
    assert times(kinds, "backward") > 0
