"""What counts as survived, and how faults are counted. The program itself takes most of an hour."""

import collections
import dataclasses

import pytest

from benchmarks import faults

KILLED = faults.Fault(
    3,
    "killed",
    1,
    wait=5,
    said="launch: worker 1 of 3 was ended by SIGKILL (at step 6)",
    restarted=True,
    differs=[],
)
SLOWED = faults.Fault(3, "slowed", 0, wait=5, said="[0] worker 0 is slow: each of", differs=[])


@pytest.mark.parametrize(
    ("fault", "survived"),
    [
        (KILLED, True),
        (SLOWED, True),
        (dataclasses.replace(KILLED, worker=2), False),  # another one was named
        (dataclasses.replace(KILLED, kind="hung"), False),  # for another reason
        (dataclasses.replace(KILLED, said=""), False),
        (dataclasses.replace(KILLED, restarted=False), False),
        (dataclasses.replace(SLOWED, restarted=True), False),
        (dataclasses.replace(KILLED, differs=["metrics.jsonl"]), False),
        (dataclasses.replace(KILLED, differs=None), False),  # never compared
    ],
)
def test_what_is_survived(fault, survived):
    assert fault.is_survived() is survived


def test_the_plan_follows_its_seed_and_has_all_kinds():
    found = faults.plan(3, 10, seed=4)
    assert found == faults.plan(3, 10, seed=4)
    assert found != faults.plan(3, 10, seed=5)
    assert sorted(collections.Counter(fault.kind for fault in found).values()) == [2, 2, 3, 3]
    assert {fault.worker for fault in found} <= {0, 1, 2}
    assert all(1 <= fault.wait <= faults.LATEST for fault in found)


def test_every_failure_shows_in_the_table():
    found = [
        KILLED,
        dataclasses.replace(KILLED, num_workers=2, said=""),
        dataclasses.replace(KILLED, restarted=False),
        dataclasses.replace(KILLED, differs=["metrics.jsonl"]),
        SLOWED,
    ]
    assert faults.table(found).splitlines()[2:] == [
        "| killed | 2 | 1 | 0 | 1 | 1 |",
        "| killed | 3 | 3 | 3 | 2 | 2 |",
        "| slowed | 3 | 1 | 1 | 1 | 1 |",
    ]
