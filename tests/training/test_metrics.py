"""What a run says of itself: memory must not grow with what it says."""

import gc
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from convnlp.training import metrics
from convnlp.training.metrics import Metrics

NAMES = ("loss", "accuracy", "gradient_norm", "learning_rate", "masked_lm/loss", "tokens")


def resident_mb():
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def write(log, first, count):
    generator = np.random.default_rng(first)
    for step in range(first, first + count):
        log.write(step, dict(zip(NAMES, generator.random(len(NAMES)).tolist(), strict=True)), tokens=8)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_steps(tmp_path):
    """A tensor that stays for each Python number, as TensorFlow keeps them, would be 30 MB here."""
    log = Metrics(str(tmp_path), num_steps=10**6)
    write(log, 0, 500)
    before = resident_mb()
    write(log, 500, 5000)
    assert resident_mb() - before < 8
    log.close()


def test_tensorboard_has_what_metrics_jsonl_has(tmp_path):
    log = Metrics(str(tmp_path), num_steps=10)
    log.write(3, {"loss": 0.1, "tokens": 12})
    log.write(2**31 + 5, {"loss": 0.2})
    log.close()
    (events,) = (tmp_path / "tensorboard").iterdir()
    found = [
        (event.step, value.tag, tf.make_ndarray(value.tensor).item())
        for event in tf.compat.v1.train.summary_iterator(str(events))
        for value in event.summary.value
    ]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    expected = [
        (row["step"], name, float(np.float32(value)))
        for row in rows
        for name, value in row.items()
        if name != "step"
    ]
    assert len(found) == 3
    assert found == expected


def test_the_lines_of_a_step_stay_with_it():
    content = b'{"step": 1}\n{"step": 2}\nno JSON\n{"step": 3}\n{"st'
    assert metrics._lines_until(2, content) == b'{"step": 1}\n{"step": 2}\nno JSON\n{"st\n'
