"""The training soak: that it sees what differs, its short form, and the one of five minutes."""

import itertools
import json
import subprocess
import sys

import h5py
import pytest
import tensorflow as tf

from benchmarks.soaking import comparison, page, plots, training
from benchmarks.soaking.training_faults import FAULTS
from tests.run_program import ROOT, Program

STEPS = 100


def write_run(folder, weight=1.0, preset=2.0, rows=range(2, STEPS + 1, 2), loss=3.0):
    """What the comparison reads of a finished run."""
    checkpoint = folder / "checkpoints" / f"{STEPS:08d}"
    tf.train.Checkpoint(v=tf.Variable(weight)).write(str(checkpoint / "model"))
    lines = [json.dumps({"step": step, "loss": loss}) + "\n" for step in rows]
    (folder / "metrics.jsonl").write_text("".join(lines))
    (folder / "preset").mkdir()
    with h5py.File(folder / "preset" / "model.weights.h5", "w") as file:
        file.create_dataset("layers/dense/0", data=[preset])
    return folder


@pytest.mark.parametrize(
    ("changed", "lost_until", "found"),
    [
        ({}, None, []),
        ({"weight": 1.0000001}, None, ["v/.ATTRIBUTES/VARIABLE_VALUE differs in the last checkpoint"]),
        ({"preset": 2.5}, None, ["preset: layers/dense/0 differs"]),
        ({"loss": 3.1}, None, ["metrics.jsonl differs"]),
        ({"rows": range(12, STEPS + 1, 2)}, None, ["metrics.jsonl differs"]),
        ({"rows": range(12, STEPS + 1, 2)}, 10, []),
        ({"rows": range(6, STEPS + 1, 2)}, 10, []),  # a part of what may be missing
        ({"rows": range(14, STEPS + 1, 2)}, 10, ["metrics.jsonl differs"]),
        ({"rows": [*range(2, 40, 2), *range(42, STEPS + 1, 2)]}, 10, ["metrics.jsonl differs"]),
        ({"rows": [10, *range(10, STEPS + 1, 2)]}, 10, ["metrics.jsonl differs"]),  # one stands twice
        ({"rows": []}, STEPS, []),
    ],
)
def test_what_differs_from_the_run_left_alone(tmp_path, changed, lost_until, found):
    alone, other = write_run(tmp_path / "alone"), write_run(tmp_path / "other", **changed)
    assert comparison.compare(other, alone, STEPS, lost_until) == found


def start_forked(arguments, environment, log):
    """`python -m convnlp` with arguments, forked from a process that has TensorFlow."""
    return Program("convnlp", *arguments, environment=environment, stdout=log, stderr=log)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_the_short_form(tmp_path):
    names = ("file_too_large", "checkpoint_flipped")
    outcome = training.soak(tmp_path / "soak", 0, 0.1, seed=0, names=names, started=start_forked)
    assert outcome.all_problems() == []
    assert sorted(event.fault for event in outcome.events) == sorted(names)
    assert outcome.lives == len(names) + 2
    result = page.training_result(outcome, tmp_path, seed=0)
    assert str(tmp_path) not in json.dumps(result)
    text = page.text({"training": result})
    assert "**Everything was as expected.**" in text
    assert all(f"| {name} | 1 | 1 |" in text for name in names)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_the_form_of_five_minutes(tmp_path):
    """All faults that can be made here, by the documented command."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.soak",
        "--what=training",
        "--minutes=0",
        "--seconds_between=2",
    ]
    done = subprocess.run(
        [*command, f"--workdir={tmp_path}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert not (tmp_path / "training" / "saved").exists()
    result = json.loads((tmp_path / "training" / "result.json").read_text())
    assert {event["fault"] for event in result["events"]} | set(result["refused"]) == set(FAULTS)


def event(fault, problems=(), **values):
    return {"fault": fault, "problems": list(problems), "seconds": 1.0, **values}


def rows(count, life=1):
    names = ("memory_mb", "threads", "files", "sockets", "step")
    return [{"seconds": 5.0 * i, "life": life, **dict.fromkeys(names, 10.0)} for i in range(count)]


def test_a_problem_shows_on_the_page_and_the_plots_are_drawn(tmp_path):
    words = {"first_words": "", "last_words": "error: <full> | disk"}
    trend = {"mb_per_hour": 1.0, "low": -1.0, "high": 3.0, "verdict": "constant"}
    about = {"cores": 2, "cpu": "a processor", "date": "2026-01-01T00", "commit": "abc"}
    shared = {"seconds": 600.0, "seed": 3, "machine": about, "rows": [*rows(3), *rows(3, life=2)]}
    result = {
        **shared,
        "events": [event("full_disk", **words), event("full_disk", ["a traceback"], **words)],
        "steps": 1000,
        "lives": 2,
        "refused": {"read_only": "no mounts"},
        "losses": {"metrics.jsonl": 50},
        "problems": ["full_disk at step 3: a traceback"],
        "memory_alone": trend,
    }
    served = {
        **shared,
        "events": [[1.0, "crowd"], [2.0, "crowd"]],
        "counts": {"rest: right": 1000, "rest: refused, 429": 2},
        "rests": [{"threads": 3, "memory_mb": 100.4}, {"threads": 3, "memory_mb": 101.0}],
        "problems": [],
        "memory": {**dict.fromkeys(("mb_per_hour", "low", "high")), "verdict": "too short to tell"},
    }
    (tmp_path / "soak.md").write_text(f"before\n{page.BEGIN}\n\n<!-- end of generated part -->\nafter\n")
    for what, values in (("training", result), ("serving", served)):
        page.write(tmp_path, what, values)
        assert page.plot(tmp_path, what).read_text().startswith("<?xml")
    text = (tmp_path / "soak.md").read_text()
    assert "| full_disk | 2 | 1 | error: \\<full> \\| disk |" in text
    assert "**Not as expected:** full_disk at step 3: a traceback." in text
    assert "read_only (no mounts)" in text
    assert "| rest | right 1,000, refused, 429 2 |" in text
    assert text.endswith("after\n")


def test_rows_are_thinned_evenly():
    found = plots.thinned(list(range(1001)), 100)
    assert len(found) <= 101
    assert found[-1] == 1000
    assert {b - a for a, b in itertools.pairwise(found)} == {11}
