"""A tiny run of `convnlp pretrain` that is started again and again and watched from outside."""

import os
import pathlib
import re
import subprocess
import sys
import time

from benchmarks import tiny_run
from benchmarks.soaking import stepped_clock
from convnlp.launching.worker import ending_with_us

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVERY = 50  # steps from one evaluation and checkpoint to the next
PATIENCE_SECONDS = 600.0
_QUIET_SECONDS = 1.0
_CLOCK_MODULE = "benchmarks.soaking.stepped_clock"


class NothingHappensError(Exception):
    """An expected event has not happened in time."""


def start_process(arguments, environment, log):
    """Starts `python -m convnlp` with arguments; the process ends with this one and writes to `log`."""
    command = ending_with_us([sys.executable, "-m", "convnlp", *arguments])
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)


class Run:
    """A run in a directory; it has one process at a time.

    Args:
        workdir: pathlib.Path.
        log: pathlib.Path, for the output of all its processes.
        num_steps: int.
        started: function of (arguments, environment, file) that returns a process. Defaults to
            `start_process`.

    Attributes:
        process: the last process.
        life: int, the number of processes so far.
    """

    def __init__(self, workdir, log, num_steps, started=start_process):
        self.workdir, self.log = workdir, log
        self.clock = log.with_suffix(".clock")
        self.process, self.life = None, 0
        self._num_steps, self._started = num_steps, started
        self._place = 0

    def start(self, *flags, num_steps=None):
        """Starts a process."""
        fields = tiny_run.fields(
            num_steps or self._num_steps,
            keep=3,
            train_eval_every=EVERY,
            train_checkpoint_every=EVERY,
            train_batch_size=8,
            model_hidden_dim=32,
            model_intermediate_dim=64,
            data_input_length=64,
            optimizer_ema_momentum=0.9,
        )
        self._place = self.log.stat().st_size if self.log.exists() else 0
        arguments = [*tiny_run.command(self.workdir, fields), f"--modules={_CLOCK_MODULE}", *flags]
        environment = {**os.environ, stepped_clock.FILE: str(self.clock)}
        with open(self.log, "ab") as log:
            self.process = self._started(arguments, environment, log)
        self.life += 1

    def said(self):
        """Returns the output of the last process as text; states of a progress bar count as lines."""
        with open(self.log, "rb") as file:
            file.seek(self._place)
            return file.read().decode("utf-8", "replace").replace("\r", "\n")

    def resumed_at(self):
        """Returns the step from which the last process continued; None while that is not known."""
        found = re.search(r"^Resuming at step (\d+)", self.said(), re.M)
        return int(found[1]) if found else None

    def step(self):
        """Returns the last step whose metrics are written."""
        return tiny_run.last_step(self.workdir)

    def checkpoints(self):
        """Returns the steps of the checkpoints."""
        return tiny_run.checkpoints(self.workdir)

    def checkpoint(self, step):
        """Returns the directory of a checkpoint."""
        return self.workdir / "checkpoints" / f"{step:08d}"

    def is_alive(self):
        """Returns whether its process runs."""
        return self.process.poll() is None

    def wait_until_it_trains(self):
        """Waits for the first steps of this process, or for its end; returns whether it trains."""
        self._wait(lambda: re.search(r"^step \d", self.said(), re.M) or not self.is_alive(), "the first step")
        return self.is_alive()

    def wait_for_checkpoint(self):
        """Waits for the next checkpoint, or for the end of the process; returns whether it still runs."""
        last = max(self.checkpoints(), default=0)
        self._wait(lambda: max(self.checkpoints(), default=0) > last or not self.is_alive(), "a checkpoint")
        return self.is_alive()

    def wait_for_end(self):
        """Waits for the end of a process to which something has happened; returns its exit code."""
        self._wait(lambda: not self.is_alive(), "the end of the process")
        return self._code()

    def wait_for_last_step(self, meanwhile=lambda: None):
        """Waits until a process has made all its steps, however many, and ended; returns its exit code.

        Args:
            meanwhile: function without arguments, called again and again.
        """
        step, since = -1, time.monotonic()
        while self.is_alive():
            if (last := self.step()) != step:
                step, since = last, time.monotonic()
            elif time.monotonic() > since + PATIENCE_SECONDS:
                raise NothingHappensError(f"there was no step after step {step}; see {self.log}")
            meanwhile()
            time.sleep(_QUIET_SECONDS)
        return self._code()

    def _code(self):
        size = -1  # output of C++ arrives through a process that outlives this one
        while size != (size := self.log.stat().st_size):
            time.sleep(_QUIET_SECONDS)
        return self.process.poll()

    def signal(self, signum):
        """Sends a signal, unless the process has ended."""
        self.process.send_signal(signum)

    def close(self):
        """Ends the process, if there is one."""
        if self.process is not None and self.is_alive():
            self.process.kill()
            self.process.wait()

    def _wait(self, holds, what):
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > end:
                raise NothingHappensError(f"{what} was not reached in time; see {self.log}")
            time.sleep(0.02)
