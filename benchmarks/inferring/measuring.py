"""Loads all variants, compares each with the reference, and times them in turns on every input."""

import contextlib
import dataclasses

import numpy as np

from benchmarks import timing
from benchmarks.inferring import parity
from benchmarks.inferring.turns import Worker, WorkerError
from benchmarks.inferring.variants import Variant


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A variant of one model.

    Args:
        variant: `Variant`.
        mixer: str; "" for a model with weights of its own.
        path: str, its file.
        megabytes: float, the size of this file and of the vocabulary.
        reference: dict, name of an input -> [B,C]; None for a model with weights of its own.
    """

    variant: Variant
    mixer: str
    path: str
    megabytes: float
    reference: dict | None

    @property
    def names(self):
        """What identifies it in the results."""
        return {"variant": self.variant.key, "mixer": self.mixer}


class Measurement:
    """The results of all candidates with one number of threads.

    Args:
        candidates: list of `Candidate`.
        asked: list of `Ask`.
        threads: int.
        repeats: int, samples per candidate and input.

    Attributes:
        variants: list of dicts, one per candidate that could be loaded.
        cells: list of dicts, one per candidate and input.
        failed: list of dicts with "why", for candidates that could not be loaded, raised an error or differ
            from the reference.
    """

    def __init__(self, candidates, asked, threads, repeats):
        self._candidates, self._asked = candidates, asked
        self._threads, self._repeats = threads, repeats
        self.variants, self.cells, self.failed = [], [], []

    def run(self, asks_path, log, start=Worker):
        """Yields the name of each input when its results have been added.

        Args:
            asks_path: path of the file of the inputs.
            log: file that receives what the tools print.
            start: function that makes a worker, with the arguments of `Worker`.
        """
        with contextlib.ExitStack() as stack:
            workers = {}
            for number, candidate in enumerate(self._candidates):
                try:
                    worker = start(candidate.variant.key, candidate.path, self._threads, asks_path, log)
                except WorkerError as error:
                    self._fail(candidate, str(error))
                    continue
                stack.callback(worker.close)
                workers[number] = worker
                self.variants.append(
                    {
                        **candidate.names,
                        "threads": self._threads,
                        "seconds_to_first_answer": worker.seconds,
                        "first_megabytes": worker.first_bytes / 1e6,
                        "disk_megabytes": candidate.megabytes,
                        "error": None,
                    }
                )
            rows = dict(zip(workers, self.variants, strict=True))
            for ask in self._asked:
                samplers = {}
                for number, worker in workers.items():
                    candidate = self._candidates[number]
                    longest = candidate.variant.longest
                    if longest is not None and ask.longest > longest:
                        continue
                    try:
                        if self._is_right(candidate, ask, worker, rows[number]):
                            samplers[number] = worker.sampler(ask.name)
                    except WorkerError as error:
                        self._fail(candidate, str(error), ask)
                for number, timed in timing.in_turns(samplers, self._repeats, self._repeats + 2).items():
                    self.cells.append(self._cell(self._candidates[number], ask, timed, workers[number]))
                yield ask.name

    def _is_right(self, candidate, ask, worker, row):
        """Returns whether the answers to the first batch match the reference; records the difference."""
        if candidate.reference is None:
            return True
        outputs = np.array(worker.ask("answer", ask.name)["outputs"])
        error = parity.error(outputs, candidate.reference[ask.name])
        limit = parity.bound(candidate.variant, candidate.reference)
        if not error <= limit:
            self._fail(candidate, f"a logit differs by {error:.3g}, more than {limit:.3g}", ask)
            return False
        row["error"] = max(error, row["error"] or 0.0)
        return True

    def _cell(self, candidate, ask, timed, worker):
        batches = len(ask.batches)
        return {
            **candidate.names,
            "threads": self._threads,
            "ask": ask.name,
            "milliseconds": 1000 * timed.median / batches,
            "lower_quartile": 1000 * timed.lower_quartile / batches,
            "texts_per_second_per_core": ask.num_texts / timed.median / self._threads,
            "cores_in_use": timed.cpu_seconds / timed.median,
            "peak_megabytes": worker.ask("peak")["bytes"] / 1e6,
            "timing": timed.summary(1000 / batches),
        }

    def _fail(self, candidate, why, ask=None):
        row = {**candidate.names, "threads": self._threads, "ask": ask.name if ask else "", "why": why}
        self.failed.append(row)
        print(f"failed: {row}", flush=True)
