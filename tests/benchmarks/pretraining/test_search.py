"""The search for a recipe: equal tokens for all, and a table of what was found."""

import json

import pytest

from benchmarks.pretraining import search
from configs import pretrain_encoder


def test_all_variants_see_as_many_tokens_and_change_fields_that_exist():
    for name, changes in search.VARIANTS.items():
        fields = search.pretraining_fields(changes, "jsonl:M*.{split}.gz", "spm.model")
        config = pretrain_encoder.get_config(fields["config"].partition(":")[2])
        for field, value in fields.items():
            if field.startswith("config."):
                config.update_from_flattened_dict({field.removeprefix("config."): value})
        tokens = config.train.num_steps * config.train.batch_size * config.data.input_length
        call = config.train.batch_size * config.data.input_length * config.train.steps_per_call
        assert 0 <= search.TOKENS - tokens < call, name
        assert config.train.num_steps % config.train.steps_per_call == 0
        assert config.train.num_steps % config.train.eval_every in (0, config.train.steps_per_call)


def test_what_would_end_the_search_later_is_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match=r"`--variants` must be numbers below \d+\. Received: '99'"):
        search.checked(["0", "99"], tmp_path)
    with pytest.raises(ValueError, match=r"`--data_dir` must hold classification/sst2\.train\.jsonl\.gz"):
        search.checked([], tmp_path)
    (tmp_path / "classification").mkdir()
    for name in ("sst2.train", "sst2.valid", "trec6.train"):
        (tmp_path / "classification" / f"{name}.jsonl.gz").touch()
    assert list(search.checked([], tmp_path)) == list(range(len(search.VARIANTS)))
    assert search.checked(["3"], tmp_path) == [3]


def test_the_table_has_a_row_for_each_variant_that_is_done(tmp_path):
    for number, loss in ((0, 4.2), (2, 4.1)):
        folder = tmp_path / f"{number:02d}"
        folder.mkdir()
        scores = {"name": f"variant {number}", "loss": loss, "sst2": [0.8, 0.79], "trec6": [0.9, 0.92]}
        (folder / "scores.json").write_text(json.dumps(scores))
    assert search.table(tmp_path).splitlines()[2:] == [
        "| variant 0 | 4.200 | 79.5 (80.0, 79.0) | 91.0 (90.0, 92.0) |",
        "| variant 2 | 4.100 | 79.5 (80.0, 79.0) | 91.0 (90.0, 92.0) |",
    ]
