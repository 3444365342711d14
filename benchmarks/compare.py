r"""Which mixer for this data? The same skeleton, data, seeds and budget for each, and what each costs.

    python -m benchmarks.compare --workdir=DIR --data_dir=DATA --task=trec6 --mixers=dynamic_conv,fourier \
        --budget=steps --amount=600 --pretrain_source='jsonl:DATA/pretrain/*.{split}.jsonl.gz' \
        --pretrain_amount=2000 --seeds=3

`--mixers=lightweight_conv,lightweight_conv:num_heads=2,synthesizer:modes=dense+random` gives variants of a
mixer rows of their own. On your own data give --source (and --validation_split, --test_source, ...) instead
of --task. Every mixer is fine-tuned from random weights and, with --pretrain_source, from its own
pre-training, for each seed. Prints the table, and writes comparison.json and the page comparison.html (with
--task, comparison-TASK.*) into DIR after each mixer.

A comparison consists of cells: the measurement of a mixer, its pre-training, and a fine-tuning for each
start and seed. Each has a directory in DIR/cells, named by what it is and a hash of all its settings. The
same command continues where it was stopped, and computes no finished cell again; with another setting only
the cells that depend on it are new. Several commands may share a DIR at the same time. --kinds=measure
computes the measurements alone, for a while in which the machine has nothing else to do. What changes in our
code or in the data files is not seen: take another DIR.
"""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import machine, pages
from benchmarks.comparison import page, plan, results
from benchmarks.comparison.variants import Variant
from convnlp import programs
from convnlp.layers import MIXERS
from convnlp.training.storage import write_json


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory for everything that is computed.", required=True)
    flags.DEFINE_list(
        "mixers",
        [],
        "Mixers or layouts; a+b names one for each layer, a:OPTION=VALUE sets options. Default: all mixers.",
    )
    flags.DEFINE_integer("seeds", 3, "Fine-tunings of each mixer and start: seeds 0, 1, ...", lower_bound=1)
    flags.DEFINE_enum("budget", "steps", plan.BUDGETS, "What every mixer gets the same amount of.")
    flags.DEFINE_float("amount", 600, "Of the budget, for each fine-tuning.")
    flags.DEFINE_float("pretrain_amount", 2000, "Of the budget, for each pre-training.")
    flags.DEFINE_string("pretrain_source", "", "Raw text to pre-train on; none without it.")
    flags.DEFINE_enum("size", "mini", plan.SIZES, "Of the skeleton.")
    flags.DEFINE_integer("batch_size", 32, "Texts per step.", lower_bound=1)
    flags.DEFINE_float("learning_rate", 5e-4, "Highest one of fine-tuning.")
    flags.DEFINE_float("pretrain_learning_rate", 1.5e-3, "Highest one of pre-training.")
    flags.DEFINE_string("tokenizer", "", "SentencePiece model. Default: trained on the pre-training text.")
    flags.DEFINE_integer("vocabulary_size", 8000, "Of the tokenizer that is trained.")
    flags.DEFINE_integer("threads", 2, "Threads of TensorFlow.", lower_bound=1)
    # What is classified: a task by name,
    flags.DEFINE_string("task", "", f"One of {', '.join(plan.TASKS)}, in --data_dir/classification.")
    flags.DEFINE_string("data_dir", "", "Directory of the named tasks.")
    # or a source.
    flags.DEFINE_string("source", "", "Training texts with labels, as jsonl:train.jsonl, instead of --task.")
    flags.DEFINE_string("split", "train[10%:]", "Of --source, to train on.")
    flags.DEFINE_string("validation_split", "train[:10%]", "Of --source, to choose the best step by.")
    flags.DEFINE_string("test_source", "", "Which the scores are of. Default: --source.")
    flags.DEFINE_string("test_split", "test", "Of --test_source.")
    flags.DEFINE_list("label_names", [], "The classes in order, for a source that does not name them.")
    flags.DEFINE_string("text_field", "text", "Field of the text.")
    flags.DEFINE_string("label_field", "label", "Field of the class.")
    flags.DEFINE_integer(
        "length", None, "Tokens of a text; longer ones are cut. Default: the task's, or 64.", lower_bound=1
    )
    flags.DEFINE_multi_enum(
        "kinds", list(plan.KINDS), plan.KINDS, "Of cells to compute; may be given several times."
    )
    flags.DEFINE_string("docs_page", "", "Page with the mark of --task, to put table and plots into.")


def data_of(args):
    """The `Data` that the flags describe."""
    if bool(args.task) == bool(args.source):
        raise ValueError(
            "either --task or --source must be given. "
            f"Received: --task={args.task!r}, --source={args.source!r}"
        )
    if args.task:
        task = plan.named_task(args.task, args.data_dir)
        return dataclasses.replace(task, length=args.length or task.length)
    return plan.Data(
        source=args.source,
        split=args.split,
        validation_split=args.validation_split,
        test_source=args.test_source or args.source,
        test_split=args.test_split,
        label_names=tuple(args.label_names),
        length=args.length or 64,
        text_field=args.text_field,
        label_field=args.label_field,
    )


def plan_of(args, tokenizer):
    """The `Plan` that the flags describe.

    Raises:
        ValueError: naming the flag.
    """
    mixers = tuple(str(Variant.parse(text)) for text in args.mixers or MIXERS)
    twice = [name for name in mixers if mixers.count(name) > 1]
    if twice:
        raise ValueError(f"--mixers must name each row once. Received: {twice[0]!r} {len(twice)} times")
    return plan.Plan(
        mixers=mixers,
        seeds=tuple(range(args.seeds)),
        data=data_of(args),
        tokenizer=tokenizer,
        size=args.size,
        batch_size=args.batch_size,
        budget=args.budget,
        amount=args.amount,
        pretrain_source=args.pretrain_source,
        pretrain_amount=args.pretrain_amount if args.pretrain_source else 0,
        learning_rate=args.learning_rate,
        pretrain_learning_rate=args.pretrain_learning_rate,
    )


def tokenizer_of(args):
    """Path of the tokenizer of the flags, which is trained unless it is there."""
    if args.tokenizer:
        return args.tokenizer
    source, field = args.pretrain_source, "text"
    if not source:
        source, field = data_of(args).source, data_of(args).text_field
    settings = {"mixer": "sentencepiece", "source": source, "vocabulary_size": args.vocabulary_size}
    directory = plan.Cell("tokenizer", settings).directory(args.workdir)
    path = directory / "spm.model"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        options = [f"--source={source}", f"--fields={field}", f"--vocabulary_size={args.vocabulary_size}"]
        command = [sys.executable, "-m", "convnlp.train_tokenizer", *options, f"--output={path}"]
        subprocess.run(command, check=True)
    return str(path)


def compute(comparison, mixer, workdir, args):
    """Computes the missing cells of a row in a process of its own, which logs to DIR/log-ROW.txt.

    Returns:
        bool, whether all of them are finished.
    """
    plan_path = workdir / f"plan{_suffix(args)}.json"
    comparison.write(plan_path)
    command = [sys.executable, "-m", "benchmarks.comparison.worker", plan_path, workdir, mixer]
    with open(workdir / f"log-{plan.file_name(mixer)}.txt", "ab") as log:
        child = subprocess.Popen(
            [*command, ",".join(args.kinds), *programs.modules()], stdout=log, stderr=log
        )
    try:
        return child.wait() == 0
    finally:
        if child.poll() is None:  # this process was stopped
            child.terminate()
            child.wait()


def report(comparison, workdir, description, failed, args):
    """Writes comparison.json, comparison.html and the page of the docs from the finished cells."""
    result = {
        "machine": description,
        "plan": comparison.as_dict(),
        "rows": results.collect(comparison, workdir),
        "failed": failed,
    }
    write_json(workdir / f"comparison{_suffix(args)}.json", result)
    title = f"Token mixers on {args.task or args.source}"
    page.write_html(workdir / f"comparison{_suffix(args)}.html", title, result)
    if args.docs_page and result["rows"]:
        page.write_docs(pathlib.Path(args.docs_page), args.task, result)
    return result["rows"]


def _suffix(args):
    """Of the files in the working directory, which several tasks may share."""
    return f"-{args.task}" if args.task else ""


def main(_):
    """Flags -> plan -> the missing cells, mixer by mixer -> table, JSON, page."""
    args = flags.FLAGS
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))  # takes the child along
    plan_of(args, tokenizer="")  # what is wrong with the flags is said before anything is computed
    machine.use_threads(args.threads)
    description = machine.describe(args.threads)
    workdir = pathlib.Path(args.workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    comparison = plan_of(args, tokenizer_of(args))
    failed, rows = [], []
    for mixer in comparison.mixers:
        cells = [cell for cell in comparison.cells(mixer) if cell.kind in args.kinds]
        missing = sum(cell.result(workdir) is None for cell in cells)
        print(f"{mixer}: {len(cells) - missing} of {len(cells)} cells are there", flush=True)
        if missing and not compute(comparison, mixer, workdir, args):
            failed.append(mixer)
            print(
                f"{mixer} failed, see {workdir}/log-{plan.file_name(mixer)}.txt", file=sys.stderr, flush=True
            )
        rows = report(comparison, workdir, description, failed, args)
    if rows:
        print(pages.table(*page.table_cells(rows)))
    print(f"{workdir}/comparison{_suffix(args)}.html")
    if failed:
        raise ValueError(f"{len(failed)} of {len(comparison.mixers)} mixers failed: {', '.join(failed)}")


if __name__ == "__main__":
    define_flags()
    programs.run(main)
