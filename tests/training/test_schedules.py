"""Schedules against their formulae in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.training.schedules import SCHEDULES, Schedule

N, W, D, P = 100, 10, 30, 2.0
STEPS = np.array([0, 1, 5, 9, 10, 50, 69, 70, 85, 99])
EXPECTED = {
    "inverse_sqrt": P / np.sqrt(np.maximum(STEPS, W)),
    "constant": np.full(len(STEPS), P),
    "warmup_linear": P * np.minimum(1, np.minimum((STEPS + 1) / W, (N - STEPS) / (N - W))),
    "warmup_flat_linear": P * np.minimum(1, np.minimum((STEPS + 1) / W, (N - STEPS) / D)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_values(name):
    schedule = Schedule(name, learning_rate=P, num_steps=N, warmup_steps=W, decay_steps=D)
    values = [float(schedule(step)) for step in STEPS]
    np.testing.assert_allclose(values, EXPECTED[name], rtol=1e-6)  # float32


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_whole_number_is_a_rate_like_any_other(name):
    schedule = Schedule(name, learning_rate=1, num_steps=N)
    assert schedule(0).dtype == schedule(np.int64(3)).dtype == tf.float32


@pytest.mark.parametrize("name", ["warmup_linear", "warmup_flat_linear"])
def test_no_rate_is_negative(name):
    """Keras' `fit` may go on beyond the number of steps; a negative rate would undo the training."""
    schedule = Schedule(name, learning_rate=P, num_steps=N, warmup_steps=W, decay_steps=D)
    assert [float(schedule(step)) for step in (N, N + 1, 2 * N)] == [0.0] * 3


def test_the_papers_rate():
    schedule = Schedule("inverse_sqrt", learning_rate=1.0, num_steps=2**19, warmup_steps=10_000)
    assert float(schedule(0)) == pytest.approx(0.01)
    assert float(schedule(2**19)) == pytest.approx(1.381e-3, rel=1e-3)  # as architectures print it


def test_config_round_trip():
    schedule = Schedule("warmup_flat_linear", learning_rate=P, num_steps=N, warmup_steps=W, decay_steps=D)
    assert vars(Schedule.from_config(schedule.get_config())) == vars(schedule)


def test_a_decay_may_be_as_long_as_the_run():
    schedule = Schedule("warmup_flat_linear", learning_rate=P, num_steps=N, decay_steps=N)
    assert [float(schedule(step)) for step in (0, N // 2)] == [P, P / 2]


def test_the_inverse_square_root_without_a_warmup():
    schedule = Schedule("inverse_sqrt", learning_rate=P, num_steps=N)
    assert [float(schedule(step)) for step in (0, 1, 4)] == [P, P, P / 2]


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name != "warmup_flat_linear"])
def test_steps_of_decay_that_do_not_count_may_be_any_number(name):
    assert float(Schedule(name, learning_rate=P, num_steps=N, warmup_steps=W, decay_steps=2 * N)(0)) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "cosine"}, "`schedule` must be one of .* Received: schedule='cosine'"),
        ({"learning_rate": 0}, "`learning_rate` must be positive"),
        *(
            ({"learning_rate": float(rate)}, "`learning_rate` must be positive and finite")
            for rate in ("nan", "inf")
        ),
        ({"name": "warmup_linear", "warmup_steps": N}, "`warmup_steps` must be in"),
        ({"name": "warmup_flat_linear", "decay_steps": N + 1}, "`decay_steps` must be in"),
        ({"decay_steps": -1}, "`decay_steps` must be in"),
        *(({"num_steps": n}, f"`num_steps` must be positive. Received: num_steps={n}") for n in (0, -1)),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        Schedule(**{"name": "constant", "learning_rate": P, "num_steps": N, **arguments})
