import json
import os

import tensorflow as tf

from benchmarks import machine


def test_the_machine_is_described():
    facts = machine.describe(threads=2)
    assert facts["threads"] == 2
    assert facts["cores"] == os.cpu_count()
    assert facts["memory_gb"] > 0
    assert facts["tensorflow"].startswith("2.")
    assert facts["keras_nlp"]
    json.dumps(facts)


def test_the_matrix_product_is_one():
    call, operations = machine.matmul("float32", rows=3, inner=5, columns=7)
    assert operations == 2 * 3 * 5 * 7
    left, right = tf.random.stateless_normal([3, 5], (0, 1)), tf.random.stateless_normal([5, 7], (0, 2))
    assert abs(call() - tf.reduce_sum(left[0] * right[:, 0]).numpy()) < 1e-5  # float32 sums
