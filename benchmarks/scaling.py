"""How training scales over several workers: measured on this machine, predicted beyond it: docs/scaling.md.

    python -m benchmarks.scaling --workdir=DIR --docs_dir=docs

`convnlp launch` trains the shipped preset's encoder with 1, 2, 3 and 4 workers. Each is bound to a core of
its own or, if there are fewer cores, to an equal part of all of them. The number of rows is the same per
worker (weak scaling) or in total (strong scaling). The numbers of workers take turns, round after round,
for as many rounds as --minutes allows, at most --rounds. The time of a step without communication is that
of one worker with as many rows.

These times, the steps that the TPU compiler made (tpu.json) and published rates of links predict the times
of more machines and of TPU pods. --nomeasure repeats the prediction from earlier measurements.
"""

import contextlib
import json
import math
import os
import pathlib
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import machine, pages, processes, tpu
from benchmarks.comparison import runner
from benchmarks.distributing import page, predictions, runs
from benchmarks.shared_flags import define_output
from convnlp import programs
from convnlp.training.storage import write_json

PAGE, FIGURES = "scaling.md", "scaling.json"


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory for the runs, which are deleted again.", required=True)
    define_output("docs_dir", f"Directory of {FIGURES} and {PAGE}.", required=True)
    flags.DEFINE_list("num_workers", ["1", "2", "3", "4"], "Numbers of workers, including 1.")
    flags.DEFINE_integer("rows", 24, "Rows of 128 tokens, a multiple of each number of workers.", 1)
    flags.DEFINE_integer("calls", 3, f"Timed calls of {runs.STEPS_PER_CALL} steps in each round.", 1)
    flags.DEFINE_integer("rounds", 3, "Largest number of rounds over all numbers of workers.", 1)
    flags.DEFINE_float(
        "minutes", 7.0, "Begin no round that would end later; the first one runs in any case.", 0
    )
    flags.DEFINE_bool("measure", True, f"Measure; otherwise predict from what {FIGURES} holds.")


def main(_):
    """Flags -> runs -> predictions -> JSON, page."""
    args = flags.FLAGS
    runner.end_by_sigterm()  # so that the workers end too
    counts, docs = checked(args)
    result = {"machine": {}, "settings": {}, "cells": []}
    with contextlib.suppress(FileNotFoundError):
        result |= json.loads((docs / FIGURES).read_text(encoding="utf-8"))
    if args.measure:
        result |= measured(args, counts)
    records = json.loads((docs / tpu.FIGURES).read_text(encoding="utf-8"))
    result["models"] = predictions.models()
    result["chips"] = predictions.of_chips(records, result["models"], page.CHIP)
    write_json(docs / FIGURES, result)
    pages.replace_generated(docs / PAGE, page.BEGIN, page.text(result))


def checked(args):
    """Returns (numbers of workers, pathlib.Path of the docs); raises ValueError before anything starts."""
    if not all(word.isdecimal() and int(word) for word in args.num_workers) or "1" not in args.num_workers:
        raise ValueError(
            f"`num_workers` must be whole numbers >= 1, including 1. Received: {','.join(args.num_workers)}"
        )
    counts = sorted(set(map(int, args.num_workers)))
    if args.rows % (least := math.lcm(*counts)):
        raise ValueError(
            f"`rows` must be a multiple of {least}, so of each of --num_workers. Received: rows={args.rows}"
        )
    docs = pathlib.Path(args.docs_dir)
    pages.require_marks("docs_dir", docs / PAGE, page.BEGIN)
    if not (docs / tpu.FIGURES).exists():
        raise ValueError(
            f"`docs_dir` must be a directory that holds {tpu.FIGURES}. Received: {args.docs_dir}"
        )
    return counts, docs


def measured(args, counts):
    """Measures and returns the parts of the result from this machine: "machine", "settings", "cells"."""
    about, cores = machine.describe(None), processes.cores()
    workdir = pathlib.Path(args.workdir).absolute()
    workdir.mkdir(parents=True, exist_ok=True)
    layouts = runs.layouts(counts, cores, args.rows)
    samples, began = [], time.monotonic()
    for count in range(args.rounds):
        passed = time.monotonic() - began
        if count and passed * (count + 1) / count > 60 * args.minutes:
            break
        for layout in layouts:
            with tempfile.TemporaryDirectory(dir=workdir) as folder:
                found = runs.measure(layout, pathlib.Path(folder), args.calls)
            for sample in found:
                print(line(sample), flush=True)
            samples += found
    settings = {"rows": args.rows, "num_cores": len(cores), "steps_per_call": runs.STEPS_PER_CALL}
    return {"machine": about, "settings": settings, "cells": runs.together(samples)}


def line(sample):
    """Returns the line that is printed for a sample."""
    times = ", ".join(f"{1e3 * seconds:,.0f}" for seconds in sample["seconds"])
    return (
        f"{sample['num_workers']} workers of {sample['threads']} threads on {sample['num_cores']} cores, "
        f"{sample['rows']} rows each: {times} ms per step, {1e3 * sample['cpu_seconds']:,.0f} ms of CPU; "
        f"other processes used {100 * sample['others_share']:.0f} % of the machine"
    )


if __name__ == "__main__":
    define_flags()
    programs.run(main)
