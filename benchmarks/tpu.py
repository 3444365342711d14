r"""Compiles the paper's training step for TPUs with their own compiler, without a TPU: docs/tpu.md.

    python -m benchmarks.tpu --workdir=DIR --docs_dir=docs

This needs requirements-tpu.txt (`make bench-tpu`). A cell is one mixer, size, number of rows, optimizer and
chip. TensorFlow lowers the whole step of `convnlp.training.loop` (objective, gradient, clipping,
optimizer), and libtpu compiles it or rejects it. The operations, bytes, memory and cycles that libtpu
reports are compared with `cost()` and with a roofline of published rates.

Each cell has a process of its own and is kept in --workdir: the same command continues where it was
stopped. Use another directory after a change of the code. --docs_dir adds the cells to tpu.json there and
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
from benchmarks.shared_flags import check_among, define_output, numbers
from convnlp import programs
from convnlp.layers import MIXERS
from convnlp.models import SIZES
from convnlp.training.optimizers import OPTIMIZERS
from convnlp.training.storage import write_json

PAGE, FIGURES = "tpu.md", "tpu.json"


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory for all cells.", required=True)
    flags.DEFINE_list("mixers", list(MIXERS), f"Mixers, of {', '.join(MIXERS)}.")
    flags.DEFINE_list("sizes", ["mini", "base"], f"Sizes, of {', '.join(SIZES)}.")
    flags.DEFINE_list("chips", list(CHIPS), f"Chips, of {', '.join(CHIPS)}.")
    flags.DEFINE_list("batch_sizes", ["8"], "Rows per chip; the paper has 8 (128 on 16 chips).")
    flags.DEFINE_list("optimizers", [OPTIMIZERS[0]], f"Optimizers, of {', '.join(OPTIMIZERS)}.")
    flags.DEFINE_integer("input_length", 512, "Tokens per row.", lower_bound=3)
    flags.DEFINE_bool("short", False, "Compile only a small step with each optimizer, as `make bench-tpu`.")
    flags.DEFINE_bool("report_only", False, "Compile nothing; only write existing results.")
    define_output("docs_dir", f"Directory of {FIGURES} and {PAGE}.")


def main(_):
    """Flags -> missing cells, one after the other -> one line per cell, JSON, page."""
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
    """Returns the list of cells that the flags describe; raises ValueError before anything is computed."""
    for flag, known in (
        ("mixers", MIXERS),
        ("sizes", SIZES),
        ("chips", CHIPS),
        ("optimizers", OPTIMIZERS),
    ):
        check_among(flag, getattr(args, flag), known)
    batch_sizes = numbers("batch_sizes", args.batch_sizes, least=1)
    if args.docs_dir:
        pages.require_marks("docs_dir", pathlib.Path(args.docs_dir, PAGE), page.BEGIN)
    if not args.report_only and (missing := compiler.missing()):
        raise ValueError(
            "requirements-tpu.txt must be installed, as by `make bench-tpu`. "
            f"Received: no {' and no '.join(missing)}"
        )
    if args.short:
        return [cells.Cell("v5e", "tiny", "lightweight_conv", 2, 64, optimizer) for optimizer in OPTIMIZERS]
    return [
        cells.Cell(chip, size, mixer, batch_size, args.input_length, optimizer)
        for chip in args.chips
        for size in args.sizes
        for mixer in args.mixers
        for batch_size in batch_sizes
        for optimizer in args.optimizers
    ]


def keep(found, docs):
    """Adds cells to tpu.json, and writes the page with all cells in it.

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
