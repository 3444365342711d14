r"""Fine-tuning runs that choose the default recipe; writes a table of the effect of each change to it.

    python -m benchmarks.finetuning.search --data_dir=DATA --preset=PRESET --workdir=DIR

Each variant is `configs/finetune_classification.py` with the one change that its name describes, on five
sets of a few thousand labelled texts, DATA/classification/NAME.train.jsonl.gz. Variants are compared by
their validation scores, never by a test set. Runs that are done are not repeated; the table is written
after each variant.
"""

import json
import pathlib

import numpy as np
from absl import flags

from benchmarks import pages
from benchmarks.labelled_set import LabelledSet, chosen_variants, validation_accuracy
from benchmarks.shared_flags import read_seeds
from convnlp import programs

VARIANTS = {
    "as the config": {},
    "learning rate 2.5e-4": {"optimizer.learning_rate": 2.5e-4},
    "learning rate 1e-3": {"optimizer.learning_rate": 1e-3},
    "layer-wise decay 0.85": {"optimizer.layer_decay": 0.85},
    "layer-wise decay 0.7": {"optimizer.layer_decay": 0.7},
    "average of the weights": {"optimizer.ema_momentum": 0.99},
    "R-Drop 1": {"task.options.r_drop": 1.0},
    "R-Drop 3": {"task.options.r_drop": 3.0},
    "without n-grams": {"task.options.ngram_buckets": 0},
    "twice the epochs": {"epochs": 2.0},
    "half the epochs": {"epochs": 0.5},
    "dropout 0.2": {"model.dropout": 0.2},
    "batches of 16": {"train.batch_size": 16},
}
SETS = {  # with more epochs for the smaller ones
    "sst2": LabelledSet(("train", "valid"), 2, 48, 5.0),
    "trec6": LabelledSet(("train[:90%]", "train[90%:]"), 6, 32, 6.0),
    "ag_news": LabelledSet(("train[:2000]", "valid"), 4, 80, 8.0),
    "sentiment140": LabelledSet(("train[:4000]", "valid"), 2, 48, 5.0),
    "jigsaw_toxicity": LabelledSet(("train[:3000]", "valid"), 2, 96, 5.0),
}


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Directory with classification/*.jsonl.gz.", required=True)
    flags.DEFINE_string("preset", None, "Preset to fine-tune.", required=True)
    flags.DEFINE_string("workdir", None, "Directory for all runs and the table.", required=True)
    flags.DEFINE_list("seeds", ["0", "1"], "Seeds of each variant on each set.")
    flags.DEFINE_list("variants", [], "Numbers of the variants to run, from 0. Default: all.")


def main(argv):
    """Flags -> runs -> table."""
    del argv
    args = flags.FLAGS
    workdir = pathlib.Path(args.workdir)
    seeds = read_seeds(args.seeds)
    for number in chosen_variants(args.variants, VARIANTS, SETS, pathlib.Path(args.data_dir)):
        name = list(VARIANTS)[number]
        scores = {"name": name}
        for task in SETS:
            scores[task] = [
                validation_accuracy(
                    workdir / f"{number:02d}" / f"{task}_{seed}",
                    finetuning_fields(VARIANTS[name], task, seed, args.preset, args.data_dir),
                )
                for seed in seeds
            ]
        (workdir / f"{number:02d}" / "scores.json").write_text(json.dumps(scores, indent=2), encoding="utf-8")
        (workdir / "table.md").write_text(table(workdir), encoding="utf-8")


def finetuning_fields(changes, task, seed, preset, data_dir):
    """Returns the flags of a run: the set, and what a variant changes. Its "epochs" is a factor."""
    changes = dict(changes)
    num_epochs = SETS[task].num_epochs * changes.pop("epochs", 1.0)
    return {
        **SETS[task]._replace(num_epochs=num_epochs).fields(task, preset, data_dir, seed),
        **{f"config.{name}": value for name, value in changes.items()},
    }


def table(workdir):
    """Returns the Markdown table of all finished variants, with mean differences from the first of them."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(workdir.glob("*/scores.json"))]
    lines = []
    for scores in found:
        means = [100 * np.mean(scores[task]) for task in SETS]
        # Paired by seed, so that the effect of a seed on both cancels.
        gains = [
            100 * (np.array(scores[task]) - found[0][task])
            for task in SETS
            if len(scores[task]) == len(found[0][task])
        ]
        cells = [f"{value:.1f}" for value in [*means, np.mean(means)]]
        lines.append([scores["name"], *cells, f"{np.mean(gains):+.1f}" if gains else ""])
    return pages.table(["variant", *SETS, "mean", "difference"], lines) + "\n"


if __name__ == "__main__":
    define_flags()
    programs.run(main)
