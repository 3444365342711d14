import os
import subprocess
import sys

import tensorflow as tf

from convnlp.launching import cluster
from convnlp.training import strategy as strategy_lib

PROGRAM = """
import keras
import tensorflow as tf
from convnlp.training import strategy as strategy_lib
strategy = strategy_lib.build("multi_worker")
worker, _ = strategy_lib.workers(strategy)
with strategy.scope():
    table, bias = (keras.Variable(tf.fill(shape, 1 / 3 + worker)) for shape in ([2, 3], [4]))
strategy_lib.agree(strategy, [table, bias])
print("values:", table.numpy().tolist(), bias.numpy().tolist())
"""


def test_workers_take_the_values_of_the_first():
    addresses = cluster.loopback(2)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "TF_CONFIG": cluster.tf_config(addresses, index)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    third = float(tf.constant(1 / 3))
    expected = f"values: {[[third] * 3] * 2} {[third] * 4}"
    for worker in workers:
        output, _ = worker.communicate(timeout=300)
        assert worker.returncode == 0
        assert expected in output


def test_one_process_agrees_with_itself():
    strategy = tf.distribute.get_strategy()
    variable = tf.Variable([1.0, 2.0])
    strategy_lib.agree(strategy, [variable])
    assert variable.numpy().tolist() == [1, 2]
