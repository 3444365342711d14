"""What is noticed between two runs."""

import tensorflow as tf

from benchmarks import tiny_run


def test_a_checkpoint_that_differs_is_noticed(tmp_path):
    for name, value in (("one", 1.0), ("same", 1.0), ("other", 2.0)):
        folder = tmp_path / name / "checkpoints" / "00000010"
        tf.train.Checkpoint(v=tf.Variable(value)).write(str(folder / "model"))
        (tmp_path / name / "metrics.jsonl").write_text('{"step": 2}\n{"step": 10}\n')
    # What a run says beyond the step, and half a line, do not count.
    (tmp_path / "same" / "metrics.jsonl").write_text('{"step": 2}\n{"step": 10}\n{"step": 12}\n{"st')
    assert tiny_run.differences(tmp_path / "same", tmp_path / "one", 10) == []
    (name,) = tiny_run.differences(tmp_path / "other", tmp_path / "one", 10)
    assert name.startswith("v/")
    (tmp_path / "same" / "metrics.jsonl").write_text('{"step": 2}\n{"step": 10, "loss": 1}\n')
    assert tiny_run.differences(tmp_path / "same", tmp_path / "one", 10) == ["metrics.jsonl"]
