"""Processes with one variant each, which wait while another one has its turn."""

import contextlib
import json
import os
import subprocess
import sys
import time

from benchmarks import timing


class WorkerError(Exception):
    """A variant failed; the message is the tool's, or says how the process ended."""


class Worker:
    """Starts a process of `benchmarks.inferring.worker` and waits for its first answer.

    Args:
        key: str, a key of `VARIANTS`.
        path: str, the variant's file.
        threads: int.
        asks_path: path of the file of the inputs.
        log: file that receives what the tool prints.

    Attributes:
        seconds: float, from the start of the process to the first answer, imports included.
        first_bytes: int, its peak memory until then.

    Raises:
        WorkerError: if the process ends before that.
    """

    def __init__(self, key, path, threads, asks_path, log):
        command = [sys.executable, "-m", "benchmarks.inferring.worker", key, path, threads, asks_path]
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        started = time.perf_counter()
        self._process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | dict.fromkeys(names, str(threads)),
        )
        try:
            self.first_bytes = self._answer()["bytes"]
        except WorkerError:
            self.close()
            raise
        self.seconds = time.perf_counter() - started

    def ask(self, do, name=""):
        """Returns the reply of the process, a dict or None.

        Args:
            do: "answer", "warm_up", "sample" or "peak".
            name: str, the name of an input.

        Raises:
            WorkerError: if the tool raises an error, or the process ends.
        """
        try:
            self._process.stdin.write(json.dumps({"do": do, "ask": name}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `_answer` reports how the process ended
        return self._answer()

    def sampler(self, name):
        """Returns a warmed-up sampler of one input for `timing.in_turns`."""
        self.ask("warm_up", name)
        return _Sampler(self, name)

    def close(self):
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"the process ended with {self._process.wait()}")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise WorkerError(answer["error"])
        return answer


class _Sampler:
    def __init__(self, worker, name):
        self._worker, self._name = worker, name

    def sample(self):
        return timing.Sample(**self._worker.ask("sample", self._name))
