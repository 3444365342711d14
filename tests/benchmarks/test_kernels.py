import dataclasses

import numpy as np
import pytest
from absl.testing import flagsaver

from benchmarks import goals, kernels
from benchmarks.kernels import Settings
from benchmarks.machine import optional_torch

TINY = Settings(
    dtypes=("float32",),
    paddings=("same", "causal"),
    kernel_sizes=(3,),
    lengths=(8,),
    num_tokens=16,
    hidden_dim=8,
    num_heads=2,
    repeats=1,
    min_seconds=0.0,
)


def values(name, outputs):
    """The outputs of a form, the first of them as [B,T,D]."""
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    arrays = [np.asarray(array.detach().numpy() if hasattr(array, "detach") else array) for array in outputs]
    if name.startswith("conv1d"):
        arrays[0] = arrays[0].transpose(0, 2, 1)
    return arrays


@pytest.mark.parametrize("mixer", kernels.MIXERS)
@pytest.mark.parametrize("padding", ["same", "causal"])
@pytest.mark.parametrize("backward", [False, True])
def test_all_forms_agree(mixer, padding, backward):
    pytest.importorskip("torch", reason="a peer of the benchmarks, in requirements-bench.txt")
    setting = {
        "dtype": "float32",
        "padding": padding,
        "kernel_size": 3,
        "length": 8,
        "batch_size": 2,
        "hidden_dim": 8,
        # One head, where the two maps of channels to heads are the same.
        "num_heads": {"dilated_conv": 8, "lightweight_conv": 1, "dynamic_conv": 2}[mixer],
        "dilation_rate": 2 if mixer == "dilated_conv" else 1,
        "seed": 0,
    }
    forms = kernels.candidates(mixer, setting, backward)
    expected = values("convnlp", forms["TensorFlow"]["convnlp"]())
    tried = 0
    for by_name in forms.values():
        for name, call in by_name.items():
            found = values(name, call())
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                # float32 sums of up to 16 terms in another order; the taps' gradient of the fast form too.
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=f"{mixer} {name}")
            tried += 1
    assert tried == {"lightweight_conv": 9, "dilated_conv": 7, "dynamic_conv": 6}[mixer]


def test_rows():
    settings = dataclasses.replace(
        TINY, mixers=("lightweight_conv", "dynamic_conv"), paddings=("causal",), dtypes=("bfloat16",)
    )
    found = list(kernels.rows(settings))
    peers = ["PyTorch", "PyTorch conv1d", "TensorFlow"] if optional_torch() else ["TensorFlow"]
    expected = [
        f"{mixer} {direction} vs {peer}"
        for mixer in settings.mixers
        for direction in ("forward", "forward+backward")
        for peer in peers
        if mixer == "lightweight_conv" or peer != "PyTorch conv1d"
    ]
    assert [row.name for row in found] == expected
    for row in found:
        forms = row.detail["forms_ms"]
        assert row.ratio > 0
        if row.name.endswith("conv1d"):
            assert row.detail["form"] == "conv1d"
        else:
            assert forms[row.detail["form"]] == min(forms.values())
        assert row.setting["length"] * row.setting["batch_size"] == 16


def test_operations_are_those_that_are_asked_for():
    settings = dataclasses.replace(TINY, paddings=("same",))
    with flagsaver.flagsaver(operations=["dilated_conv"]):
        assert {row.name.partition(" ")[0] for row in kernels.rows(settings)} == {"dilated_conv"}
    message = r"`--operations` must be among lightweight_conv, .*Received: 'conv'"
    with flagsaver.flagsaver(operations=["conv"]), pytest.raises(ValueError, match=message):
        next(kernels.rows(settings))


def test_the_grid_has_a_row_for_every_goal():
    wanted = [entry for entry in goals.GOALS if entry[0].partition(" ")[0] in kernels.MIXERS]
    assert len(wanted) == 12
    for settings in (kernels.FULL, kernels.SHORT):
        points = list(kernels.grid(settings))
        for name, conditions, _ in wanted:
            assert any(
                name.startswith(f"{mixer} ") and conditions.items() <= setting.items()
                for mixer, setting in points
            )
