"""Sentences without capitals and punctuation, the three starts, and what is refused."""

import argparse
import json

import numpy as np
import pytest

from benchmarks.finetuning import decoder
from convnlp.configs import finetune_text_to_text
from convnlp.data import SourceError
from convnlp.models import Seq2SeqBackbone, Tokenizer, preset_names
from convnlp.runs import given_fields
from tests import corpus

SMALL = {"num_heads": 2, "hidden_dim": 16, "intermediate_dim": 16, "kernel_size": 3}


def test_pairs_are_of_different_sentences_and_apart(tmp_path):
    texts = [
        {"text": f"Mr. Brown, number {i} of us all, came home! Who? The end of it was near."}
        for i in range(40)
    ]
    source = corpus.write_jsonl(tmp_path / "text.jsonl", texts)
    decoder.make_data(f"jsonl:{source}", tmp_path, 20, 10, 0)
    train, test = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("train.jsonl", "test.jsonl")
    )
    assert (len(train), len(test)) == (20, 10)
    assert len({pair["input"] for pair in train + test}) == 30
    assert all(decoder.stripped(pair["target"]) == pair["input"] for pair in train + test)
    assert {pair["target"][-1] for pair in train + test} == {"!", "."}
    exact, f1 = decoder.untouched(tmp_path / "test.jsonl")
    assert exact == "0.0"
    assert 0 < float(f1) < 80
    before = (tmp_path / "test.jsonl").read_bytes()
    decoder.make_data("jsonl:nowhere", tmp_path, 20, 10, 0)  # what is there stays
    assert (tmp_path / "test.jsonl").read_bytes() == before


def test_a_directory_is_of_one_setting(tmp_path):
    for _ in range(2):
        decoder.require_same(tmp_path / "new", {"seed": 0})
    with pytest.raises(ValueError, match=r"--workdir must be new .*'seed': 1.*before: .*'seed': 0"):
        decoder.require_same(tmp_path / "new", {"seed": 1})


def test_a_missing_source_does_not_bind_the_directory(tmp_path, monkeypatch):
    given = argparse.Namespace(
        sizes=["100"], workdir=tmp_path / "new", source="jsonl:nowhere", preset="dynamic_conv_mini_en"
    )
    monkeypatch.setattr(decoder, "flags", argparse.Namespace(FLAGS=given))
    with pytest.raises(SourceError, match="nowhere"):
        decoder.main([])
    assert not (tmp_path / "new").exists()


def test_too_few_sentences(tmp_path):
    source = corpus.write_jsonl(tmp_path / "text.jsonl", [{"text": "It was late and nobody came."}])
    with pytest.raises(ValueError, match=r"--source must have 30 sentences\. Received: .*, 1$"):
        decoder.make_data(f"jsonl:{source}", tmp_path, 20, 10, 0)
    assert not (tmp_path / "test.jsonl").exists()


def test_the_three_starts(tmp_path, monkeypatch):
    tokenizer = Tokenizer(corpus.tiny_proto())
    both = Seq2SeqBackbone(tokenizer.vocabulary_size(), num_layers=1, decoder_kernel_size=[5], **SMALL)
    for part in (both, tokenizer):
        part.save_to_preset(str(tmp_path / "preset"))
    starts = decoder.make_presets(str(tmp_path / "preset"), tmp_path)
    assert list(starts) == list(decoder.STARTS)
    kernels = [fields.get("config.model.decoder_kernel_size") for fields in starts.values()]
    assert kernels == [None, (5,), (5,)]
    for fields in starts.values():
        given = {name.removeprefix("config."): value for name, value in fields.items()}
        config = finetune_text_to_text.get_config()
        config.init_from = given.pop("init_from")
        given_fields.check_model(config, given)
    found = [Seq2SeqBackbone.from_preset(fields["config.init_from"]) for fields in starts.values()]
    assert [backbone.num_decoder_layers for backbone in found] == [1, 0, 0]
    whole, encoder, random = (backbone.token_embedding.get_weights()[0] for backbone in found)
    np.testing.assert_array_equal(encoder, whole)
    assert np.abs(random - whole).min() > 0
    given = argparse.Namespace(
        sizes=["100"],
        num_test=10,
        seed=0,
        workdir=tmp_path / "work",
        source=f"text:{tmp_path / 'preset' / 'config.json'}",
        preset="encoder_en",
    )
    monkeypatch.setattr(decoder, "flags", argparse.Namespace(FLAGS=given))
    monkeypatch.setitem(preset_names._directories, "encoder_en", str(tmp_path / "encoder"))
    with pytest.raises(ValueError, match=r"--preset must have an encoder .* Received: 'encoder_en'$"):
        decoder.main([])
