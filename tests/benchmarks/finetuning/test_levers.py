"""What each lever changes, that no text that judges is learned from, and the table."""

import json
import pathlib

import numpy as np
import pytest

from benchmarks.finetuning import levers
from convnlp.configs import finetune_classification
from tests import corpus


@pytest.fixture
def started(tmp_path, monkeypatch):
    """`Levers` on 4,000 texts of each set, and the runs that it has started: (program, folder, fields)."""
    (tmp_path / "classification").mkdir()
    for name in ("sst5", "imdb"):
        rows = [{"text": f"{name} {i}", "label": i % 2} for i in range(4_000)]
        corpus.write_jsonl(tmp_path / "classification" / f"{name}.train.jsonl.gz", rows)
    found = []
    monkeypatch.setattr(
        levers, "run_once", lambda program, folder, fields, done: found.append((program, folder, fields))
    )
    return levers.Levers(tmp_path, tmp_path / "runs", 100, 5), found


@pytest.mark.parametrize("trial", levers.TRIALS)
def test_each_run_has_fields_that_exist_and_a_directory_of_its_own(started, trial):
    runs, found = started
    run = runs.run("sst5", *trial)
    assert (found[-1][0], found[-1][1]) == (trial[0], run)
    assert len({folder for _, folder, _ in found}) == len(found)
    for _, _, fields in found:
        config = finetune_classification.get_config()
        config.update_from_flattened_dict(
            {field.removeprefix("config."): value for field, value in fields.items()}
        )
        assert config.data.split in ("train[:100]", "train[:4000]")
    assert found[-1][2]["config.seed"] == 5


def test_what_is_unlabelled_is_not_what_judges(started):
    runs, found = started
    runs.run("sst5", levers.FINETUNE, "masked LM on the other texts")
    path = found[-1][2]["config.task.unlabelled_source"].removeprefix("jsonl:")
    rows = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    assert rows == [{"text": f"sst5 {i}"} for i in range(1_000)]


def test_what_judges_are_the_last_texts(started, monkeypatch):
    runs, _ = started
    folder = runs.run("sst5", levers.FINETUNE, "")
    folder.mkdir(parents=True)
    asked = []
    monkeypatch.setattr(levers, "classes", lambda *arguments: asked.append(arguments) or [1] * levers.UNSEEN)
    right = runs.right("sst5", folder)
    assert asked[0][2] == "train[-3000:]"
    np.testing.assert_array_equal(right, np.arange(levers.UNSEEN) % 2 == 1)
    np.testing.assert_array_equal(runs.right("sst5", folder), right)
    assert len(asked) == 1  # kept


def test_a_set_without_a_related_one_has_an_empty_cell(started):
    assert started[0].run("ag_news", levers.FINETUNE, "labels of a related set first") is None
    assert started[1] == []


def test_trials_are_compared_with_the_recipe_of_their_program():
    assert levers.chosen(["6"]) == [5, 6]
    assert levers.chosen([]) == list(range(len(levers.TRIALS)))
    with pytest.raises(ValueError, match=r"`--trials` must be numbers below 10\. Received: 'EMA'"):
        levers.chosen(["EMA"])


def test_the_table_pairs_the_texts():
    before, after = np.arange(4) < 2, np.arange(4) < 3
    found = {(0, "sst5"): before, (1, "sst5"): after, (0, "ag_news"): after}
    assert levers.table(found, ["sst5", "ag_news"]).splitlines()[2:] == [
        "| finetune | as it is | 50.0 | 75.0 |",
        "| finetune | masked LM on the other texts | 75.0; +25.0 ± 25.0 |  |",
    ]
