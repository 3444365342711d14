"""Which worker is called slow."""

import pytest

from convnlp.training.stragglers import NUM_WINDOWS, Stragglers


def said(waited, windows=NUM_WINDOWS, seconds=10.0, calls=5, stragglers=None):
    """What is said when the workers wait for these shares of the time, in calls of a fifth of a window."""
    stragglers = stragglers or Stragglers(len(waited), window_seconds=seconds)
    step = seconds / calls
    found = [stragglers.update([share * step for share in waited], step) for _ in range(windows * calls)]
    return [text for text in found if text]


def test_one_that_all_others_wait_for():
    assert said([0.5, 0.01, 0.4]) == [
        "worker 1 is slow: it worked for 99% of the last 10 s, each of the others for at most 60%; "
        "they waited for it"
    ]


@pytest.mark.parametrize(
    "waited",
    [
        [0.1, 0.1, 0.1],
        [0.01, 0.01, 0.5],  # one is fast: no reason to complain of the others
        [0.3, 0.28, 0.35],  # all wait: the network
        [0.7, 0.66, 0.72],
        [0.14, 0.0, 0.14],  # too little
        [0.0],
    ],
)
def test_nobody_in_particular(waited):
    assert said(waited, windows=4) == []


def test_a_moment_is_not_enough():
    stragglers = Stragglers(2, window_seconds=10.0)
    assert said([0.5, 0.0], windows=1, stragglers=stragglers) == []
    assert said([0.1, 0.1], windows=1, stragglers=stragglers) == []
    assert said([0.5, 0.0], windows=1, stragglers=stragglers) == []


def test_what_stays_so_is_said_less_and_less_often():
    stragglers = Stragglers(2, window_seconds=10.0)
    assert len(said([0.5, 0.0], windows=8, stragglers=stragglers)) == 3  # after 2, 4 and 8 windows
    assert len(said([0.0, 0.5], windows=2, stragglers=stragglers)) == 1
