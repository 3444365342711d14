r"""The paper's training step, compiled for TPUs by their own compiler, on a machine without one: docs/tpu.md.

    python -m benchmarks.tpu --workdir=DIR --docs_dir=docs

Needs requirements-tpu.txt (`make bench-tpu`), and no TPU. A cell is one mixer, size, number of rows and chip:
the whole step of `convnlp.training.loop` (objective, gradient, clipping, optimizer) is lowered by TensorFlow
and given to libtpu, which compiles it or refuses it. What it says of operations, bytes, memory and cycles
stands beside `cost()` and a roofline with published rates.

Each cell has a process of its own and is kept in --workdir: the same command continues where it was stopped.
After a change of the code the directory is to be another one. --docs_dir adds the cells to tpu.json there and
writes the generated part of tpu.md.
"""

import contextlib
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import pages
from benchmarks.comparison import runner
from benchmarks.compiling import cells, compiler, page
from benchmarks.compiling.chips import CHIPS
from convnlp import programs
from convnlp.layers import MIXERS
from convnlp.models import SIZES
from convnlp.training.storage import write_json

PAGE, FIGURES = "tpu.md", "tpu.json"


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory of all cells.", required=True)
    flags.DEFINE_list("mixers", list(MIXERS), f"Of {', '.join(MIXERS)}.")
    flags.DEFINE_list("sizes", ["mini", "base"], f"Of {', '.join(SIZES)}.")
    flags.DEFINE_list("chips", list(CHIPS), f"Of {', '.join(CHIPS)}.")
    flags.DEFINE_list("batch_sizes", ["8"], "Rows per chip; the paper has 8, 128 on 16 chips.")
    flags.DEFINE_integer("input_length", 512, "Tokens of a row.", lower_bound=3)
    flags.DEFINE_bool("short", False, "One small step, as in `make bench-tpu`.")
    flags.DEFINE_bool("report_only", False, "Compiles nothing, and writes what is there.")
    flags.DEFINE_string("docs_dir", "", f"Where {FIGURES} and {PAGE} are kept.")


def main(_):
    """Flags -> the missing cells, one after the other -> a line each, JSON, page."""
    args = flags.FLAGS
    runner.end_by_sigterm()  # so that the compiler's process ends too
    asked = checked(args)
    workdir = pathlib.Path(args.workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    found, failed = {}, []
    for cell in asked:
        result = cell.result(workdir)
        if result is None and not args.report_only:
            try:
                result = cells.compute(cell, workdir)
            except cells.FailedError as error:
                failed.append(str(error))
                print(error, file=sys.stderr, flush=True)
        if result is not None:
            found[cell.name] = result
            print(page.line(cell.name, result), flush=True)
            if args.docs_dir:
                keep(found, pathlib.Path(args.docs_dir))
    if failed:
        raise ValueError(f"{len(failed)} of {len(asked)} cells failed: {'; '.join(failed)}")


def checked(args):
    """The cells that the flags describe, a list; raises ValueError before anything is computed."""
    for flag, known in (("mixers", MIXERS), ("sizes", SIZES), ("chips", CHIPS)):
        for name in getattr(args, flag):
            if name not in known:
                raise ValueError(f"`--{flag}` must be of {', '.join(known)}. Received: {name!r}")
    batch_sizes = [int(text) if text.isdecimal() else 0 for text in args.batch_sizes]
    if not batch_sizes or min(batch_sizes) < 1:
        raise ValueError(
            f"`--batch_sizes` must be numbers of 1 or more. Received: {','.join(args.batch_sizes)!r}"
        )
    if args.docs_dir and not pathlib.Path(args.docs_dir, PAGE).exists():
        raise ValueError(f"`--docs_dir` must be a directory that holds {PAGE}. Received: {args.docs_dir}")
    if not args.report_only and (missing := compiler.missing()):
        raise ValueError(
            "requirements-tpu.txt must be installed, as by `make bench-tpu`. "
            f"Received: no {' and no '.join(missing)}"
        )
    if args.short:
        return [cells.Cell("v5e", "tiny", "lightweight_conv", 2, 64)]
    return [
        cells.Cell(chip, size, mixer, batch_size, args.input_length)
        for chip in args.chips
        for size in args.sizes
        for mixer in args.mixers
        for batch_size in batch_sizes
    ]


def keep(found, docs):
    """Adds cells to tpu.json, and writes the page of all that it holds.

    Args:
        found: dict, name of a cell -> its result.
        docs: pathlib.Path.
    """
    kept = {}
    with contextlib.suppress(FileNotFoundError):
        kept = json.loads((docs / FIGURES).read_text(encoding="utf-8"))
    kept |= found
    write_json(docs / FIGURES, kept)
    pages.replace_generated(docs / PAGE, page.BEGIN, page.text(kept))


if __name__ == "__main__":
    define_flags()
    programs.run(main)
