r"""Up to how many classes it helps to weight n-grams by how unevenly the classes use them; prints a table.

    python -m benchmarks.finetuning.many_classes
    python -m benchmarks.finetuning.many_classes --buckets=8192,16384

Subsets of 2 to 77 classes are drawn from the 77 of the package's example data (`convnlp example-data`),
with all training texts of these classes and with the first --few of each. A quarter of the texts is held
out and scored; the test set is not read. With --buckets, the table instead says what more buckets gain over
the first number of them, for all classes.
"""

import csv
import gzip
import importlib.resources
import pathlib
import tempfile

import numpy as np
from absl import flags

from benchmarks import pages, shared_flags
from convnlp import programs
from convnlp.data import Label, Source, validation
from convnlp.layers import hashed_ngrams
from convnlp.models import Tokenizer, preset_names
from convnlp.tasks.classification import ngrams, read_classification

MAX_LENGTH = 128
DRAWS = {2: 12, 5: 8, 10: 6, 20: 4, 40: 2, 77: 1}  # number of classes -> number of draws
SHARES = (0.0, ngrams.RATIO_SHARE)


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("preset", "dynamic_conv_mini_en", "Preset whose tokenizer is used.")
    flags.DEFINE_integer("few", 25, "Training texts per class, beside all of them.", lower_bound=2)
    flags.DEFINE_list("buckets", [], "Numbers of buckets to compare, instead of the weightings.")


def main(argv):
    """Flags -> table."""
    del argv
    numbers = numbers_of_buckets(flags.FLAGS.buckets)
    found, num_classes = example(Tokenizer.from_preset(preset_names.locate(flags.FLAGS.preset)))
    random = np.random.default_rng(0)
    is_held_out = random.random(len(found)) < 0.25
    if numbers:
        print(by_buckets(found, num_classes, numbers, is_held_out, flags.FLAGS.few))
        return
    rows = []
    for number, draws in DRAWS.items():
        layer = ngrams.adapted(ngrams.buckets_for(number, found), number, found)
        counts = ngrams.features(layer, found)
        chosen = [random.choice(num_classes, number, replace=False) for _ in range(draws)]
        for few in (flags.FLAGS.few, None):
            hits = np.hstack([hits_of(counts, found.labels, each, is_held_out, few) for each in chosen])
            rows.append([number, few or "all", *row(hits)])
            print(rows[-1], flush=True)
    names = ("classes", "texts of each", "held-out texts", "rarity", "rarity and classes", "gain")
    print(pages.table(names, rows))


def numbers_of_buckets(texts):
    """Returns the numbers in --buckets, none by default; raises ValueError for one that no table may have."""
    numbers = shared_flags.numbers("buckets", texts, least=1) if texts else []
    if max(numbers, default=0) > hashed_ngrams.MAX_BUCKETS:
        raise ValueError(
            f"`--buckets` must be at most {hashed_ngrams.MAX_BUCKETS}. Received: {','.join(texts)}"
        )
    return numbers


def example(tokenizer):
    """Returns (the training `Examples` of the package's example data, their number of classes)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "train.csv.gz"
        path.write_bytes((importlib.resources.files("convnlp.example") / path.name).read_bytes())
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            names = sorted({each["category"] for each in csv.DictReader(file)})
        label = Label("category", names=names)
        found = read_classification(Source(f"csv:{path}"), tokenizer, label, MAX_LENGTH)
    return found, len(names)


def hits_of(counts, labels, classes, is_held_out, few):
    """Returns which held-out texts are classified correctly with each of `SHARES`: bool [2,n].

    Args:
        counts: sparse [N,M], of `ngrams.features`.
        labels: int [N].
        classes: int [C], the classes to use.
        is_held_out: bool [N].
        few: int, training texts per class; None for all.
    """
    train = _train(labels, classes, is_held_out, few)
    held_out = np.flatnonzero(np.isin(labels, classes) & is_held_out)
    new = np.zeros(labels.max() + 1, int)
    new[classes] = np.arange(len(classes))
    fits = (ngrams.fit(counts[train], new[labels[train]], len(classes), ratio_share=s)[0] for s in SHARES)
    return np.stack(
        [np.argmax(counts[held_out] @ table + bias, 1) == new[labels[held_out]] for table, bias in fits]
    )


def _train(labels, classes, is_held_out, few):
    """Returns which texts are trained on: the first `few` of each class that are not held out, int [n]."""
    return np.concatenate([np.flatnonzero((labels == each) & ~is_held_out)[:few] for each in classes])


def by_buckets(found, num_classes, numbers, is_held_out, few):
    """Returns the table of what numbers of buckets gain over the first of them, for all classes.

    Args:
        found: `Examples` of all classes.
        num_classes: int.
        numbers: sequence of int, of buckets; what they keep is chosen by the texts that are trained on.
        is_held_out: bool [N].
        few: int, training texts per class; all of them follow.
    """
    classes, rows = np.arange(num_classes), []
    for texts in (few, None):
        learned = np.zeros(len(found), bool)
        learned[_train(found.labels, classes, is_held_out, texts)] = True
        hits = []
        for number in numbers:
            layer = ngrams.adapted(number, num_classes, validation.take(found, learned))
            counts = ngrams.features(layer, found)
            hits.append(hits_of(counts, found.labels, classes, is_held_out, texts)[0])  # by rarity
            rows.append([number, texts or "all", *row(np.stack([hits[0], hits[-1]]))])
            print(rows[-1], flush=True)
    names = ("buckets", "texts of each", "held-out texts", f"{numbers[0]} buckets", "these", "gain")
    return pages.table(names, rows)


def row(hits):
    """Returns the number of texts, both accuracies and the gain with its standard error, all in per cent.

    Args:
        hits: bool [2,n].
    """
    difference = hits[1].astype(float) - hits[0]
    error = difference.std() / np.sqrt(len(difference))
    accuracies = [f"{100 * each.mean():.1f}" for each in hits]
    return len(difference), *accuracies, f"{100 * difference.mean():+.1f} ± {100 * error:.1f}"


if __name__ == "__main__":
    define_flags()
    programs.run(main)
