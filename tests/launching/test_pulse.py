"""Who hangs, by what the workers have written."""

import json

import pytest

from convnlp.launching.pulse import Pulse, hung

TIMEOUT = 60.0
STILL = "hangs: it answers, but has made no progress for 60 s"


def pulse(began=0.0, beats=(), marks=()):
    """A worker that was started at `began`, and wrote {} and marks, (time, values), since."""
    found = Pulse(began)
    for now, values in sorted([*((now, {}) for now in beats), *marks], key=lambda pair: pair[0]):
        found.take(json.dumps(values).encode() + b"\n", now)
    return found


def steps(*times, ready=None):
    """Marks of steps of 10, after each of which the worker is ready for the next, if it is."""
    marks = [
        (now, mark) for n, now in enumerate(times) for mark in ({"step": 10 * n + 10}, {"ready": 10 * n + 10})
    ]
    return marks if ready is None else marks[:-1]


@pytest.mark.parametrize(
    ("pulses", "expected"),
    [
        ({}, {}),
        # All is well, however long the start takes while they answer.
        ({0: pulse(beats=[99]), 1: pulse(beats=[99])}, {}),
        ({0: pulse(beats=[99], marks=steps(50)), 1: pulse(beats=[99], marks=steps(50))}, {}),
        ({0: pulse(), 1: pulse(beats=[99])}, {0: "hangs: it has not started to train within 60 s"}),
        ({0: pulse(began=50.0), 1: pulse(beats=[99])}, {}),
        # Stopped, before and in training: the others are not blamed.
        ({0: pulse(beats=[30]), 1: pulse(beats=[99])}, {0: "hangs: it has not answered for 60 s"}),
        (
            {0: pulse(beats=[99], marks=steps(20)), 1: pulse(marks=steps(20))},
            {1: "hangs: it has not answered for 60 s"},
        ),
        # It has made the step but does not come to the next one, for which the other is ready.
        (
            {0: pulse(beats=[99], marks=steps(20)), 1: pulse(beats=[99], marks=steps(20, ready=False))},
            {1: STILL},
        ),
        # Nobody can say whose fault that is.
        (
            {0: pulse(beats=[99], marks=steps(20)), 1: pulse(beats=[99], marks=steps(20))},
            {0: f"{STILL}, like all others", 1: f"{STILL}, like all others"},
        ),
        ({0: pulse(beats=[99], marks=steps(20))}, {0: STILL}),
        # Some still evaluate; or all steps are done, and what follows takes its time.
        ({0: pulse(beats=[99], marks=steps(20)), 1: pulse(marks=[*steps(20), (99, {"evaluated": 3})])}, {}),
        (
            {
                0: pulse(beats=[99], marks=[*steps(20), (21, {"done": 10})]),
                1: pulse(beats=[99], marks=steps(20)),
            },
            {},
        ),
    ],
)
def test_who_hangs(pulses, expected):
    assert hung(pulses, 100.0, TIMEOUT) == expected


def test_one_that_waits_for_other_machines_does_not_hang():
    """TensorFlow keeps all threads of a process still until the others have come."""
    waits = pulse(beats=[10], marks=[(11, {"connecting": True})])
    assert hung({0: waits}, 100.0, TIMEOUT, are_all=False) == {}
    assert hung({0: waits}, 100.0, TIMEOUT) == {0: "hangs: it has not answered for 60 s"}
    assert not waits.is_silent(100.0)
    waits.take(b'{"connecting": false}', 12.0)
    assert hung({0: waits}, 100.0, TIMEOUT, are_all=False) == {0: "hangs: it has not answered for 60 s"}
    assert waits.is_silent(100.0)


def test_silence():
    found = pulse(beats=[1.0])
    assert not pulse().is_silent(100.0)  # it has not begun
    assert not found.is_silent(5.9)
    assert found.is_silent(6.1)
    assert not pulse(marks=[(1.0, {"ended": True})]).is_silent(100.0)


def test_facts():
    found = pulse(marks=[*steps(1, 2), (3, {"saved": 20})])
    assert found.facts == {"step": 20, "ready": 20, "saved": 20}
    assert found.marks == 5
    assert found.is_training
    found.take(b'{"done": 20}', 4.0)
    assert not found.is_training
    found.take(b'{"ready": 0}', 5.0)
    assert found.is_training
