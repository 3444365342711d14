"""What a run says: its progress, metrics.jsonl, times.jsonl and TensorBoard.

metrics.jsonl depends on the config alone: an interrupted and resumed run writes the same bytes as one left
alone. Whatever depends on the clock (seconds, tokens per second) goes into times.jsonl.
"""

import json
import sys
import time

import numpy as np
import tensorflow as tf
from absl import logging

from convnlp.training import progress, storage

SHOWN = ("loss", "accuracy", "encoder_use")  # in the bar; everything is in the files


class Metrics:
    """Writes metrics of one worker; all but the first worker stay silent.

    Args:
        workdir: directory, a local path or a URL; behind a URL the files are written by `flush`.
        num_steps: int. Length of the run, for the bar and the time left.
        step: int. Where the run starts or resumes.
        position: int. Size of metrics.jsonl at that step; what a killed run wrote after it is cut off. Where
            the file is shorter, lines were deleted: that is reported, and the run adds to what is there, but
            for lines of later steps.
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
        """Records values of one step.

        Args:
            step: int.
            values: dict name -> float, in the order in which they are to stand.
            tokens: int. Tokens trained on since the last call, for the rate; 0 if nothing was trained on.
        """
        if self._silent:
            return
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self.position = self._file.position
        # TensorFlow keeps a tensor for each Python number it has ever converted; NumPy's are let go.
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
        """Makes what was written outlive the process, as a checkpoint asks that counts its bytes."""
        if not self._silent:
            self._file.flush()
            self._times.flush()

    def restart_clock(self):
        """Leaves the time since the last `write` (evaluation, checkpoint) out of the next rate."""
        self._clock = time.monotonic()

    def say(self, text):
        """Prints without tearing the bar."""
        if not self._silent:
            self._bar.write(text, file=sys.stderr)

    def close(self):
        if not self._silent:
            self._bar.close()
            self._summaries.close()
            self._file.close()
            self._times.close()


def _lines_until(step, content):
    """The lines (bytes) that are of no later step; one of which only a part is left stays as it is."""

    def is_later(line):
        try:
            return json.loads(line)["step"] > step
        except (ValueError, LookupError, TypeError):
            return False

    lines = (line.rstrip(b"\n") for line in content.splitlines(keepends=True))
    return b"".join(line + b"\n" for line in lines if not is_later(line))
