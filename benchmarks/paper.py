r"""Answers the paper's questions with small models on our data: docs/paper.md.

    python -m benchmarks.pretraining.mixture --data_dir=DATA/pretrain --output_dir=MIXTURE
    python -m benchmarks.paper --data_dir=DATA --mixture_dir=MIXTURE --workdir=DIR --docs_dir=docs \
        --questions=rq1,rq4

Each question of `benchmarks.questions.table` is a comparison like those of `benchmarks.compare`: its cells
are in DIR/cells, all tasks share one pre-training, and the learning rates are chosen for each mixer on
held-out data. The same command continues where it was stopped, even within a training run. All questions
are run with the first seed before any is run with the second. Finished cells are also kept in paper.json of
--docs_dir and never computed again; paper.md there is written at the end, or by --report_only. --tokens are
the amounts of pre-training: RQ2 uses all of them, the question about long texts its own, and the others the
first. --tasks and --mixers, named as in the tables, restrict what is computed as --questions does, and the
page still shows all that is known. --kinds=measure measures speeds, length by length with the mixers in
turns, on a machine that does nothing else. Measurements that other processes disturbed are repeated the next
time.
"""

import dataclasses
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import machine, pages
from benchmarks.comparison import cells, files, runner
from benchmarks.questions import byte_vocabulary, long_range, page, speeds, table
from benchmarks.questions.store import Store
from benchmarks.shared_flags import check_among, define_output, numbers, read_seeds
from convnlp import presets, programs

PRESETS = pathlib.Path(presets.__file__).parent


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Holds classification/, pairs/, seq2seq/ and qa/.", required=True)
    flags.DEFINE_string("mixture_dir", None, "What benchmarks.pretraining.mixture wrote.", required=True)
    flags.DEFINE_string("workdir", None, "Directory for all cells.", required=True)
    flags.DEFINE_list("questions", list(table.QUESTIONS), f"Questions, of {', '.join(table.QUESTIONS)}.")
    flags.DEFINE_list("tasks", [], "Tasks of the questions to compute, as in the tables. Default: all.")
    flags.DEFINE_list("mixers", [], "Mixers of the questions to compute, likewise. Default: all.")
    flags.DEFINE_list("tokens", ["10e6"], "Tokens of pre-training; the first is for all questions.")
    flags.DEFINE_list("seeds", ["1", "2", "3"], "Seeds of fine-tuning, in turn for all questions.")
    about = f"Kinds of cells, of {', '.join(cells.KINDS)}."
    flags.DEFINE_list("kinds", list(table.COMPUTED), about, allow_overwrite=False)  # older commands repeat it
    flags.DEFINE_bool("report_only", False, "Compute nothing; only write the page.")
    flags.DEFINE_integer("threads", 2, "Threads of TensorFlow.", lower_bound=1)
    define_output("docs_dir", "Directory of paper.json and paper.md.", required=True)


def main(_):
    """Flags -> plans -> missing cells, seed by seed and question by question -> paper.json, page."""
    args = flags.FLAGS
    runner.end_by_sigterm()
    tokens, seeds, questions = checked(args)
    machine.use_threads(args.threads)
    workdir = pathlib.Path(args.workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    folders = {
        "data_dir": args.data_dir,
        "mixture_dir": args.mixture_dir,
        "presets_dir": str(PRESETS),
        "workdir": str(workdir),
    }
    byte_vocabulary.write(pathlib.Path(long_range.VOCABULARY.format(**folders)))
    store = Store(workdir, pathlib.Path(args.docs_dir, "paper.json"))
    store.restore()
    asked = list(work(questions, tokens, seeds, folders, args.tasks, args.mixers))
    for _, plan in asked if not args.report_only else ():
        files.check(plan, args.kinds, workdir)
    failed = []
    if "measure" in args.kinds and not args.report_only:
        failed += measure(workdir, folders)
    for mixers in (table.MIXERS, table.OPERATORS):
        for _, plan in table.speed_plans(folders, mixers):
            store.take(speeds.cells_of(plan).values())
    kinds = [kind for kind in args.kinds if kind != "measure"]
    for text, plan in asked if kinds else ():
        for mixer in plan.mixers:
            if not args.report_only:
                print(text, end=": ")
                if not runner.compute(plan, mixer, workdir, kinds=kinds):
                    failed.append(f"{mixer}, {text}")
            store.take(plan.cells(mixer))
            if not args.report_only:
                keep(store, args.threads)
    keep(store, args.threads)
    page.write(pathlib.Path(args.docs_dir, "paper.md"), store, tokens, seeds, folders)
    if failed:
        raise ValueError(f"{len(failed)} rows failed: {'; '.join(failed)}")


def measure(workdir, folders):
    """Measures the speeds of RQ3, length by length with all rows of a table in turns; returns what failed."""
    failed = []
    for name, mixers in (("speeds", table.MIXERS), ("operators", table.OPERATORS)):
        for length, plan in table.speed_plans(folders, mixers):
            print(f"rq3, {name}, {length} tokens", flush=True)
            if not speeds.compute(plan, workdir, f"{name}-{length}"):
                failed.append(f"rq3, {name}, {length} tokens")
    return failed


def work(questions, tokens, seeds, folders, tasks=(), mixers=()):
    """Yields (description, `Plan`), in the order in which the plans are computed.

    Args:
        questions: tuple of str, keys of `table.QUESTIONS`.
        tokens: as for `table.plans`.
        seeds: likewise.
        folders: likewise.
        tasks: sequence of str, the tasks to compute; empty for all.
        mixers: sequence of str, the rows to compute; empty for all.
    """
    for count in range(1, 1 + len(seeds)):
        for name in questions:
            for amount, task, plan in table.plans(table.QUESTIONS[name], tokens, seeds[:count], folders):
                rows = tuple(mixer for mixer in plan.mixers if mixer in mixers or not mixers)
                if rows and (task in tasks or not tasks):
                    text = f"{name}, {amount:,.0f} tokens, {task}, seed {seeds[count - 1]}"
                    yield text, dataclasses.replace(plan, mixers=rows)


def checked(args):
    """Returns (tokens, seeds, questions) of the flags, each a tuple.

    Raises:
        ValueError: if a flag is wrong; the message names it.
    """
    check_among("kinds", args.kinds or [""], cells.KINDS)
    check_among("questions", args.questions, table.QUESTIONS)
    questions = [table.QUESTIONS[name] for name in args.questions]
    check_among("tasks", args.tasks, dict.fromkeys(task for each in questions for task in each.tasks))
    check_among("mixers", args.mixers, dict.fromkeys(mixer for each in questions for mixer in each.rows))
    if "measure" in args.kinds and (args.tasks or args.mixers):
        raise ValueError(
            "`--tasks` and `--mixers` must not be given with --kinds=measure, which has all mixers in turns. "
            f"Received: --tasks={','.join(args.tasks)} --mixers={','.join(args.mixers)}"
        )
    for part in page.PARTS:
        pages.require_marks("docs_dir", pathlib.Path(args.docs_dir, "paper.md"), page.begin(part))
    tokens = tuple(numbers("tokens", args.tokens, 1, float, differ=True))
    return tokens, read_seeds(args.seeds), tuple(args.questions)


def keep(store, threads):
    """Writes paper.json, with a description of this machine."""
    description = machine.describe(threads)
    del description["command"]  # its directories are those of this machine
    store.write(description)


if __name__ == "__main__":
    define_flags()
    programs.run(main)
