r"""What it gains to fit the head to the encoder first, by the number of classes; prints a table.

    python -m benchmarks.finetuning.first_head --workdir=DIR

The first classes in alphabetical order are taken from the 77 of the package's example data (`convnlp
example-data`). `convnlp finetune` learns from three quarters of their training texts, with its defaults but
for the number of epochs in some rows, from a head of random weights and from one that is fitted first. Both
are scored on the other texts; the test set is not read. Runs that are done are not repeated.
"""

import csv
import gzip
import importlib.resources
import io
import json
import pathlib

import numpy as np
from absl import flags

from benchmarks import pages
from benchmarks.run_once import run_once
from benchmarks.scoring import paired
from benchmarks.scoring.ours import classes
from convnlp import programs
from convnlp.training import storage

# Number of classes, number of epochs; None for as many as `finetune` chooses by the number of texts.
TRIALS = ((77, 1), (77, 3), (77, None), (20, None), (10, None))


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory for all runs.", required=True)
    flags.DEFINE_list("trials", [], "Numbers of the rows to run, from 0. Default: all.")
    flags.DEFINE_integer("seed", 0, "Seed of the runs.", lower_bound=0)


def main(argv):
    """Flags -> runs -> table."""
    del argv
    args, rows = flags.FLAGS, []
    workdir = pathlib.Path(args.workdir)
    for number in args.trials:
        if not number.isdigit() or int(number) >= len(TRIALS):
            raise ValueError(f"`--trials` must be numbers below {len(TRIALS)}. Received: {number!r}")
    for number in map(int, args.trials or range(len(TRIALS))):
        num_classes, epochs = TRIALS[number]
        train, held_out, labels = divided(workdir, num_classes)
        right = []
        for is_first in (False, True):
            fields = {
                "config.seed": args.seed,
                "config.data.source": f"csv:{train}",
                "config.task.options.fit_head_first": is_first,
            }
            if epochs is not None:
                fields["config.task.num_epochs"] = epochs
            start = "fitted" if is_first else "random"
            folder = workdir / f"{num_classes}_{epochs or 'default'}_{start}_{args.seed}"
            run_once("convnlp.finetune", folder, fields, folder / "results.json")
            right.append(right_of(folder, f"csv:{held_out}", labels))
        rows.append(row(num_classes, epochs, right))
        print(rows[-1], flush=True)
    names = ("classes", "epochs", "held-out texts", "random weights", "fitted first", "gain")
    print(pages.table(names, rows))


def divided(workdir, num_classes):
    """Writes the texts of the first classes to two files, if missing.

    Args:
        workdir: pathlib.Path.
        num_classes: int.

    Returns:
        (path of the texts to learn from, path of a quarter that is held out, the labels of these: list of
        str).
    """
    packed = (importlib.resources.files("convnlp.example") / "train.csv.gz").read_bytes()
    found = list(csv.DictReader(io.StringIO(gzip.decompress(packed).decode(), newline="")))
    names = sorted({each["category"] for each in found})[:num_classes]
    chosen = np.random.default_rng(0).random(len(found)) < 0.25
    parts = {"train": [], "held_out": []}
    for each, is_held_out in zip(found, chosen, strict=True):
        if each["category"] in names:
            example = {"text": each["text"], "label": each["category"]}
            parts["held_out" if is_held_out else "train"].append(example)
    paths = []
    workdir.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        paths.append(workdir / f"{num_classes}.{name}.csv")
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, ["text", "label"])
        writer.writeheader()
        writer.writerows(part)
        storage.write(str(paths[-1]), text.getvalue().encode())
    return *paths, [each["label"] for each in parts["held_out"]]


def right_of(run, source, labels):
    """Returns whether a run classifies each held-out text correctly, bool [n]; the answers are kept."""
    kept = run / "held_out.json"
    if not kept.exists():
        storage.write_json(str(kept), classes(run / "preset", source))
    names = json.loads((run / "preset" / "task.json").read_text(encoding="utf-8"))["config"]["labels"]
    return np.array([names[number] for number in json.loads(kept.read_text())]) == np.array(labels)


def row(num_classes, epochs, right):
    """Returns a row of the table, for `right`: two bool arrays [n]."""
    gain, error = paired.gain(*right)
    accuracies = [f"{100 * each.mean():.1f}" for each in right]
    return [num_classes, epochs or "default", len(right[0]), *accuracies, f"{gain:+.1f} ± {error:.1f}"]


if __name__ == "__main__":
    define_flags()
    programs.run(main)
