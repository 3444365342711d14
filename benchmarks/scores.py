r"""The scores of the shipped preset on complete test sets, beside linear models of words: docs/scores.md.

    python -m benchmarks.scores --data_dir=DATA --workdir=DIR

DATA holds classification/NAME.{train,valid,test}.jsonl.gz with "text" and "label". Fine-tuning is the default
recipe of `convnlp finetune`, with nothing set but the seed; the
peers choose their penalty by cross-validation. A cell that is done, a model on a set with a seed, is not done
again, also where docs/scores.json alone has it. The page is written after each cell.
"""

import json
import pathlib

import numpy as np
from absl import flags

from benchmarks import pages
from benchmarks.run_once import run_once
from benchmarks.scoring import page, peers
from benchmarks.scoring.sets import SETS
from convnlp import programs, tasks
from convnlp.data import Source
from convnlp.tasks import Fields
from convnlp.tasks.rows import outputs_of

PROGRAMS = {"fit_head": "convnlp.fit_head", "finetune": "convnlp.finetune"}
PRESET = "dynamic_conv_mini_en"


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Holds classification/*.jsonl.gz.", required=True)
    flags.DEFINE_string("workdir", None, "Directory of all runs.", required=True)
    flags.DEFINE_list("sets", list(SETS), "The sets, in the order in which they are run.")
    flags.DEFINE_list("models", [*peers.PEERS, *PROGRAMS], "What is scored.")
    flags.DEFINE_list("seeds", ["0", "1", "2", "3", "4"], "Seeds of fine-tuning; the others have none.")
    flags.DEFINE_string("docs_dir", "docs", "Where scores.json and scores.md are kept.")


def main(argv):
    """Flags -> cells -> page."""
    del argv
    args = flags.FLAGS
    workdir, docs = pathlib.Path(args.workdir), pathlib.Path(args.docs_dir)
    check(args.sets, args.models, args.data_dir)
    figures = docs / "scores.json"
    found = (
        json.loads(figures.read_text()) if figures.exists() else {"preset": PRESET, "cells": {}, "labels": {}}
    )
    for name in args.sets:
        for model in args.models:
            for seed in args.seeds if model == "finetune" else args.seeds[:1]:
                done = found["cells"].setdefault(name, {}).setdefault(model, {})
                if seed in done:
                    continue
                done[seed] = cell(model, SETS[name], seed, args.data_dir, workdir / f"{name}_{model}_{seed}")
                found["labels"][name] = SETS[name].read(args.data_dir, "test")[1]
                write(found, figures, docs / "scores.md")


def check(sets, models, data_dir):
    """Raises ValueError before the first run for what would end it later."""
    for what, given, known in (("sets", sets, SETS), ("models", models, [*peers.PEERS, *PROGRAMS])):
        for name in given:
            if name not in known:
                raise ValueError(f"`{what}` must be of {', '.join(known)}. Received: {name!r}")
    for name in sets:
        parts = ("train", "valid", "test") if SETS[name].has_validation else ("train", "test")
        for part in parts:
            path = pathlib.Path(SETS[name].file(data_dir, part).partition(":")[2])
            if not path.exists():
                raise ValueError(f"`data_dir` must hold classification/{path.name}. Received: {data_dir}")


def cell(model, text_set, seed, data_dir, workdir):
    """What one model gives on the test texts of a set.

    Returns:
        dict: "predictions", a class for each text, and what else is known of the run.
    """
    if model in peers.PEERS:
        texts, labels = text_set.read(data_dir, "train")
        test_texts, _ = text_set.read(data_dir, "test")
        answers, penalty = peers.predictions(model, texts, labels, test_texts)
        return {"predictions": answers, "penalty": penalty}
    results = workdir / "results.json"
    run_once(PROGRAMS[model], workdir, training_fields(text_set, seed, data_dir), results)
    results = json.loads(results.read_text())
    validation = results["validation"]["accuracy"]
    answers = classes(workdir / "preset", text_set.file(data_dir, "test"))
    return {"predictions": answers, "validation": validation, "seconds": results["seconds"]}


def training_fields(text_set, seed, data_dir):
    """The flags of a run: the set, its lengths and the seed."""
    fields = {
        "config.seed": seed,
        "config.data.source": text_set.file(data_dir, "train"),
        "config.data.split": text_set.split,
        "config.task.label_names": tuple(str(label) for label in range(text_set.classes)),
    }
    if text_set.has_validation:
        fields |= {
            "config.data.validation_source": text_set.file(data_dir, "valid"),
            "config.data.validation_split": "train",
        }
    return fields


def classes(preset, source):
    """The class that a preset gives to each text of a source, list of int."""
    model = tasks.load(str(preset))
    task = tasks.task_of(model).from_model(model, Source(source), Fields())
    return np.argmax(outputs_of(model, task.read(Source(source))), axis=1).tolist()


def write(found, figures, page_path):
    """The figures as JSON, a line for each cell, and the generated part of the page."""
    figures.write_text(
        json.dumps(found, separators=(",", ":")).replace('{"predictions"', '\n{"predictions"') + "\n"
    )
    pages.replace_generated(page_path, page.BEGIN, page.generated(found["cells"], found["labels"]))


if __name__ == "__main__":
    define_flags()
    programs.run(main)
