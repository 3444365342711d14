"""What a run reports: its progress, metrics.jsonl, times.jsonl and TensorBoard.

metrics.jsonl depends only on the config: an interrupted and resumed run writes the same bytes as an
uninterrupted one. Everything that depends on the clock (seconds, tokens per second) goes into times.jsonl.
"""

import json
import sys
import time

import numpy as np
import tensorflow as tf
from absl import logging

from convnlp.training import progress, storage

SHOWN = ("loss", "accuracy", "encoder_use")  # in the progress bar; the files hold everything


class Metrics:
    """Writes the metrics of a worker; all workers but the first are silent.

    Args:
        workdir: directory, a local path or a URL; behind a URL, `flush` writes the files.
        num_steps: int. Length of the run, for the progress bar and the time left.
        step: int. The step at which the run starts or resumes. Defaults to 0.
        position: int. Size of metrics.jsonl at that step, in bytes; what a killed run wrote after it is cut
            off. If the file is shorter, lines were deleted: this is logged, lines of later steps are removed,
            and the run appends to the rest. Defaults to 0.
        silent: bool. Writes and shows nothing. Defaults to False.
    """

    def __init__(self, workdir, num_steps, step=0, position=0, silent=False):
        self._silent = silent
        self.position = position
        if silent:
            return
        path = storage.join(workdir, "metrics.jsonl")
        size = max(storage.size(path), 0)
        if size < position:
            logging.warning(
                "%s has %d bytes and had %d at step %d: the lines that are missing stay missing",
                *(path, size, position, step),
            )
            if size:
                storage.write(path, _lines_until(step, storage.read(path)))
        self._file = storage.Appended(path, position)
        self.position = self._file.position
        self._times = storage.Appended(storage.join(workdir, "times.jsonl"))
        self._summaries = tf.summary.create_file_writer(storage.join(workdir, "tensorboard"))
        self._bar = progress.shown(num_steps, step)
        self._shown = {}
        self._clock = time.monotonic()

    def write(self, step, values, tokens=0):
        """Records values of a step.

        Args:
            step: int.
            values: dict name -> float, in the order to write.
            tokens: int. Tokens trained on since the last call, for the rate; 0 for none. Defaults to 0.
        """
        if self._silent:
            return
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self.position = self._file.position
        # TensorFlow keeps a tensor for every Python number it has ever converted, but not for NumPy numbers.
        with self._summaries.as_default(step=np.int64(step)):
            for name, value in values.items():
                tf.summary.scalar(name, np.float32(value))
        self._shown.update({k: f"{v:.4g}" for k, v in values.items() if k.rsplit("/")[-1] in SHOWN})
        if tokens:
            now = time.monotonic()
            rate = tokens / (now - self._clock)
            self._times.write(
                json.dumps({"step": step, "unix_seconds": time.time(), "tokens_per_second": rate}) + "\n"
            )
            self._shown["tok/s"] = f"{rate:,.0f}"
            self._clock = now
        self._bar.set_postfix(self._shown, refresh=False)
        self._bar.update(step - self._bar.n)

    def flush(self):
        """Makes what was written outlive the process: a checkpoint relies on the size of the file."""
        if not self._silent:
            self._file.flush()
            self._times.flush()

    def restart_clock(self):
        """Excludes the time since the last `write` (evaluation, checkpoint) from the next rate."""
        self._clock = time.monotonic()

    def say(self, text):
        """Prints a text without breaking the progress bar."""
        if not self._silent:
            self._bar.write(text, file=sys.stderr)

    def close(self, flush=True):
        """Closes all files; behind a URL, without `flush`, what was written since the last one is lost."""
        if not self._silent:
            self._bar.close()
            self._summaries.close()
            self._file.close(flush)
            self._times.close(flush)


def _lines_until(step, content):
    """Returns the lines of `content`, bytes, without those of later steps; keeps lines that are cut off."""

    def is_later(line):
        try:
            return json.loads(line)["step"] > step
        except (ValueError, LookupError, TypeError):
            return False

    lines = (line.rstrip(b"\n") for line in content.splitlines(keepends=True))
    return b"".join(line + b"\n" for line in lines if not is_later(line))
