"""The search for a recipe of fine-tuning: fields that exist, and a table of what was found."""

import json

import pytest

from benchmarks.finetuning import search
from benchmarks.labelled_set import chosen_variants
from convnlp.configs import finetune_classification


@pytest.mark.parametrize("name", search.VARIANTS)
def test_a_variant_changes_fields_that_exist(name):
    config = finetune_classification.get_config()
    fields = search.finetuning_fields(search.VARIANTS[name], "sst2", 1, "PRESET", "DATA")
    config.update_from_flattened_dict(
        {field.removeprefix("config."): value for field, value in fields.items() if field != "config"}
    )
    assert (config.seed, config.init_from, config.data.input_length) == (1, "PRESET", 48)
    expected = {"twice the epochs": 10.0, "half the epochs": 2.5}.get(name, 5.0)
    assert config.task.num_epochs == expected


def test_what_would_end_the_search_later_is_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match=r"`--variants` must be numbers below \d+\. Received: 'R-Drop'"):
        chosen_variants(["R-Drop"], search.VARIANTS, search.SETS, tmp_path)
    with pytest.raises(ValueError, match=r"`--data_dir` must hold classification/sst2\.train\.jsonl\.gz"):
        chosen_variants([], search.VARIANTS, search.SETS, tmp_path)


def test_the_table_compares_seed_by_seed(tmp_path):
    scores = {task: [0.8, 0.9] for task in search.SETS}
    for number, change in (("00", 0.0), ("03", 0.01)):
        (tmp_path / number).mkdir()
        changed = {task: [value + change for value in values] for task, values in scores.items()}
        (tmp_path / number / "scores.json").write_text(json.dumps({"name": f"variant {number}", **changed}))
    assert search.table(tmp_path).splitlines()[2:] == [
        "| variant 00 | 85.0 | 85.0 | 85.0 | 85.0 | 85.0 | 85.0 | +0.0 |",
        "| variant 03 | 86.0 | 86.0 | 86.0 | 86.0 | 86.0 | 86.0 | +1.0 |",
    ]
