"""`convnlp.data.lengths`, and the field `data.input_length` that it sets."""

import types

import pytest

from convnlp.configs import finetune_classification, pretrain_mini
from convnlp.data import Source, SourceError, lengths
from convnlp.models import Tokenizer
from convnlp.runs import config_rules, experiment
from convnlp.tasks import fields
from tests import corpus

WORD = "river"


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(corpus.tiny_proto())


def taken(tmp_path, tokenizer, counts, longest=None, has_encoder=True, **names):
    """What `take` makes of texts of so many words."""
    rows = [{"text": " ".join([WORD] * count), "other": WORD, "label": 0} for count in counts]
    corpus.write_jsonl(tmp_path / "texts.jsonl", rows)
    config = finetune_classification.get_config()
    config.task.update(names)
    sides = {"encoder": longest if has_encoder else None, "decoder": None if has_encoder else longest}
    limit = types.SimpleNamespace(num_layers=int(has_encoder), longest_text=sides.get)
    fields.take_length(config, tokenizer, Source(f"jsonl:{tmp_path}/texts.jsonl"), limit)
    return config.data.input_length


def test_nineteen_of_twenty_texts_fit(tmp_path, tokenizer, caplog):
    per_word = len(tokenizer.ragged(WORD))
    assert per_word == 1
    assert taken(tmp_path, tokenizer, [20] * 100) == 128
    assert taken(tmp_path, tokenizer, [20] * 96 + [1000] * 4) == 128
    assert "data.input_length" not in caplog.text
    assert taken(tmp_path, tokenizer, [20] * 80 + [200] * 20) == 256  # 201 tokens
    assert "using data.input_length=256" in caplog.text
    assert taken(tmp_path, tokenizer, [191] * 100) == 192  # with the end token
    assert taken(tmp_path, tokenizer, [192] * 100) == 256
    assert taken(tmp_path, tokenizer, [2000] * 100) == 1_024
    for has_encoder in (True, False):  # or a decoder alone, which reads the text then
        assert taken(tmp_path, tokenizer, [2000] * 100, 200, has_encoder) == 200
    assert taken(tmp_path, tokenizer, [20] * 100, longest=64) == 64
    assert "using data.input_length=64" in caplog.text


def test_a_decoder_alone_keeps_room_for_the_target(tmp_path, tokenizer):
    names = {"kind": "text_to_text", "input_field": "text"}
    target = finetune_classification.get_config().data.target_length
    assert taken(tmp_path, tokenizer, [2000] * 100, 300, has_encoder=False, **names) == 300 - target
    assert taken(tmp_path, tokenizer, [2000] * 100, 300, **names) == 300


def test_a_pair_counts_both_texts_and_their_ends(tmp_path, tokenizer):
    pair = {"second_text_field": "other"}
    assert taken(tmp_path, tokenizer, [189] * 100, **pair) == 192  # 189 + 1 and 1 + 1 tokens
    assert taken(tmp_path, tokenizer, [190] * 100, **pair) == 256


def test_an_error_names_the_line(tmp_path, tokenizer):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "river"}\n' * 30_000 + '{"text": 7}\n')
    assert lengths.fitting(Source(f"jsonl:{path}"), ("text",), tokenizer) == 128  # it reads no further
    path.write_text('{"text": "river"}\n' * 15_000 + '{"text": 7}\n')
    with pytest.raises(SourceError, match=r"line 15001: `text` must be a string. Received: 7"):
        lengths.fitting(Source(f"jsonl:{path}"), ("text",), tokenizer)


def test_a_given_length_stays(tmp_path, tokenizer):
    config = finetune_classification.get_config()
    config.data.input_length = 40
    fields.take_length(config, tokenizer, Source("jsonl:nowhere.jsonl"), None)
    assert config.data.input_length == 40
    assert "data.input_length" not in fields.open_fields(config)
    assert "data.input_length" in fields.open_fields(finetune_classification.get_config())


def test_where_it_cannot_follow_from_the_data(tmp_path):
    config = finetune_classification.get_config("fourier")
    assert config.data.input_length == 128
    config.data.input_length = None
    config.data.source = "csv:train.csv"
    with pytest.raises(ValueError, match=r"`data.input_length` must be given if `init_from` is empty"):
        config_rules.check(config)
    config = pretrain_mini.get_config()
    config.data.input_length, config.init_from = None, "dynamic_conv_mini_en"
    with pytest.raises(ValueError, match=r"`data.input_length` must be an integer >= 2 here"):
        experiment.prepare(config, str(tmp_path / "run"))
