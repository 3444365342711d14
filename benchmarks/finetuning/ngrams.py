r"""The accuracy of hashed n-grams by themselves, for each weighting of their buckets; prints a table.

    python -m benchmarks.finetuning.ngrams --data_dir=DATA

This is the linear classifier that `convnlp.tasks.classification.ngrams` adds to an encoder, without the
encoder. It is fitted to all training texts and to the first --few of them, with buckets weighted by their
rarity alone and by the ratio of the classes too. It is scored on validation data, or on the last tenth of
the training texts if a set has none; no test set is read.
"""

import numpy as np
from absl import flags

from benchmarks import pages
from benchmarks.scoring import sets
from benchmarks.scoring.sets import SETS
from convnlp import programs
from convnlp.data import Label, Source
from convnlp.models import Tokenizer, preset_names
from convnlp.tasks.classification import ngrams, read_classification

NAMES = ("sst2", "sst5", "trec6", "ag_news", "sentiment140", "jigsaw_toxicity", "imdb")
MAX_LENGTH = 512
SHARES = {"rarity": 0.0, "rarity and classes": ngrams.RATIO_SHARE}


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Directory with classification/*.jsonl.gz.", required=True)
    flags.DEFINE_string("preset", "dynamic_conv_mini_en", "Preset whose tokenizer is used.")
    flags.DEFINE_list("sets", list(NAMES), "Data sets, in the order in which they are run.")
    flags.DEFINE_integer("few", 1000, "Number of training texts, beside all of them.", lower_bound=10)


def main(argv):
    """Flags -> table."""
    del argv
    args = flags.FLAGS
    sets.check(args.sets, args.data_dir)
    tokenizer = Tokenizer.from_preset(preset_names.locate(args.preset))
    rows = []
    for name in args.sets:
        parts = parts_of(SETS[name], args.data_dir, tokenizer)
        rows.append([SETS[name].title, *scores(*parts, SETS[name].classes, args.few)])
        print(rows[-1], flush=True)
    header = [f"{what}, {size}" for size in (f"first {args.few:,} texts", "all") for what in SHARES]
    print(pages.table(["validation accuracy", *header], rows))


def parts_of(text_set, data_dir, tokenizer):
    """Returns the training texts and the validation texts, two `Examples`.

    Args:
        text_set: `benchmarks.scoring.sets.TextSet`.
        data_dir: str.
        tokenizer: `Tokenizer`.
    """
    label = Label("label", text_set.classes)
    return tuple(
        read_classification(Source(text_set.source(data_dir, part), split), tokenizer, label, MAX_LENGTH)
        for part, split in text_set.held_out
    )


def scores(train, validation, num_classes, few):
    """Returns the accuracy of each of `SHARES` with few and with all texts, as strings in per cent."""
    cells = []
    for size in (few, len(train)):
        learned = train.take(np.arange(min(size, len(train))))
        layer = ngrams.adapted(ngrams.buckets_for(num_classes, learned), num_classes, learned)
        counts, held_out = (ngrams.features(layer, part) for part in (learned, validation))
        for share in SHARES.values():
            ((table, bias),) = ngrams.fit(counts, learned.labels, num_classes, ratio_share=share)
            hits = np.argmax(held_out @ table + bias, axis=1) == validation.labels
            cells.append(f"{100 * np.mean(hits):.1f}")
    return cells


if __name__ == "__main__":
    define_flags()
    programs.run(main)
