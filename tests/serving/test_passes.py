"""Workers serve a version when all have loaded it, whatever they meet and whoever dies."""

import random

import pytest

from convnlp.serving.workers.passes import GO, PUT_OFF, Pass

A, B = ("a", 1), ("b", 1)


def test_nothing_is_served_before_all_have_it():
    one = Pass({1: set(), 2: set(), 3: set()})
    assert one.wait(1, A) == []
    assert one.wait(2, A) == []
    assert one.wait(3, A) == [(1, GO), (2, GO), (3, GO)]
    assert not one.is_over
    assert [one.end(worker) for worker in (1, 2, 3)] == [[], [], []]
    assert one.is_over


def test_one_that_serves_it_already_is_not_waited_for():
    """As when a worker has been started again."""
    one = Pass({1: {A}, 2: set()})
    assert one.end(1) == []
    assert one.wait(2, A) == [(2, GO)]


def test_a_version_that_one_cannot_load_is_an_error_for_all():
    one = Pass({1: set(), 2: set()})
    one.wait(1, A)
    assert one.wait(2, A, ("RESOURCE_EXHAUSTED", "no memory")) == [
        (1, {"verdict": "error", "code": "RESOURCE_EXHAUSTED", "message": "worker 2: no memory"}),
        (2, {"verdict": "error", "code": "RESOURCE_EXHAUSTED", "message": "no memory"}),
    ]


def test_a_version_that_one_has_not_met_is_put_off():
    one = Pass({1: set(), 2: set()})
    assert one.end(2) == []
    assert one.wait(1, A) == [(1, PUT_OFF)]


def test_an_error_of_its_own_is_told_at_once():
    """Or a worker that tries again what the others rest from would try it at every look."""
    one = Pass({1: set(), 2: set()})
    one.end(2)
    assert one.wait(1, A, ("DATA_LOSS", "cut")) == [
        (1, {"verdict": "error", "code": "DATA_LOSS", "message": "cut"})
    ]


def test_two_that_wait_for_different_versions_do_not_wait_for_each_other():
    one = Pass({1: set(), 2: set()})
    one.wait(1, A)
    assert one.wait(2, B) == [(1, PUT_OFF), (2, PUT_OFF)]


def test_the_dead_are_not_waited_for():
    one = Pass({1: set(), 2: set()})
    one.wait(1, A)
    assert one.leave(2) == [(1, GO)]
    one.end(1)
    assert one.is_over
    last = Pass({1: set()})
    assert last.leave(1) == []
    assert last.is_over


@pytest.mark.parametrize("seed", range(200))
def test_any_pass_comes_to_its_end_with_the_same_at_all(seed):
    """Workers meet some of the versions in a common order, some fail, some die, at random moments."""
    rng = random.Random(seed)
    versions = [("m", number) for number in range(4)]
    workers = list(range(1, rng.randint(2, 4) + 1))
    before = {worker: {version for version in versions if rng.random() < 0.2} for worker in workers}
    to_do = {
        worker: [version for version in versions if version not in before[worker] and rng.random() < 0.8]
        for worker in workers
    }
    one, serves = Pass(before), {worker: set(keys) for worker, keys in before.items()}
    running, waiting, added = set(workers), {}, set()
    for _ in range(1000):
        if one.is_over:
            break
        assert running, "all wait, and nobody has been told anything"
        worker = rng.choice(sorted(running))
        if len(serves) > 1 and rng.random() < 0.05:
            told = one.leave(worker)
            running.discard(worker)
            del serves[worker]
        elif to_do[worker]:
            waiting[worker] = to_do[worker].pop(0)
            running.discard(worker)
            told = one.wait(worker, waiting[worker], ("UNKNOWN", "x") if rng.random() < 0.2 else None)
        else:
            running.discard(worker)
            told = one.end(worker)
        for other, verdict in told:
            key = waiting.pop(other)
            running.add(other)
            if verdict is GO:
                serves[other].add(key)
                added.add(key)
    assert one.is_over
    assert not waiting
    for version in added:
        assert all(version in keys for keys in serves.values()), version
