"""A bag of hashed n-grams against loops in Python's unlimited integers."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import HashedNgrams
from convnlp.layers.hashed_ngrams import MAX_BUCKETS, SCALE

RNG = np.random.default_rng(0)


def expected(table, token_ids, mask):
    rows = []
    for ids, kept in zip(token_ids.tolist(), mask.tolist(), strict=True):
        tokens = [token for token, is_kept in zip(ids, kept, strict=True) if is_kept]
        buckets = [token % len(table) * 31_337 % len(table) for token in tokens]
        for place in range(len(ids) - 1):
            if kept[place] and kept[place + 1]:
                first = ids[place] % len(table) * 28_411 % len(table)
                buckets.append((first + ids[place + 1]) % len(table))
        total = sum((table[bucket] for bucket in buckets), np.zeros(table.shape[1]))
        rows.append(SCALE * total / max(len(buckets), 1) ** 0.5)
    return np.array(rows)


@pytest.mark.parametrize("num_buckets", [7, 65_521, MAX_BUCKETS])
def test_equals_the_loops(num_buckets):
    layer = HashedNgrams(num_buckets, 3)
    layer.build((None, None))
    layer.table.assign(RNG.normal(size=layer.table.shape))
    token_ids = RNG.integers(0, 300_000, [5, 9]).astype("int32")
    mask = np.arange(9) < np.array([[9], [1], [0], [4], [8]])
    found = layer(tf.constant(token_ids), tf.constant(mask))
    np.testing.assert_allclose(found, expected(layer.table.numpy(), token_ids, mask), rtol=1e-4, atol=1e-5)


def test_what_stands_at_pads_does_not_matter():
    layer = HashedNgrams(64, 2)
    mask = tf.constant([[True, True, False, False]])
    one, other = (layer(tf.constant([[5, 6, *pads]]), mask) for pads in ([0, 0], [9, 8]))
    np.testing.assert_array_equal(one, other)


def test_nearly_all_pairs_of_a_vocabulary_are_told_apart():
    layer = HashedNgrams(MAX_BUCKETS, 1)
    ids = tf.constant(RNG.choice(32_000, [1, 4001], replace=False), tf.int32)
    single, pairs = layer._buckets(ids)
    for buckets in (single, pairs):
        assert len(np.unique(buckets)) > 0.95 * 4000  # 97 % if they were drawn at random


@pytest.mark.parametrize("num_buckets", [0, MAX_BUCKETS + 1, 2.0])
def test_a_table_of_another_size_is_refused(num_buckets):
    with pytest.raises(ValueError, match="`num_buckets` must be "):
        HashedNgrams(num_buckets, 1)
