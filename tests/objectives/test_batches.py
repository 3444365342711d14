"""Pre-training batches: shapes, content, order, restarts."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from convnlp.data import Shard, Source, SourceError, files
from convnlp.objectives import OBJECTIVES, Seeds, build_objectives, pretraining_batches
from convnlp.objectives.masked_lm import MaskedLanguageModeling
from tests import corpus

BOTH = ("span_corruption", "masked_lm")


def batches(source, tokenizer, objectives=("span_corruption",), input_length=32, **kwargs):
    defaults = {"batch_size": 4, "seed": 0, "shuffle_buffer": 64}
    built = build_objectives(objectives, input_length)
    return pretraining_batches(Source(source), tokenizer, built, **(defaults | kwargs))


def first(dataset, count):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def assert_equal(some, others):
    assert len(some) == len(others) > 0
    for one, other in zip(some, others, strict=True):
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key], err_msg=key)


def stream(texts, tokenizer):
    """The tokens of documents one after the other, with their ends, in plain Python."""
    return [token for text in texts for token in [*np.asarray(tokenizer.tokenize(text)).tolist(), 1]]


def restored(batch, row):
    """The raw tokens of a row of span corruption."""
    targets = batch["target_token_ids"][row].tolist()
    spans = {}
    for token in targets[:-1]:
        if token >= 100:
            spans[token] = current = []
        else:
            current.append(token)
    inputs = batch["encoder_token_ids"][row].tolist()[:-1]
    return [token for piece in inputs for token in spans.get(piece, [piece])]


def rows(dataset):
    return [tuple(restored(batch, row)) for batch in dataset.as_numpy_iterator() for row in range(4)]


def test_shapes_are_static(documents, tokenizer):
    spec = batches(documents, tokenizer, objectives=BOTH).element_spec
    assert {name: (value.shape.as_list(), value.dtype.name) for name, value in spec.items()} == {
        "encoder_token_ids": ([4, 32], "int32"),
        "encoder_padding_mask": ([4, 32], "bool"),
        "decoder_token_ids": ([4, 8], "int32"),
        "decoder_padding_mask": ([4, 8], "bool"),
        "target_token_ids": ([4, 8], "int32"),
        "masked_token_ids": ([4, 32], "int32"),
        "masked_positions": ([4, 5], "int32"),
        "masked_targets": ([4, 5], "int32"),
    }


def test_rows_hold_the_text_without_a_gap(tmp_path, tokenizer):
    texts = corpus.documents(30)
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in texts])
    dataset = batches(f"jsonl:{path}", tokenizer, num_epochs=1, shuffle_buffer=0, objectives=BOTH)
    raw = []
    for batch in dataset.as_numpy_iterator():
        for row in range(4):
            tokens = restored(batch, row)
            raw += tokens
            unmasked = batch["masked_token_ids"][row].copy()
            unmasked[batch["masked_positions"][row]] = batch["masked_targets"][row]
            assert unmasked.tolist() == tokens[:32]  # both objectives read the same text
        np.testing.assert_array_equal(batch["decoder_token_ids"][:, 0], 0)
        np.testing.assert_array_equal(batch["decoder_token_ids"][:, 1:], batch["target_token_ids"][:, :-1])
        assert batch["encoder_padding_mask"].all()
        assert batch["decoder_padding_mask"].all()
    expected = stream(texts, tokenizer)
    assert raw == expected[: len(raw)]
    assert len(expected) - len(raw) < 4 * 34 + 34  # what fills no batch


def test_masked_lm_alone_reads_rows_of_the_input_length(documents, tokenizer):
    dataset = batches(documents, tokenizer, objectives=("masked_lm",))
    assert dataset.element_spec.keys() == {"masked_token_ids", "masked_positions", "masked_targets"}
    assert dataset.element_spec["masked_token_ids"].shape == (4, 32)


def test_prefix_lm_cuts_every_row_of_a_batch_at_the_same_place(documents, tokenizer):
    plain = first(batches(documents, tokenizer, objectives=("masked_lm", "prefix_lm")), 8)
    other = first(batches(documents, tokenizer, objectives=("prefix_lm",), shard=Shard(2, 1)), 8)
    lengths = []
    for one, two in zip(plain, other, strict=True):
        length = one["prefix_mask"][0].sum()
        np.testing.assert_array_equal(one["prefix_mask"], np.tile(np.arange(32) < length, [4, 1]))
        np.testing.assert_array_equal(one["prefix_mask"], two["prefix_mask"])
        kept = np.ones([4, 32], bool)
        np.put_along_axis(kept, one["masked_positions"], False, axis=1)
        np.testing.assert_array_equal(one["prefix_lm_token_ids"][kept], one["masked_token_ids"][kept])
        lengths.append(length)
    assert 1 <= min(lengths) < max(lengths) <= 31


def test_a_prefix_of_prefix_lm_has_any_length_that_leaves_a_target(tokenizer):
    (objective,) = build_objectives(["prefix_lm"], 4)
    lengths = set()
    for number in range(50):
        seed = tf.constant([0, number], tf.int64)
        made = objective.examples(tf.fill([1, 4], 5), Seeds(seed, seed), tokenizer)
        lengths.add(int(made["prefix_mask"].numpy().sum()))
    assert lengths == {1, 2, 3}


def test_rows_are_shuffled_and_repeated_in_another_order(documents, tokenizer):
    plain = rows(batches(documents, tokenizer, num_epochs=1, shuffle_buffer=0))
    assert len(set(plain)) == len(plain)
    shuffled = rows(batches(documents, tokenizer, num_epochs=1, shuffle_buffer=10_000))
    places = np.array([plain.index(row) for row in shuffled if row in plain])
    assert len(places) >= len(plain) - 4  # what fills no batch is another row in each order
    assert abs(np.corrcoef(places, np.arange(len(places)))[0, 1]) < 0.3
    assert len(first(batches(documents, tokenizer), len(plain))) == len(plain)  # four epochs


@pytest.mark.parametrize("num_parallel_calls", [1, 2, 8])
def test_the_same_batches_for_any_number_of_parallel_calls(
    documents, tokenizer, num_parallel_calls, monkeypatch
):
    monkeypatch.setattr(files, "BLOCK_BYTES", 500)  # so that there are many calls
    expected = first(batches(documents, tokenizer, objectives=BOTH), 30)
    actual = first(batches(documents, tokenizer, objectives=BOTH, num_parallel_calls=num_parallel_calls), 30)
    assert_equal(actual, expected)


def test_every_iterator_gives_the_same_batches(documents, tokenizer):
    dataset = batches(documents, tokenizer)
    assert_equal(first(dataset, 10), first(dataset, 10))


def test_another_seed_gives_other_batches(documents, tokenizer):
    one, other = (first(batches(documents, tokenizer, seed=seed), 1)[0] for seed in (1, 2))
    assert (one["encoder_token_ids"] != other["encoder_token_ids"]).any()


@pytest.mark.parametrize("stop", [3, 130])  # in the first epoch and in a later one
def test_a_restored_iterator_goes_on_with_the_same_batches(documents, tokenizer, tmp_path, stop, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 2000)
    expected = first(batches(documents, tokenizer, objectives=BOTH), stop + 20)
    iterator = iter(batches(documents, tokenizer, objectives=BOTH))
    for _ in range(stop):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    again = iter(batches(documents, tokenizer, objectives=BOTH))
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    actual = [{key: value.numpy() for key, value in next(again).items()} for _ in range(20)]
    assert_equal(actual, expected[stop:])


def test_super_batches_of_several_steps_can_be_restored(documents, tokenizer, tmp_path):
    dataset = batches(documents, tokenizer).batch(5, drop_remainder=True)
    iterator = iter(dataset)
    next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    expected = next(iterator)["encoder_token_ids"].numpy()
    again = iter(dataset)
    tf.train.Checkpoint(iterator=again).read(path)
    np.testing.assert_array_equal(next(again)["encoder_token_ids"], expected)


def test_what_an_earlier_stage_has_read_is_passed_over(documents, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 500)
    arguments = {"objectives": ("masked_lm",), "shuffle_buffer": 0}
    plain = first(batches(documents, tokenizer, **arguments), 60)
    skipping = batches(documents, tokenizer, skip_tokens=40 * 4 * 32, **arguments)
    later = first(skipping, 12)
    text, behind = (
        np.concatenate([batch["masked_token_ids"].ravel() for batch in part]).tolist()
        for part in (plain, later)
    )
    # The masks differ: the place is where most tokens agree, at a block's edge near the 40 batches.
    agreement = [np.mean(np.equal(text[i : i + 256], behind[:256])) for i in range(len(text) - 256)]
    assert max(agreement) > 0.7
    assert abs(int(np.argmax(agreement)) - 40 * 4 * 32) < 0.1 * 40 * 4 * 32

    iterator = iter(skipping)  # its beginning is a checkpoint too, and so is any place behind it
    for count in (0, 5):
        for _ in range(count):
            next(iterator)
        path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / f"checkpoint-{count}"))
        again = iter(batches(documents, tokenizer, skip_tokens=40 * 4 * 32, **arguments))
        tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
        actual = [{key: value.numpy() for key, value in next(again).items()} for _ in range(5)]
        assert_equal(actual, later[count : count + 5])


def test_a_later_stage_goes_round_a_short_text(documents, tokenizer):
    assert len(first(batches(documents, tokenizer, skip_tokens=10**7), 3)) == 3


def test_workers_read_different_text(documents, tokenizer):
    one, other = (set(rows(batches(documents, tokenizer, num_epochs=1, shard=Shard(2, i)))) for i in range(2))
    assert min(len(one), len(other)) > 100
    assert not one & other


@pytest.mark.parametrize(
    "text",
    ["word " * 200_000, "x" * 1_000_000, "😀🎉👍" * 300, "\u200d \t\u00a0 " * 300],
    ids=["words", "one", "emoji", "blank"],
)
def test_unusual_texts(tmp_path, tokenizer, text):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": text}])
    found = first(batches(f"jsonl:{path}", tokenizer, batch_size=1, input_length=8), 3)
    assert len(found) == 3
    for batch in found:
        ids = batch["encoder_token_ids"]
        assert ((ids >= 1) & (ids < tokenizer.vocabulary_size())).all()


def test_too_little_text_for_one_batch(tmp_path, tokenizer):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": "one"}])
    with pytest.raises(SourceError, match="not enough text for 4 rows of 34 tokens"):
        batches(f"jsonl:{path}", tokenizer, num_epochs=1)


def test_objectives_of_other_lengths_read_the_same_rows(documents, tokenizer):
    built = build_objectives(BOTH, 32, {"masked_lm": {"input_length": 20, "noise_density": 0.3}})
    (batch,) = first(pretraining_batches(Source(documents), tokenizer, built, batch_size=4, seed=0), 1)
    assert batch["masked_token_ids"].shape == (4, 20)
    assert batch["masked_targets"].shape == (4, 6)
    for row in range(4):
        unmasked = batch["masked_token_ids"][row].copy()
        unmasked[batch["masked_positions"][row]] = batch["masked_targets"][row]
        assert unmasked.tolist() == restored(batch, row)[:20]


def test_an_objective_draws_the_same_whatever_others_there_are(documents, tokenizer, monkeypatch):
    """By a seed of its own."""

    def own_seed(objective, tokens, seeds, tokenizer):
        return {objective.name: seeds.own[tf.newaxis]}

    for cls in OBJECTIVES.values():
        monkeypatch.setattr(cls, "examples", own_seed)
    (beside,) = first(batches(documents, tokenizer, objectives=tuple(OBJECTIVES)), 1)
    assert len({seed.tobytes() for seed in beside.values()}) == len(OBJECTIVES)
    for name, seed in beside.items():
        (alone,) = first(batches(documents, tokenizer, objectives=(name,)), 1)
        np.testing.assert_array_equal(alone[name], seed)


def test_an_objective_that_is_not_registered_is_named(documents, tokenizer):
    class Own(MaskedLanguageModeling):
        name = "own"

    with pytest.raises(ValueError, match=r"^`objectives` must be registered first with .*Received: 'own'$"):
        pretraining_batches(Source(documents), tokenizer, [Own(input_length=8)], batch_size=4, seed=0)


def test_two_objectives_may_not_give_tensors_of_one_name(documents, tokenizer):
    (objective,) = build_objectives(["masked_lm"], 32)
    with pytest.raises(ValueError, match=r"name their tensors differently. Received: masked_positions twice"):
        pretraining_batches(Source(documents), tokenizer, [objective, objective], batch_size=4, seed=0)
