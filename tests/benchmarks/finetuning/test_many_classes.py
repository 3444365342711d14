"""Which texts take part where some classes are drawn, and what is said of the answers."""

import numpy as np
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


def test_buckets_keep_what_the_texts_that_are_trained_on_have(capsys):
    """Each class has a token of its own; a single bucket keeps one of the two, at most."""
    labels = np.array([0, 1] * 10)
    found = examples.Examples((tf.RaggedTensor.from_tensor(labels[:, None] + 5),), (1,), labels)
    table = many_classes.by_buckets(found, 2, [1, 4096], np.arange(20) >= 12, few=2)
    assert [line.split()[1] for line in table.splitlines()[2:]] == ["1", "4096"] * 2
    assert table.splitlines()[3].split(" | ")[2:5] == ["8", "100.0", "100.0"]
