"""A bag of hashed n-grams against loops in Python's unlimited integers."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import HashedNgrams
from convnlp.layers.hashed_ngrams import MAX_BUCKETS, SCALE

RNG = np.random.default_rng(0)


def bucket_of(ngram, num_buckets):
    if len(ngram) == 1:
        return ngram[0] % num_buckets * 12_799 % num_buckets
    return (ngram[0] % num_buckets * 15_383 % num_buckets + ngram[1]) % num_buckets


def key_of(ngram):
    return ngram[0] % 2**15 * 2**16 + ((ngram[1] + 1) % 2**16 if len(ngram) == 2 else 0)


def ngrams_of(tokens):
    return {(token,) for token in tokens} | set(itertools.pairwise(tokens))


def kept_of(texts, num_buckets):
    """Bucket -> its n-gram: of those that most texts have, the one with the smallest key."""
    counts = collections.Counter(ngram for text in texts for ngram in ngrams_of(text))
    kept = {}
    for ngram in sorted(counts, key=key_of):
        bucket = bucket_of(ngram, num_buckets)
        if bucket not in kept or counts[ngram] > counts[kept[bucket]]:
            kept[bucket] = ngram
    return kept


def expected(table, kept, texts):
    rows = []
    for text in texts:
        buckets = [bucket for bucket, ngram in kept.items() if ngram in ngrams_of(text)]
        total = sum((table[bucket] for bucket in buckets), np.zeros(table.shape[1]))
        rows.append(SCALE * total / max(len(buckets), 1) ** 0.5)
    return np.array(rows)


def padded(texts, pad=0):
    width = max(map(len, texts))
    ids = np.array([[*text, *[pad] * (width - len(text))] for text in texts], "int32")
    return tf.constant(ids), tf.constant(np.arange(width) < np.array([[len(text)] for text in texts]))


def some_texts(count, vocabulary):
    return [RNG.choice(vocabulary, RNG.integers(0, 30)).tolist() for _ in range(count)]


@pytest.fixture(params=[7, 1000, 65_521, 2**16, MAX_BUCKETS])
def adapted(request):
    """A layer that kept n-grams of texts, these texts, and their vocabulary."""
    vocabulary = RNG.choice(30_000, 40, replace=False)
    texts = some_texts(60, vocabulary)
    layer = HashedNgrams(request.param, 3)
    layer.adapt(tf.ragged.constant(texts, tf.int32))
    layer.table.assign(RNG.normal(size=layer.table.shape))
    return layer, texts, vocabulary


def test_each_bucket_keeps_the_ngram_that_most_texts_have(adapted):
    layer, texts, _ = adapted
    kept = kept_of(texts, layer.num_buckets)
    assert kept
    keys = layer.keys.numpy().tolist()
    assert keys == [key_of(kept[bucket]) if bucket in kept else -1 for bucket in range(layer.num_buckets)]


def test_equals_the_loops(adapted):
    layer, texts, vocabulary = adapted
    others = [*some_texts(9, vocabulary), [], texts[0][:1], texts[0] * 2]
    found = layer(*padded(others))
    kept = kept_of(texts, layer.num_buckets)
    np.testing.assert_allclose(found, expected(layer.table.numpy(), kept, others), rtol=1e-4, atol=1e-4)


def test_an_ngram_that_no_bucket_keeps_does_not_count():
    layer = HashedNgrams(64, 2)
    layer.adapt(tf.ragged.constant([[5, 6]]))
    layer.table.assign(tf.ones([64, 2]))
    rest = [token for token in range(200) if token not in (5, 6)]
    found = layer(*padded([[5, 6], rest, [6, 5]]))
    np.testing.assert_allclose(found[:, 0], SCALE * np.sqrt([3, 0, 2]), rtol=1e-6)


def test_until_it_is_adapted_nothing_counts():
    layer = HashedNgrams(64, 2)
    assert not np.any(layer(*padded([[5, 6, 0, 1]])))


def test_what_stands_at_pads_does_not_matter():
    layer = HashedNgrams(64, 2)
    layer.adapt(tf.ragged.constant([[5, 6, 9, 8]]))
    mask = tf.constant([[True, True, False, False]])
    one, other = (layer(tf.constant([[5, 6, *pads]]), mask) for pads in ([0, 0], [9, 8]))
    np.testing.assert_array_equal(one, other)
    assert np.any(one)


def test_nearly_all_pairs_of_a_vocabulary_are_told_apart():
    layer = HashedNgrams(MAX_BUCKETS, 1)
    ids = tf.constant(RNG.choice(32_000, [1, 4001], replace=False), tf.int32)
    single, pairs = layer._buckets(ids)
    for buckets in (single, pairs):
        assert len(np.unique(buckets)) > 0.95 * 4000  # 97 % if they were drawn at random


def test_large_vocabularies_are_told_apart_too():
    """All ids are in the range of int32; 2**15 and 2**16 apart, they have the same key."""
    ids = [2**15 + 7, 2**16 + 7, 2**31 - 1, 250_000]
    layer = HashedNgrams(MAX_BUCKETS, 1)
    layer.adapt(tf.ragged.constant([ids], tf.int32))
    layer.table.assign(tf.ones([MAX_BUCKETS, 1]))
    assert np.all(layer.keys.numpy() >= -1)
    for text in (ids, ids[:2], ids[2:], [ids[3]]):
        np.testing.assert_allclose(
            layer(*padded([text]))[0, 0], SCALE * np.sqrt(2 * len(text) - 1), rtol=1e-6
        )
    assert not np.any(layer(*padded([[7], [8, 9]])))


@pytest.mark.parametrize(("tokens", "lengths"), [([], []), ([], [0]), ([3], [1])])
def test_adapts_to_few_texts_and_to_none(tokens, lengths):
    layer = HashedNgrams(64, 2)
    layer.adapt(
        tf.RaggedTensor.from_row_lengths(tf.constant(tokens, tf.int32), tf.constant(lengths, tf.int64))
    )
    assert np.sum(layer.keys.numpy() >= 0) == len(tokens)


@pytest.mark.parametrize("num_buckets", [0, MAX_BUCKETS + 1, 2.0])
def test_a_table_of_another_size_is_refused(num_buckets):
    with pytest.raises(ValueError, match="`num_buckets` must be "):
        HashedNgrams(num_buckets, 1)
