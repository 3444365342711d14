r"""Up to how many classes it helps to weigh n-grams by how unevenly these use them, and the table of it.

    python -m benchmarks.finetuning.many_classes

Classes are drawn from the 77 of the package's example data, `convnlp example-data`: so many of them, with all
of their training texts and with the first --few of each. A quarter of the texts is held out and scored; the
test set is not read.
"""

import csv
import gzip
import importlib.resources
import pathlib
import tempfile

import numpy as np
from absl import flags

from benchmarks import pages
from convnlp import programs
from convnlp.data import Label, Source
from convnlp.layers import HashedNgrams
from convnlp.models import Tokenizer, preset_names
from convnlp.tasks.classification import ngrams, read_classification

MAX_LENGTH = 128
DRAWS = {2: 12, 5: 8, 10: 6, 20: 4, 40: 2, 77: 1}  # of so many classes
SHARES = (0.0, ngrams.RATIO_SHARE)


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("preset", "dynamic_conv_mini_en", "Whose tokenizer is used.")
    flags.DEFINE_integer("few", 25, "The few training texts of each class.", lower_bound=2)


def main(argv):
    """Flags -> table."""
    del argv
    found, num_classes = example(Tokenizer.from_preset(preset_names.locate(flags.FLAGS.preset)))
    random = np.random.default_rng(0)
    is_held_out = random.random(len(found)) < 0.25
    rows = []
    for number, draws in DRAWS.items():
        counts = ngrams.features(HashedNgrams(ngrams.buckets_for(number), number), found)
        chosen = [random.choice(num_classes, number, replace=False) for _ in range(draws)]
        for few in (flags.FLAGS.few, None):
            hits = np.hstack([hits_of(counts, found.labels, each, is_held_out, few) for each in chosen])
            rows.append([number, few or "all", *row(hits)])
            print(rows[-1], flush=True)
    names = ("classes", "texts of each", "held-out texts", "rarity", "rarity and classes", "gain")
    print(pages.table(names, rows))


def example(tokenizer):
    """(the training `Examples` of the package, how many classes they have)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "train.csv.gz"
        path.write_bytes((importlib.resources.files("convnlp.example") / path.name).read_bytes())
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            names = sorted({each["category"] for each in csv.DictReader(file)})
        label = Label("category", names=names)
        found = read_classification(Source(f"csv:{path}"), tokenizer, label, MAX_LENGTH)
    return found, len(names)


def hits_of(counts, labels, classes, is_held_out, few):
    """Which held-out texts of some classes are told right by each of `SHARES`: bool [2,n].

    Args:
        counts: sparse [N,M], of `ngrams.features`.
        labels: int [N].
        classes: int [C], those that take part.
        is_held_out: bool [N].
        few: int, training texts of each class; None: all.
    """
    train = np.concatenate([np.flatnonzero((labels == each) & ~is_held_out)[:few] for each in classes])
    held_out = np.flatnonzero(np.isin(labels, classes) & is_held_out)
    new = np.zeros(labels.max() + 1, int)
    new[classes] = np.arange(len(classes))
    fits = (ngrams.fit(counts[train], new[labels[train]], len(classes), ratio_share=s)[0] for s in SHARES)
    return np.stack(
        [np.argmax(counts[held_out] @ table + bias, 1) == new[labels[held_out]] for table, bias in fits]
    )


def row(hits):
    """(number of texts, both accuracies in per cent, the gain with its standard error) of bool [2,n]."""
    difference = hits[1].astype(float) - hits[0]
    error = difference.std() / np.sqrt(len(difference))
    accuracies = [f"{100 * each.mean():.1f}" for each in hits]
    return len(difference), *accuracies, f"{100 * difference.mean():+.1f} ± {100 * error:.1f}"


if __name__ == "__main__":
    define_flags()
    programs.run(main)
