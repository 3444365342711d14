r"""Which mixer for this data? Compares mixers in the same skeleton with the same data, seeds and budget.

    python -m benchmarks.compare --workdir=DIR --data_dir=DATA --tasks=trec6,sst2 \
        --mixers=dynamic_conv,fourier --budget=steps --amount=600 \
        --pretrain_source='jsonl:DATA/pretrain/*.{split}.jsonl.gz' \
        --pretrain_budget=tokens --pretrain_amount=10e6 --seeds=0,1,2

`--mixers=lightweight_conv,lightweight_conv:num_heads=2,synthesizer:modes=dense+random` gives variants of a
mixer rows of their own; `dynamic_conv:model.kernel_size=3+5+7+9` and `dynamic_conv:task.pooling=pair` set
fields of the config, and `dynamic_conv:pretraining.objective=span_corruption` sets the objective of
pre-training. For your own data, give --source (and --validation_split, --test_source, ...) instead of
--tasks. For each seed, every mixer is fine-tuned from random weights and, with --pretrain_source, from its
own pre-training, which all tasks share. Each mixer gets the learning rate that is best on held-out data: of
--pretrain_learning_rates by short pre-trainings, of --learning_rates, for each start, by the validation
score of a fine-tuning. The program prints the table, and writes comparison.json and the page
comparison.html (with --tasks, comparison-TASK.*) into DIR after each mixer. For several tasks it also
writes comparison-tasks.*, with mean ranks, the critical-difference plot and paired tests over the test
examples.

A comparison consists of cells: the measurement of a mixer, the runs that choose its rates, its
pre-training, and a fine-tuning for each start and seed. Each cell has a directory in DIR/cells, named by
its kind and a hash of all its settings. The same command continues where it was stopped, and computes no
finished cell again; a changed setting makes only those cells new that depend on it. Several commands may
share a DIR at the same time. --kinds=measure computes only the measurements, to be run while the machine
does nothing else. Changes in our code or in the data files are not noticed: use another DIR.
"""

import dataclasses
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import machine, pages
from benchmarks.comparison import cells, files, page, plan, results, runner, summary, summary_page, tasks
from benchmarks.comparison.variants import Variant
from benchmarks.shared_flags import check_among, define_output, read_seeds
from convnlp import programs
from convnlp.layers import MIXERS
from convnlp.training.storage import write_json


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory for all results.", required=True)
    flags.DEFINE_list(
        "mixers",
        [],
        "Mixers or layouts; a+b names one per layer, a:OPTION=VALUE sets options. Default: all mixers.",
    )
    flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds of the fine-tunings of each mixer and start.")
    flags.DEFINE_enum("budget", "steps", plan.BUDGETS, "What is the same for every mixer.")
    flags.DEFINE_float("amount", 600, "Amount of the budget for each fine-tuning.")
    flags.DEFINE_string("pretrain_source", "", "Raw text to pre-train on. Default: no pre-training.")
    flags.DEFINE_enum("pretrain_budget", None, plan.BUDGETS, "Budget of pre-training. Default: --budget.")
    flags.DEFINE_float("pretrain_amount", 2000, "Amount of the budget for each pre-training.")
    flags.DEFINE_float("pretrain_trial_amount", None, "Amount per trial. Default: --pretrain_amount / 5.")
    flags.DEFINE_integer("pretrain_length", 128, "Tokens per row in pre-training.", lower_bound=2)
    flags.DEFINE_enum("size", "mini", plan.SIZES, "Size of the skeleton.")
    flags.DEFINE_integer("batch_size", 32, "Texts per step.", lower_bound=1)
    flags.DEFINE_list("learning_rates", ["3e-4", "1e-3"], "Peak learning rates of fine-tuning to try.")
    flags.DEFINE_list("pretrain_learning_rates", ["5e-4", "1e-3", "2e-3"], "Those of pre-training.")
    flags.DEFINE_string("tokenizer", "", "SentencePiece model. Default: trained on the text.")
    flags.DEFINE_integer("vocabulary_size", 8000, "Vocabulary size of the trained tokenizer.")
    flags.DEFINE_integer("threads", 2, "Threads of TensorFlow.", lower_bound=1)
    # The data: named tasks,
    flags.DEFINE_list("tasks", [], f"Tasks, of {', '.join(tasks.TASKS)}; NAME:COUNT uses that many labels.")
    flags.DEFINE_string("data_dir", "", "Directory of the data of --tasks.")
    # or a source.
    flags.DEFINE_string("source", "", "Labelled texts such as jsonl:train.jsonl, instead of --tasks.")
    flags.DEFINE_string("split", "train[10%:]", "Split of --source to train on.")
    flags.DEFINE_string("validation_split", "train[:10%]", "Split of --source that chooses the best step.")
    flags.DEFINE_string("test_source", "", "Source of the test texts. Default: --source.")
    flags.DEFINE_string("test_split", "test", "Split of --test_source.")
    flags.DEFINE_list("label_names", [], "Names of the classes in order, if the source does not give them.")
    flags.DEFINE_string("text_field", "text", "Field of the text.")
    flags.DEFINE_string("second_text_field", "", "Field of the second text of a pair.")
    flags.DEFINE_string("label_field", "label", "Field of the class.")
    flags.DEFINE_integer(
        "length", None, "Truncate texts to this many tokens. Default: the task's, or 64.", lower_bound=1
    )
    about = f"Kinds of cells to compute, of {', '.join(cells.KINDS)}."
    flags.DEFINE_list("kinds", list(cells.KINDS), about, allow_overwrite=False)  # older commands repeat it
    define_output("docs_page", "Page with the marks of --tasks, to write table and plots into.")


def data_of(args):
    """Returns the data sets: dict, name -> `Data`. The name is "" for --source."""
    if bool(args.tasks) == bool(args.source):
        raise ValueError(
            "either --tasks or --source must be given. "
            f"Received: --tasks={','.join(args.tasks)!r}, --source={args.source!r}"
        )
    if args.tasks:
        found = {name: tasks.named_task(name) for name in args.tasks}
        return {
            name: dataclasses.replace(data, length=args.length or data.length) for name, data in found.items()
        }
    data = tasks.Data(
        source=args.source,
        split=args.split,
        validation_split=args.validation_split,
        test_source=args.test_source or args.source,
        test_split=args.test_split,
        label_names=tuple(args.label_names),
        length=args.length or 64,
        text_field=args.text_field,
        label_field=args.label_field,
        second_text_field=args.second_text_field,
    )
    return {"": data}


def plans_of(args, tokenizer):
    """Returns the `Plan`s that the flags describe: dict, name of the task -> plan.

    Raises:
        ValueError: if a flag is wrong; the message names it.
    """
    mixers = tuple(str(Variant.parse(text)) for text in args.mixers or MIXERS)
    twice = [name for name in mixers if mixers.count(name) > 1]
    if twice:
        raise ValueError(f"--mixers must name each row once. Received: {twice[0]!r} {len(twice)} times")
    found = data_of(args)
    pretraining = None
    if args.pretrain_source:
        pretraining = plan.Pretraining(
            source=args.pretrain_source,
            budget=args.pretrain_budget or args.budget,
            amount=args.pretrain_amount,
            learning_rates=_rates("pretrain_learning_rates", args.pretrain_learning_rates),
            trial_amount=args.pretrain_trial_amount or args.pretrain_amount / 5,
            batch_size=args.batch_size,
            length=args.pretrain_length,
        )
    return {
        name: plan.Plan(
            mixers=mixers,
            seeds=read_seeds(args.seeds),
            data=data,
            tokenizer=tokenizer,
            size=args.size,
            batch_size=args.batch_size,
            budget=args.budget,
            amount=args.amount,
            learning_rates=_rates("learning_rates", args.learning_rates),
            max_length=max(each.length for each in found.values()),
            pretraining=pretraining,
            folders={"data_dir": args.data_dir},
        )
        for name, data in found.items()
    }


def _rates(flag, texts):
    try:
        return tuple(float(text) for text in texts)
    except ValueError:
        raise ValueError(f"`--{flag}` must be numbers. Received: {','.join(texts)!r}") from None


def checked_plans(args):
    """Returns the `Plan`s as `plans_of` does, once it has found all that they need.

    Raises:
        ValueError: if a flag is wrong, or the page has no marks.
        SourceError: if data are missing of which something is still to be computed.
    """
    check_among("kinds", args.kinds or [""], cells.KINDS)
    plans = plans_of(args, tokenizer_of(args))
    for task, comparison in plans.items():
        if args.docs_page:
            page.require_marks(pathlib.Path(args.docs_page), task)
        files.check(comparison, args.kinds, args.workdir)
    return plans


def tokenizer_of(args):
    """Returns the path of the tokenizer; if no flag names one, it is that of the trained one.

    Raises:
        ValueError: if the flag names a file that does not exist.
    """
    if args.tokenizer:
        if not os.path.isfile(args.tokenizer):
            raise ValueError(f"`--tokenizer` must be an existing file. Received: {args.tokenizer!r}")
        return args.tokenizer
    source, _ = _text_of(args)
    settings = {"mixer": "sentencepiece", "source": source, "vocabulary_size": args.vocabulary_size}
    return str(cells.Cell("tokenizer", settings).directory(args.workdir) / "spm.model")


def train_tokenizer(args):
    """Trains the tokenizer of `tokenizer_of`, unless it exists."""
    path = pathlib.Path(tokenizer_of(args))
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    source, field = _text_of(args)
    options = [f"--source={source}", f"--fields={field}", f"--vocabulary_size={args.vocabulary_size}"]
    command = [sys.executable, "-m", "convnlp.train_tokenizer", *options, f"--output={path}"]
    subprocess.run(command, check=True)


def _text_of(args):
    """Returns the source that a tokenizer is trained on, and its field."""
    if args.pretrain_source:
        return args.pretrain_source, "text"
    data = next(iter(data_of(args).values()))
    return data.source.replace("{data_dir}", args.data_dir), data.text_field


def report(comparison, task, workdir, description, failed, args):
    """Writes comparison.json, comparison.html and --docs_page from the finished cells of a task."""
    result = {
        "machine": description,
        "plan": comparison.as_dict(),
        "rows": results.collect(comparison, workdir),
        "failed": failed,
    }
    write_json(workdir / f"comparison{_suffix(task)}.json", result)
    title = f"Token mixers on {task or args.source}"
    page.write_html(workdir / f"comparison{_suffix(task)}.html", title, result)
    if args.docs_page and result["rows"]:
        page.write_docs(pathlib.Path(args.docs_page), task, result)
    return result["rows"]


def report_tasks(plans, workdir):
    """Writes comparison-tasks.json and .html, for all tasks together."""
    (start,) = {comparison.starts[-1] for comparison in plans.values()}
    found = summary.collect(plans, lambda cell: cell.result(workdir), start)
    ranking = found["ranking"]
    as_json = {**found, "start": start, "ranking": ranking and dataclasses.asdict(ranking)}
    write_json(workdir / "comparison-tasks.json", as_json)
    title = f"Token mixers on {len(plans)} tasks, {page.STARTS[start]}"
    page.write_tasks(workdir / "comparison-tasks.html", title, found)
    print(pages.table(*summary_page.table_cells(found)))
    print(f"{workdir}/comparison-tasks.html")


def _suffix(task):
    """Returns the suffix of a task's files in the working directory, which several tasks share."""
    return f"-{cells.file_name(task)}" if task else ""


def main(_):
    """Flags -> plans -> missing cells, task by task and mixer by mixer -> tables, JSON, pages."""
    args = flags.FLAGS
    runner.end_by_sigterm()
    workdir = pathlib.Path(args.workdir)
    plans = checked_plans(args)  # before anything is computed
    machine.use_threads(args.threads)
    description = machine.describe(args.threads)
    workdir.mkdir(parents=True, exist_ok=True)
    train_tokenizer(args)
    every_failed = []
    for task, comparison in plans.items():
        failed, rows = [], []
        for mixer in comparison.mixers:
            if not runner.compute(comparison, mixer, workdir, f"plan{_suffix(task)}", args.kinds):
                failed.append(mixer)
            rows = report(comparison, task, workdir, description, failed, args)
        if rows:
            print(pages.table(*page.table_cells(rows)))
        print(f"{workdir}/comparison{_suffix(task)}.html")
        every_failed += [f"{mixer} on {task}" if task else mixer for mixer in failed]
    if len(plans) > 1:
        report_tasks(plans, workdir)
    if every_failed:
        raise ValueError(f"{len(every_failed)} rows failed: {', '.join(every_failed)}")


if __name__ == "__main__":
    define_flags()
    programs.run(main)
