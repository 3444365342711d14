"""The search for a recipe: equal tokens for all, and a table of what was found."""

import json

import keras
import numpy as np
import pytest

from benchmarks.labelled_set import chosen_variants
from benchmarks.pretraining import search
from convnlp.configs import pretrain_encoder
from convnlp.models import Seq2SeqBackbone, Tokenizer
from tests import corpus


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
        chosen_variants(["0", "99"], search.VARIANTS, search.CLASSIFICATION, tmp_path)
    with pytest.raises(ValueError, match=r"`--data_dir` must hold classification/sst2\.train\.jsonl\.gz"):
        chosen_variants([], search.VARIANTS, search.CLASSIFICATION, tmp_path)
    (tmp_path / "classification").mkdir()
    for name in ("sst2.train", "sst2.valid", "trec6.train"):
        (tmp_path / "classification" / f"{name}.jsonl.gz").touch()
    assert list(chosen_variants([], search.VARIANTS, search.CLASSIFICATION, tmp_path)) == list(
        range(len(search.VARIANTS))
    )
    assert chosen_variants(["3"], search.VARIANTS, search.CLASSIFICATION, tmp_path) == [3]


def test_the_table_has_a_row_for_each_variant_that_is_done(tmp_path):
    for number, loss in ((0, 4.2), (2, 4.1)):
        folder = tmp_path / f"{number:02d}"
        folder.mkdir()
        scores = {
            "name": f"variant {number}",
            "loss": loss,
            "sst2": [0.8, 0.79],
            "trec6": [0.9, 0.92][:number],
        }
        (folder / "scores.json").write_text(json.dumps(scores))
    assert search.table(tmp_path).splitlines()[2:] == [
        "| variant 0 | 4.200 | 79.5 (80.0, 79.0) |  |",
        "| variant 2 | 4.100 | 79.5 (80.0, 79.0) | 91.0 (90.0, 92.0) |",
    ]


def test_the_judged_loss_is_of_the_same_masks_whatever_was_trained(tmp_path):
    documents = [{"text": "the old teacher follows the river to the village " * 8}] * 700
    corpus.write_jsonl(tmp_path / "text.valid.jsonl", documents)
    tokenizer = Tokenizer(corpus.tiny_proto())
    keras.utils.set_random_seed(0)
    size = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 16, "kernel_size": 3}
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), **size, num_decoder_layers=0)
    for part in (backbone, tokenizer):
        part.save_to_preset(str(tmp_path / "preset"))
    loss = search.held_out_loss(tmp_path / "preset", f"jsonl:{tmp_path}/text.{{split}}.jsonl")
    assert loss == pytest.approx(np.log(tokenizer.vocabulary_size()), rel=0.2)  # knows nothing yet
