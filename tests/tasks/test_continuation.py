"""Texts that are continued: how much of each is given, what is learned, and what the scores are."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from convnlp import losses, tasks
from convnlp.configs import common
from convnlp.data import Source, SourceError
from convnlp.models import Seq2SeqBackbone, Tokenizer
from tests import corpus

TOKENIZER = Tokenizer(corpus.tiny_proto())
TEXTS = ["the old river", "a", "the captain paints the garden", "who finds the market", ""]
LENGTH = 10  # of which the third text takes more


def build(folder, texts=TEXTS):
    path = corpus.write_jsonl(folder / "a.jsonl", [{"text": text} for text in texts])
    config = common.get_config()
    config.data.input_length = LENGTH
    config.task.kind = "continuation"
    task = tasks.build_task(config, TOKENIZER, Source(f"jsonl:{path}"))
    return task, task.read(Source(f"jsonl:{path}"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """With weights so large that every token before matters."""
    task, _ = build(tmp_path_factory.mktemp("continuation"))
    size = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "num_decoder_layers": 0}
    backbone = Seq2SeqBackbone(TOKENIZER.vocabulary_size(), mixer="self_attention", **size)
    random = np.random.default_rng(0)
    for weight in backbone.trainable_weights:
        if weight.name != "gamma":
            weight.assign(weight + random.normal(scale=0.5, size=weight.shape))
    return task.model(backbone)


def next_logits(model, row, prefix):
    hidden = model.backbone.encode(np.array([row]), prefix_mask=np.arange(len(row))[None] < prefix)
    return model.backbone.logits(hidden)[0, -1].numpy().astype("float64")


def with_a_guess(model, rows, prefix, length):
    """Gives the third row the tokens that the model holds most probable, behind so many of its own."""
    row = rows[2][:prefix]
    while len(row) < length:
        row.append(int(next_logits(model, row, prefix).argmax()))
    return [*rows[:2], row, *rows[3:]]


def plain_sums(model, rows, prefixes):
    """Returns the nats, the number and the hits of the tokens behind the prefixes, each from those before."""
    nats, count, hits = 0.0, 0, 0
    for row, prefix in zip(rows, prefixes, strict=True):
        for i in range(prefix, len(row)):
            logits = next_logits(model, row[:i], prefix)
            nats += np.log(np.exp(logits).sum()) - logits[row[i]]
            count += 1
            hits += logits.argmax() == row[i]
    return nats, count, hits


def test_each_token_behind_the_prefix_is_learned_from_what_is_before_it(tmp_path, model):
    task, found = build(tmp_path)
    rows, prefixes = with_a_guess(model, found.columns[0].to_list(), 3, 7), [2, 1, 3, 3, 1]
    batch = {
        "token_ids": tf.ragged.constant(rows, tf.int32).to_tensor(shape=[None, LENGTH]),
        "padding_mask": tf.sequence_mask([len(row) for row in rows], LENGTH),
        "prefix_mask": tf.sequence_mask(prefixes, LENGTH),
        "weight": tf.constant([1.0, 1, 1, 0, 1]),
    }
    result = task.loss(model)(batch, None, training=False)
    counted = [i for i in range(5) if batch["weight"][i]]
    nats, count, hits = plain_sums(model, [rows[i] for i in counted], [prefixes[i] for i in counted])
    np.testing.assert_allclose(result["loss_sum"], nats, rtol=1e-4)
    assert result["weight"] == count == sum(len(rows[i]) - prefixes[i] for i in counted)
    assert result["token_accuracy"] == (hits, count)
    assert 4 <= hits < count


def test_logits_keep_the_type_that_the_model_computes_in(tmp_path, monkeypatch):
    dtypes, cross_entropy = [], losses.cross_entropy
    monkeypatch.setattr(
        losses,
        "cross_entropy",
        lambda logits, *rest: dtypes.append(logits.dtype) or cross_entropy(logits, *rest),
    )
    task, found = build(tmp_path)
    backbone = Seq2SeqBackbone(
        *(TOKENIZER.vocabulary_size(), 1, 2, 8, 16), num_decoder_layers=0, dtype="mixed_bfloat16"
    )
    batch = next(iter(task.batches(found, 5)))
    task.loss(task.model(backbone))(batch, None, training=False)
    assert dtypes == [tf.bfloat16]


def test_the_scores_are_of_the_second_halves(tmp_path, model):
    task, found = build(tmp_path)
    rows = with_a_guess(model, found.columns[0].to_list(), 4, 7)
    found = dataclasses.replace(found, columns=(tf.ragged.constant(rows, tf.int32),))
    assert [len(row) for row in rows][-1] == 1  # the end token alone, which is given
    nats, count, hits = plain_sums(model, rows, [1 + (len(row) - 1) // 2 for row in rows])
    assert task.scores(model, found, 3) == {
        "loss": pytest.approx(nats / count, rel=1e-4),
        "perplexity": pytest.approx(np.exp(nats / count), rel=1e-3),
        "token_accuracy": pytest.approx(hits / count),
        "num_examples": 5.0,
    }


def test_empty_texts_alone_are_refused_when_they_are_read(tmp_path):
    message = r"a.jsonl, split train: `task.text_field` must hold .* Received: task.text_field='text', empty"
    with pytest.raises(SourceError, match=message):
        build(tmp_path, ["", " "])
    assert len(build(tmp_path, ["", "a"])[1]) == 2


def test_empty_texts_have_no_scores(tmp_path, model):
    task, found = build(tmp_path, ["", "", "a"])
    with pytest.raises(ValueError, match="Received: 2 empty texts of 'text'"):
        task.scores(model, found.take([0, 1]))


def test_in_training_the_prefix_ends_anywhere(tmp_path):
    task, found = build(tmp_path)
    lengths = {tuple(row): len(row) for row in found.columns[0].to_list()}
    seen = {row: set() for row in lengths}
    for batch in task.batches(found, 5, training=True).take(60).as_numpy_iterator():
        for ids, is_token, is_prefix in zip(
            batch["token_ids"], batch["padding_mask"], batch["prefix_mask"], strict=True
        ):
            row, prefix = tuple(ids[is_token].tolist()), is_prefix.sum()
            assert is_prefix[:prefix].all()
            seen[row].add(int(prefix))
    for row, length in lengths.items():
        assert seen[row] == set(range(1, max(length, 2)))  # at least one token is given, and one is left


def test_where_the_prefixes_end_follows_the_seed(tmp_path):
    task, found = build(tmp_path, TEXTS[2:3])  # a single text: its order cannot differ

    def prefixes(seed):
        batches = task.batches(found, 4, training=True, seed=seed).take(5)
        return [batch["prefix_mask"].sum(axis=1).tolist() for batch in batches.as_numpy_iterator()]

    assert prefixes(1) == prefixes(1) != prefixes(2)
