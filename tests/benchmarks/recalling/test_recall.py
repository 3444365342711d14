"""`benchmarks.recall`: the models, what is trained and what is not again, the page, and the program."""

import argparse
import doctest
import json

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import pages, recall
from benchmarks.recalling import cells, data, model, page, training
from convnlp.layers import MIXERS
from tests.mixer_table import sampled
from tests.run_program import run_program

PLAN = cells.Plan(steps=100, batch_size=4, learning_rates=(3e-3, 1e-2), distances=(8, 32))
ROW = {"task": "recall", "mixer": "dynamic_conv", "layers": 2, "causal": False, "seed": 0}


def arguments(**given):
    """Flags with their values."""
    defaults = {
        "mixers": ["fourier"],
        "tasks": ["recall", "copy"],
        "distances": ["8", "32"],
        "layers": ["2"],
        "directions": ["both"],
        "steps": 100,
        "batch_size": 4,
        "learning_rates": ["3e-3", "1e-2"],
        "seeds": ["0"],
    }
    return argparse.Namespace(**{**defaults, **given})


def result(accuracy, loss, reach=None):
    """As `training.train` returns it."""
    return {
        "accuracy": accuracy,
        "validation_accuracy": accuracy,
        "validation_loss": loss,
        "steps_made": 100,
        "reach": reach,
    }


def reader(mixer, layers=2, causal=False, distance=8):
    return model.Reader(mixer, layers, causal, distance, length=16 + distance + 8)


def test_examples():
    found = doctest.testmod(model)
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize("mixer", sampled(MIXERS))
def test_every_mixer_answers_where_it_is_asked(mixer):
    rows = data.recall(8, 2, data.stream("train", 0))
    assert reader(mixer)(tf.constant(rows.ids), tf.constant(rows.positions)).shape == (2, 8, data.NUM_VALUES)


@pytest.mark.parametrize("distance", [8, 16, 32, 64, 128, 256, 512])
def test_convolutions_reach_all_pairs_and_no_further_than_they_need(distance):
    size, rates = model.taps(distance, 2)
    reach = reader("dilated_conv", distance=distance).reach()
    assert rates == [1, size]
    assert reach == (size**2 - 1) // 2 >= distance + 7
    assert size == 7 or ((size - 2) ** 2 - 1) // 2 < distance + 7
    assert (size - 1) // 2 <= data.MARGIN


def test_what_the_taps_reach_by_gradient():
    """Every position from the query to the furthest pair has a part in the answer, whatever the taps."""
    found = reader("dilated_conv", distance=16)
    rows = data.recall(16, 1, data.stream("train", 0))
    asked = rows.positions[-1]
    changed = []
    for position in range(asked - 23, asked + 1):
        ids = np.repeat(rows.ids, 2, axis=0)
        ids[1, position, 1] = 3
        before, after = found(tf.constant(ids), tf.constant([asked])).numpy()
        changed.append(np.abs(before - after).max() > 0)
    assert all(changed)


def test_reach():
    assert reader("dynamic_conv:kernel_size=31:dilation_rate=1").reach() == 30
    assert reader("dynamic_conv:kernel_size=31:dilation_rate=1", causal=True).reach() == 60
    assert reader("self_attention").reach() is None
    assert reader("dynamic_conv+self_attention").reach() is None


@pytest.mark.parametrize("mixer", ["dynamic_conv", "self_attention"])
def test_a_causal_reader_sees_nothing_behind_the_query(mixer):
    rows = data.recall(8, 2, data.stream("train", 0))
    later = rows.ids.copy()
    later[:, rows.positions[0] + 1 :] = 5
    for causal in (True, False):
        found = reader(mixer, causal=causal)
        answers = [found(tf.constant(ids), tf.constant(rows.positions[:1])) for ids in (rows.ids, later)]
        assert np.array_equal(*answers) == causal


@pytest.mark.slow
def test_attention_learns_to_recall():
    settings = {**ROW, "mixer": "self_attention", "batch_size": 16, "steps": 200}
    found = training.train({**settings, "distance": 8, "learning_rate": 3e-3})
    assert found["accuracy"] > 0.9
    assert found["steps_made"] <= 200
    assert found["reach"] is None


class TestPlan:
    """Models are made by a function that keeps count."""

    def run(self, results, workdir, path=None):
        trained = []

        def train(settings):
            trained.append((settings["distance"], settings["learning_rate"]))
            return results[trained[-1]]

        list(PLAN.run(ROW, cells.Cells(workdir, path), train))
        return trained

    def test_the_rate_of_the_lowest_loss_is_taken_to_the_other_distances(self, tmp_path):
        results = {(8, 3e-3): result(0.5, 2.0), (8, 1e-2): result(0.4, 1.0), (32, 1e-2): result(0.1, 3.0)}
        assert self.run(results, tmp_path) == list(results)
        assert self.run(results, tmp_path) == []

    def test_a_rate_that_solves_ends_the_grid(self, tmp_path):
        results = {(8, 3e-3): result(1.0, 0.0), (32, 3e-3): result(1.0, 0.0)}
        assert self.run(results, tmp_path) == list(results)

    def test_a_model_that_diverged_is_not_chosen(self, tmp_path):
        results = {(8, 3e-3): result(0.1, None), (8, 1e-2): result(0.1, 9.0), (32, 1e-2): result(0.1, 3.0)}
        assert self.run(results, tmp_path) == list(results)

    def test_what_was_stopped_continues_and_docs_know_too(self, tmp_path):
        results = {(8, 3e-3): result(1.0, 0.0)}
        with pytest.raises(KeyError):
            self.run(results, tmp_path / "a")
        results[32, 3e-3] = result(1.0, 0.0)
        assert self.run(results, tmp_path / "a") == [(32, 3e-3)]
        known = cells.Cells(tmp_path / "a")
        list(PLAN.run(ROW, known, None))
        known.write(tmp_path / "recall.json", {"cores": 2})
        assert self.run(results, tmp_path / "b", tmp_path / "recall.json") == []
        assert cells.Cells(tmp_path / "b", tmp_path / "recall.json").values() == known.values()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mixers": ["lstm"]}, "--mixers must be among .*Received: 'lstm'"),
        ({"tasks": ["sort"]}, "`--tasks` must be among recall, copy. Received: 'sort'"),
        ({"directions": ["left"]}, "`--directions` must be among both, causal. Received: 'left'"),
        ({"mixers": ["muse+muse+fourier"]}, "`mixers` must name at most 2 for 2 layers. Received: 'muse"),
        ({"distances": ["4"]}, "`--distances` must be numbers of 8 or more. Received: '4'"),
        ({"layers": ["two"]}, "`--layers` must be numbers of 1 or more. Received: 'two'"),
    ],
)
def test_what_is_wrong_is_said_first(given, message):
    flags = arguments(**given)
    with pytest.raises(ValueError, match=message):
        recall.checked(flags)


def test_all_mixers_by_default():
    _, rows = recall.checked(arguments(mixers=[], directions=["both", "causal"], seeds=["0", "3"]))
    assert len(rows) == 2 * 2 * 2 * len(MIXERS)
    assert {row["mixer"] for row in rows} == set(MIXERS)
    assert {row["seed"] for row in rows} == {0, 3}
    assert not model.supports_causal("fourier")
    assert model.supports_causal("cross_segment_attention")
    assert not model.supports_causal("c_c_t_t")


def stored(mixer, task, accuracies, reach=None, **changed):
    """Cells of a row as `Cells.values` gives them."""
    row = {**ROW, "mixer": mixer, "task": task, **changed}
    return [
        {**PLAN.settings(row, distance, 3e-3), **result(accuracy, 1.0, reach)}
        for distance, accuracy in zip(PLAN.distances, accuracies, strict=True)
    ]


def test_the_page(tmp_path):
    values = [
        *stored("dynamic_conv", "recall", [0.97, 0.2], reach=24),
        *stored("dynamic_conv", "recall", [0.87, 0.1], reach=24, seed=1),
        *stored("dynamic_conv", "copy", [1.0, 0.97]),
        *stored("self_attention", "recall", [1.0, 0.99]),
        *stored("self_attention", "recall", [1.0, 0.99], layers=4),
        {**stored("fourier", "recall", [0.1, 0.1])[0], "steps": 7},  # of another plan
        # The same with a rate that is worse by its validation loss, whatever its test score.
        {**stored("self_attention", "recall", [0.5, 0.5])[0], "learning_rate": 1e-2, "validation_loss": 2.0},
    ]
    (tmp_path / "recall.md").write_text(f"before\n{page.BEGIN}\n{pages.END}\nafter\n")
    page.write(tmp_path / "recall.md", values, PLAN)
    text = (tmp_path / "recall.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    two, four = text.split("4 layers that look")
    rows = [line for line in two.splitlines() if line.startswith("| `")]
    assert rows == [
        "| `self_attention` | **100** | **99** | 32 |",
        "| `dynamic_conv` | **92** | 15 † | 8 |",
        "| `dynamic_conv` | **100** | **97** | 32 |",
    ]
    assert "| `self_attention` | **100** | **99** | 32 |" in four
    assert "fourier" not in text
    assert "right in 3.1 per cent; in recall, " in text
    plots = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert plots == ["recall_2_layers.svg", "recall_4_layers.svg"]
    assert "(recall_2_layers.svg)" in text


@pytest.mark.slow
@pytest.mark.multiprocess
def test_the_program(tmp_path):
    """A tiny cell; the second time nothing is trained."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "recall.md").write_text(f"{page.BEGIN}\n{pages.END}\n")
    command = [
        "benchmarks.recall",
        f"--workdir={tmp_path / 'work'}",
        f"--docs_dir={docs}",
        "--mixers=fourier",
        "--directions=both,causal",
        "--tasks=recall",
        "--distances=8",
        "--learning_rates=1e-3",
        "--steps=2",
        "--batch_size=2",
    ]
    done = run_program(*command)
    assert done.returncode == 0, done.stderr
    assert "recall fourier 2 layers, 8 positions, rate 0.001: " in done.stdout
    assert "fourier cannot be causal" in done.stdout
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("result.json")}
    (cell,) = json.loads((docs / "recall.json").read_text())["cells"].values()
    assert (cell["mixer"], cell["steps_made"]) == ("fourier", 2)
    assert "| `fourier` | " in (docs / "recall.md").read_text()
    assert len(kept) == 1
    assert run_program(*command).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("result.json")} == kept
