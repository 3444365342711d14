import dataclasses
import doctest

import pytest

from benchmarks.comparison import page, summary_page
from benchmarks.comparison.summary import collect, compared, runs_of
from tests.benchmarks.comparison.test_plan import DATA, PLAN

PLANS = {
    name: dataclasses.replace(PLAN, data=dataclasses.replace(DATA, source=f"jsonl:{name}"))
    for name in ("easy", "hard")
}
# Which of eight test texts are right.
HITS = {
    ("easy", "dynamic_conv"): [1, 1, 1, 1, 1, 1, 1, 0],
    ("easy", "fourier"): [1, 1, 1, 0, 0, 0, 0, 0],
    ("hard", "dynamic_conv"): [1, 1, 1, 1, 0, 0, 0, 0],
    ("hard", "fourier"): [1, 1, 1, 1, 0, 0, 0, 1],
}


def find_of(without=()):
    def find(cell):
        settings = cell.settings
        if cell.kind != "finetune" or (settings["source"], settings["mixer"]) in without:
            return None
        hits = HITS[settings["source"].removeprefix("jsonl:"), settings["mixer"]]
        return {"hits": hits, "accuracy": sum(hits) / 8 + 0.01 * settings["seed"]}

    return find


def test_runs_by_start_and_seed():
    runs = runs_of(PLANS["easy"], "fourier", find_of())
    assert {start: sorted(found) for start, found in runs.items()} == {
        "scratch": [0, 1],
        "pretrained": [0, 1],
    }
    assert runs["scratch"][1]["accuracy"] == pytest.approx(0.385)


def test_tasks_together():
    found = collect(PLANS, find_of(), "pretrained")
    assert found["scores"]["dynamic_conv"] == {"easy": pytest.approx(0.88), "hard": pytest.approx(0.505)}
    assert found["ranking"].ranks == {"dynamic_conv": 1.5, "fourier": 1.5}
    assert found["ranking"].num_tasks == 2
    mean, low, high, p_value = found["paired"]["easy"]["fourier"]
    assert mean == -0.5
    assert low < mean < high < 0.01
    assert p_value == pytest.approx(2 * 0.5**4)  # four texts that the one alone gets right, none the other
    assert found["paired"]["hard"]["fourier"][0] == 0.125
    assert found["paired"]["hard"]["fourier"][3] == 1.0


def test_what_is_not_finished_is_not_ranked():
    found = collect(PLANS, find_of(without=[("jsonl:hard", "fourier")]), "scratch")
    assert found["ranking"].num_tasks == 1
    assert list(found["paired"]) == ["easy"]
    assert set(found["scores"]["dynamic_conv"]) == {"easy", "hard"}
    nothing = collect(PLANS, lambda cell: None, "scratch")
    assert nothing == {"tasks": [], "scores": {}, "ranking": None, "paired": {}}


def test_seeds_are_averaged_on_both_sides():
    ours = {0: {"hits": [1, 1, 0, 0]}, 1: {"hits": [1, 0, 0, 0]}}
    theirs = {1: {"hits": [0, 0, 0, 0]}, 2: {"hits": [1, 1, 0, 0]}}
    mean, *_, p_value = compared(ours, theirs)
    assert mean == pytest.approx(3 / 8 - 2 / 8)
    assert p_value == 1.0  # seed 1: one text that we alone get right
    assert compared({0: ours[0]}, {1: theirs[1]})[3] is None


def test_examples():
    done = doctest.testmod(summary_page)
    assert done.attempted
    assert not done.failed


def test_the_page_of_tasks(tmp_path):
    found = collect(PLANS, find_of(), "pretrained")
    header, lines = summary_page.table_cells(found)
    assert header == ["mixer", "easy", "hard", "mean rank"]
    assert lines == [["dynamic_conv", "88.0", "50.5", "1.50"], ["fourier", "38.0", "63.0", "1.50"]]
    header, lines = summary_page.paired_cells(found)
    assert header == ["mixer", "easy", "hard"]
    assert lines[0][0] == "fourier"
    assert lines[0][1].startswith("-50.0 (")
    assert lines[0][1].endswith("), p 0.12")
    page.write_tasks(tmp_path / "page.html", "Two <tasks>", found)
    text = (tmp_path / "page.html").read_text()
    assert "Two &lt;tasks&gt;" in text
    assert text.count("<table>") == 2
    assert text.count("<svg") == 1


def test_a_page_of_tasks_without_results(tmp_path):
    nothing = collect(PLANS, lambda cell: None, "scratch")
    page.write_tasks(tmp_path / "page.html", "Nothing", nothing)
    assert "No two mixers are finished" in (tmp_path / "page.html").read_text()


def test_a_mixer_that_is_not_ranked_stands_last():
    found = collect(
        PLANS, find_of(without=[("jsonl:hard", "fourier"), ("jsonl:easy", "dynamic_conv")]), "scratch"
    )
    assert found["ranking"] is None
    assert summary_page.table_cells(found)[1] == [
        ["dynamic_conv", "", "50.5", ""],
        ["fourier", "38.0", "", ""],
    ]
    assert summary_page.paired_cells(found)[1] == []
