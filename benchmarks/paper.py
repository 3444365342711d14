r"""The paper's questions, asked of small models on the data at hand: docs/paper.md.

    python -m benchmarks.pretraining.mixture --data_dir=DATA/pretrain --output_dir=MIXTURE
    python -m benchmarks.paper --data_dir=DATA --mixture_dir=MIXTURE --workdir=DIR --questions=rq1,rq4

Each question of `benchmarks.questions.table` is a comparison, as `benchmarks.compare` makes them: its cells
lie in DIR/cells, a pre-training serves all tasks, and the learning rates are chosen for each mixer on
held-out data. The same command continues where it was stopped, within a training too. All questions are
asked with the first seed before any is asked with the second. What is finished is kept in docs/paper.json as
well and is never computed again; the page is written at the end, or by --report_only. --tokens are the
amounts of pre-training: RQ2 asks of each, the others of the first, and the one about long texts of its own.
Speeds are measured by --kinds=measure, on a machine that does nothing else: the mixers in turn, length by
length; what was measured while others kept the machine busy is measured again the next time.
"""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import machine
from benchmarks.comparison import cells, runner
from benchmarks.questions import byte_vocabulary, long_range, page, speeds, table
from benchmarks.questions.store import Store
from convnlp import presets, programs

PRESETS = pathlib.Path(presets.__file__).parent


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Holds classification/, pairs/, seq2seq/ and qa/.", required=True)
    flags.DEFINE_string("mixture_dir", None, "What benchmarks.pretraining.mixture wrote.", required=True)
    flags.DEFINE_string("workdir", None, "Directory of all cells.", required=True)
    flags.DEFINE_list("questions", list(table.QUESTIONS), f"Of {', '.join(table.QUESTIONS)}.")
    flags.DEFINE_list("tokens", ["10e6"], "Of pre-training, the first for all questions.")
    flags.DEFINE_list("seeds", ["1", "2", "3"], "Of fine-tuning, in turn for all questions.")
    flags.DEFINE_multi_enum("kinds", table.COMPUTED, cells.KINDS, "Of cells; may be given several times.")
    flags.DEFINE_bool("report_only", False, "Computes nothing, and writes what is there.")
    flags.DEFINE_integer("threads", 2, "Threads of TensorFlow.", lower_bound=1)
    flags.DEFINE_string("docs_dir", "docs", "Where paper.json and paper.md are kept.")


def main(_):
    """Flags -> plans -> the missing cells, seed by seed and question by question -> paper.json."""
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
    failed = []
    if "measure" in args.kinds and not args.report_only:
        failed += measure(workdir, folders)
    for _, plan in table.speed_plans(folders):
        store.take(speeds.cells_of(plan).values())
    kinds = [kind for kind in args.kinds if kind != "measure"]
    for text, plan in work(questions, tokens, seeds, folders) if kinds else ():
        for mixer in plan.mixers:
            if not args.report_only:
                print(text, end=": ")
                if not runner.compute(plan, mixer, workdir, kinds=kinds):
                    failed.append(f"{mixer}, {text}")
            store.take(plan.cells(mixer))
            if not args.report_only:
                keep(store, args.threads)
    keep(store, args.threads)
    docs = pathlib.Path(args.docs_dir, "paper.md")
    if docs.exists():
        page.write(docs, store, tokens, seeds, folders)
    if failed:
        raise ValueError(f"{len(failed)} rows failed: {'; '.join(failed)}")


def measure(workdir, folders):
    """RQ3: measures length by length, all mixers in turn; returns the names of those that failed."""
    failed = []
    for length, plan in table.speed_plans(folders):
        print(f"rq3, {length} tokens", flush=True)
        if not speeds.compute(plan, workdir, f"speeds-{length}"):
            failed.append(f"rq3, {length} tokens")
    return failed


def work(questions, tokens, seeds, folders):
    """Yields (what it is about, `Plan`), in the order in which it is done."""
    for count in range(1, 1 + len(seeds)):
        for name in questions:
            for amount, task, plan in table.plans(table.QUESTIONS[name], tokens, seeds[:count], folders):
                yield f"{name}, {amount:,.0f} tokens, {task}, seed {seeds[count - 1]}", plan


def checked(args):
    """(tokens, seeds, questions) of the flags, each a tuple.

    Raises:
        ValueError: naming the flag.
    """
    for name in args.questions:
        if name not in table.QUESTIONS:
            raise ValueError(f"`--questions` must be of {', '.join(table.QUESTIONS)}. Received: {name!r}")
    numbers = {}
    for flag, texts, kind in (("tokens", args.tokens, float), ("seeds", args.seeds, int)):
        try:
            numbers[flag] = tuple(kind(text) for text in texts)
        except ValueError:
            numbers[flag] = ()
        if not numbers[flag] or min(numbers[flag]) < 1:
            raise ValueError(f"`--{flag}` must be numbers of 1 or more. Received: {','.join(texts)!r}")
        if len(set(numbers[flag])) < len(numbers[flag]):
            raise ValueError(f"`--{flag}` must differ. Received: {','.join(texts)!r}")
    return numbers["tokens"], numbers["seeds"], tuple(args.questions)


def keep(store, threads):
    """Writes paper.json, with what it was computed on."""
    description = machine.describe(threads)
    del description["command"]  # its directories are of this machine
    store.write(description)


if __name__ == "__main__":
    define_flags()
    programs.run(main)
