"""The step that is measured is the program's, and its operations are those of its products."""

import dataclasses

import pytest

from benchmarks.pretraining import encoder_step

WIDTH, INNER, LENGTH = 16, 24, 8
SETTINGS = encoder_step.Settings(
    batch_sizes=(2,),
    vocabulary_size=200,
    repeats=1,
    changes={
        "model.num_layers": 1,
        "model.num_heads": 2,
        "model.hidden_dim": WIDTH,
        "model.intermediate_dim": INNER,
        "model.kernel_size": (3,),
        "data.input_length": LENGTH,
        "train.dtype": "float32",
    },
)


def test_a_step_trains():
    step, backbone, _ = encoder_step.step("dynamic_conv", 2, SETTINGS)
    before = [variable.numpy() for variable in backbone.trainable_variables]
    losses = [float(step()[0]["loss"][0]) for _ in range(2)]
    assert losses[0] != losses[1]
    changed = [
        (old != new.numpy()).any() for old, new in zip(before, backbone.trainable_variables, strict=True)
    ]
    assert all(changed)


def test_rows():
    settings = dataclasses.replace(SETTINGS, mixers=("lightweight_conv",))
    rows = list(encoder_step.rows(settings))
    assert [(row.setting["mixer"], row.unit) for row in rows] == [
        (mixer, unit)
        for mixer in ("lightweight_conv", "self_attention")
        for unit in ("tokens/s", "of the ceiling")
    ]
    assert rows[0].ours == pytest.approx(2 * LENGTH / (rows[0].detail["ours_ms"]["median"] / 1000), rel=1e-3)
    assert rows[0].peer == pytest.approx(rows[2].ours)


def test_the_operations_of_a_row_are_three_times_those_of_its_products():
    _, backbone, _ = encoder_step.step("lightweight_conv", 2, SETTINGS)
    block = 3 * WIDTH**2 + 3 * WIDTH + 2 * WIDTH * INNER
    logits = 1 * WIDTH * 200  # 15 % of 8 positions
    assert encoder_step.row_operations(backbone, LENGTH) == 3 * 2 * (LENGTH * block + logits)
