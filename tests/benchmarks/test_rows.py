import json
import math

import pytest

from benchmarks import goals, rows
from benchmarks.program import compare
from benchmarks.rows import Row
from benchmarks.timing import Timing

KEYS = {"name", "setting", "ours", "peer", "unit", "ratio", "goal", "met"}


@pytest.mark.parametrize(
    ("better", "ours", "peer", "ratio"),
    [("higher", 30.0, 10.0, 3.0), ("lower", 10.0, 30.0, 3.0), ("limit", 30.0, 10.0, 3.0)],
)
def test_ratio(better, ours, peer, ratio):
    assert Row("a", {}, ours, peer, "u", better).ratio == ratio
    assert Row("a", {}, ours, None, "u", better).ratio is None
    assert Row("a", {}, 0, 0, "u", better).ratio == 1


@pytest.mark.parametrize(
    ("better", "ours", "peer", "goal", "met"),
    [
        ("higher", 30.0, 10.0, 3.0, True),
        ("higher", 29.0, 10.0, 3.0, False),
        ("lower", 10.0, 30.0, 3.0, True),
        ("lower", 11.0, 30.0, 3.0, False),
        ("limit", 21.0, 10.0, 2.1, True),
        ("limit", 22.0, 10.0, 2.1, False),
        ("lower", 0.5, None, 0.5, True),
        ("lower", 0.6, None, 0.5, False),
        ("higher", 0.6, None, 0.5, True),
        ("higher", 0.6, None, None, None),
    ],
)
def test_met(better, ours, peer, goal, met):
    assert Row("a", {}, ours, peer, "u", better, goal).met is met


def test_a_row_says_which_way_it_counts():
    with pytest.raises(ValueError, match=r"`better` must be one of .* Received: 'more'"):
        Row("a", {}, 1.0, 1.0, "u", "more")


def test_the_json_has_the_eight_keys_and_no_number_that_json_does_not_know(tmp_path):
    path = tmp_path / "new" / "rows.json"
    rows.write_json(str(path), {"cpu": "x"}, [Row("a", {"length": 4}, 123456.789, 0.0, "u", "higher")])
    written = json.loads(path.read_text())
    assert set(written) == {"machine", "rows"}
    (row,) = written["rows"]
    assert set(row) == KEYS | {"detail"}
    assert row["ours"] == 123460
    assert (row["ratio"], row["goal"], row["met"]) == (None, None, None)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text("old")
    with pytest.raises(ValueError, match="JSON"):
        rows.write_json(str(path), {"cpu": math.nan}, [])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_printed_line():
    setting = {"dtype": "float32", "length": 512, "seed": 0}
    row = Row("conv vs attention", setting, 12345.0, 10.0, "tokens/s", "higher", 2.0)
    assert rows.line(row.as_dict()) == (
        "| conv vs attention | float32, length=512 | 12,345 | 10 | tokens/s | 1,234 | ≥ 2 | yes |"
    )
    limit = Row("memory", {}, 3.0, 1.0, "MB", "limit", 2.1)
    assert rows.line(limit.as_dict()).endswith("| 3 | ≤ 2.1 | **no** |")


def test_a_comparison_of_two_timings():
    setting = {"dtype": "float32", "length": 512, "padding": "same", "kernel_size": 31}
    ours, peer = (Timing([seconds], 0, 1, seconds) for seconds in (0.002, 0.008))
    row = compare("dynamic_conv forward vs PyTorch", setting, ours, peer, form="unfold")
    assert (row.ours, row.peer, row.ratio, row.goal, row.met) == (2.0, 8.0, 4.0, 4.5, False)
    assert row.detail["form"] == "unfold"
    rate = compare("step", {}, ours, peer, "tokens/s", work=100)
    assert (rate.ours, rate.peer, rate.ratio) == (50000.0, 12500.0, 4.0)
    assert compare("step", {}, ours, None).ratio is None


def test_goals_need_all_of_their_conditions():
    name = "encoder forward vs PyTorch TransformerEncoder, unmasked"
    assert goals.goal(name, {"dtype": "float32", "length": 4096}) == 6.0
    assert goals.goal(name, {"dtype": "bfloat16", "length": 4096}) is None
    assert goals.goal(name, {"length": 4096}) is None
    assert goals.goal("something else", {"dtype": "float32", "length": 4096}) is None
    assert len({(name, tuple(setting.items())) for name, setting, _ in goals.GOALS}) == len(goals.GOALS)
