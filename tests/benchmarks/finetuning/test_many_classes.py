"""Which texts take part where some classes are drawn, and what is said of the answers."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from benchmarks.finetuning import many_classes
from convnlp.data import examples


def test_only_the_classes_that_are_drawn_take_part():
    """Each class has a bucket of its own; the first text of class 7 has that of class 3."""
    labels = np.array([7, 3, 5] * 10)
    buckets = labels.copy()
    buckets[0] = 3
    counts = sparse.csr_array(np.eye(8)[buckets])
    is_held_out = np.arange(30) >= 15
    hits = many_classes.hits_of(counts, labels, np.array([7, 3]), is_held_out, None)
    assert (hits.shape, hits.all()) == ((2, 10), True)
    one_each = many_classes.hits_of(counts, labels, np.array([7, 3]), is_held_out, 1)
    assert not one_each.all()  # the text of class 7 says nothing of its bucket


def test_the_gain_is_paired():
    hits = np.array([[1, 1, 0, 0], [1, 1, 1, 0]], bool)
    assert many_classes.row(hits) == (4, "50.0", "75.0", "+25.0 ± 21.7")


def test_buckets_keep_what_the_texts_that_are_trained_on_have():
    """A token tells the classes apart; most texts have another one, but none of those trained on."""
    labels = np.array([0, 1] * 15)
    is_held_out = np.arange(30) >= 8
    rows = [[5 + c, 9] if held else [5 + c] for c, held in zip(labels, is_held_out, strict=True)]
    tokens = tf.ragged.constant(rows, tf.int32)
    found = examples.Examples((tokens,), (2,), labels)
    table = many_classes.by_buckets(found, 2, [1, 4096], is_held_out, few=2)
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert [line[0] for line in lines] == ["1", "4096"] * 2
    assert [line[2:5] for line in lines] == [["22", "100.0", "100.0"]] * 4


def test_more_buckets_than_a_table_may_have():
    assert many_classes.numbers_of_buckets([]) == []
    assert many_classes.numbers_of_buckets(["8192", "131072"]) == [8192, 131072]
    with pytest.raises(ValueError, match=r"`--buckets` must be at most 131072\. Received: 1,131073"):
        many_classes.numbers_of_buckets(["1", "131073"])
