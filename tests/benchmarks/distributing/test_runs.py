"""Which runs there are, what is read off them, and one of them in small."""

import os

import pytest

from benchmarks import tiny_run
from benchmarks.distributing import runs
from benchmarks.distributing.runs import Layout, Mark
from benchmarks.processes import cores


def test_workers_have_cores_of_their_own_as_far_as_there_are_any():
    assert runs.layouts([3, 1, 2], [4, 6], 6) == [
        Layout(1, 1, ((4,),), (6, 3, 2)),
        Layout(2, 1, ((4,), (6,)), (12, 6)),
        Layout(3, 1, ((4, 6), (4, 6), (4, 6)), (18, 6)),
        Layout(1, 2, ((4, 6),), (12, 2)),
    ]
    assert [layout.num_cores for layout in runs.layouts([1, 2, 4], [0, 1, 2], 4)] == [1, 2, 3, 3]
    assert runs.layouts([1, 2], [0], 2) == [
        Layout(1, 1, ((0,),), (2, 1)),
        Layout(2, 1, ((0,), (0,)), (4, 2)),
    ]


def test_the_first_call_of_a_stage_does_not_count():
    # Steps 12 to 20, in calls of 4; 100 tokens a step. The trainer's clock leaves out what is between calls.
    marks = {
        4: Mark(0.0, 1.0, 400, 1.0, 0.0),
        12: Mark(10.0, 1.0, 1200, 5.0, 2.0),
        16: Mark(14.0, 200.0, 1600, 8.0, 2.5),
        20: Mark(20.0, 100.0, 2000, 13.0, 3.0),
    }
    found = runs.of_stage(marks, 12, calls=2)
    assert found["seconds"] == pytest.approx([0.5, 1.0])
    assert found["cpu_seconds"] == pytest.approx(1.0)
    assert found["tokens"] == pytest.approx(100.0)
    assert found["others_share"] == pytest.approx(1.0 / 10 / os.cpu_count())


def test_rounds_are_put_together():
    first = {"num_workers": 2, "threads": 1, "num_cores": 2, "rows": 6, "tokens": 1536.0}
    samples = [
        {**first, "seconds": [1.0, 2.0], "cpu_seconds": 3.0, "others_share": 0.0},
        {**first, "rows": 3, "seconds": [5.0], "cpu_seconds": 1.0, "others_share": 0.5},
        {**first, "seconds": [4.0], "cpu_seconds": 5.0, "others_share": 0.1},
    ]
    found, other = runs.together(samples)
    assert found == {
        **first,
        "seconds": [1.0, 2.0, 4.0],
        "cpu_seconds": 4.0,
        "others_share": 0.05,
        "rounds": 2,
    }
    assert (other["rows"], other["rounds"]) == (3, 1)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_a_run_of_three_workers(tmp_path):
    _, layout, *_ = runs.layouts([1, 3], cores(), 6)
    small = {key: value for key, value in tiny_run.fields(1, 1).items() if key.startswith("model.")}
    weak, strong = runs.measure(layout, tmp_path, calls=2, fields={**small, "data.input_length": 32})
    assert (weak["rows"], strong["rows"]) == (6, 2)
    assert (weak["tokens"], strong["tokens"]) == (3 * 6 * 32, 6 * 32)
    for each in (weak, strong):
        assert len(each["seconds"]) == 2
        assert all(seconds > 0 for seconds in each["seconds"])
        assert each["cpu_seconds"] > 0


@pytest.mark.multiprocess
def test_a_run_that_fails_says_why(tmp_path):
    layout = Layout(1, 1, (tuple(cores()[:1]),), (4,))
    with pytest.raises(ValueError, match=r"with 1 workers has ended with exit code 1.*model.hidden_dim"):
        runs.measure(layout, tmp_path, calls=1, fields={"model.hidden_dim": -1})
