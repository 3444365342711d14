r"""What folds gain over a held-out validation set, for a head on the frozen encoder; prints tables.

    python -m benchmarks.finetuning.folds --data_dir=DATA --workdir=DIR

`convnlp fit-head` combines two linear classifiers, on the encoder's vectors and on n-grams. Before it had
folds, it held out some texts (`convnlp.data.validation.choose`): these chose the penalty by accuracy and
the weights of the two classifiers, and neither classifier was fitted to them. Both ways are measured here,
with the first texts of a training file and with all of them, on texts that neither has seen. With the first
texts, these are the last ones of the training file; with all, the validation file or, if there is none, the
last tenth of the training file. No test set is read. The vectors are kept in DIR.
"""

import pathlib

import numpy as np
from absl import flags

from benchmarks import pages
from benchmarks.scoring import paired, sets
from benchmarks.scoring.sets import SETS
from benchmarks.shared_flags import numbers
from convnlp import fit_head, programs
from convnlp.data import Label, Source, overlap, validation
from convnlp.models import Seq2SeqBackbone, TextClassifier, Tokenizer, linear_head, preset_names
from convnlp.tasks import cross_fitting, rows
from convnlp.tasks.classification import heads, joint, ngrams, read_classification

NAMES = ("sst2", "sst5", "trec6", "ag_news", "sentiment140", "jigsaw_toxicity", "imdb")
UNSEEN = 3_000  # texts to score with if few training texts are used
PENALTIES_BEFORE = (1.0, 0.1, 0.01, 1e-3, 1e-4)


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Directory with classification/*.jsonl.gz.", required=True)
    flags.DEFINE_string("workdir", None, "Directory for the vectors.", required=True)
    flags.DEFINE_string("preset", "dynamic_conv_mini_en", "Preset whose encoder and tokenizer are used.")
    flags.DEFINE_list("sets", list(NAMES), "Data sets, in the order in which they are run.")
    flags.DEFINE_integer("max_length", 512, "Longer texts are truncated to this many tokens.", lower_bound=1)
    flags.DEFINE_list("sizes", ["1000", "all"], "Numbers of training texts, or all.")


def main(argv):
    """Flags -> one table per size."""
    del argv
    args = flags.FLAGS
    sets.check(args.sets, args.data_dir)
    if set(args.sizes) != {"all"}:
        numbers("sizes", [size for size in args.sizes if size != "all"], least=1)
    preset = preset_names.locate(args.preset)
    tokenizer, backbone = Tokenizer.from_preset(preset), Seq2SeqBackbone.from_preset(preset)
    for size in args.sizes:
        found = {}
        for name in args.sets:
            num_classes = SETS[name].classes
            model = TextClassifier(backbone, num_classes, pooling="layers", dropout=0.0)
            (train, vectors), (unseen, asked) = (
                read(SETS[name], args, tokenizer, model, *where) for where in splits(SETS[name], size)
            )
            counts, asked_counts = ngram_features(train, num_classes, train, unseen)
            alike = overlap.hashes(train, overlap.Pieces(tokenizer))
            logits = [
                way(train, vectors, counts, alike, (asked, asked_counts), num_classes)
                for way in (held_out, folded)
            ]
            found[SETS[name].title] = [each.argmax(1) == unseen.labels for each in logits]
            print(name, size, *(f"{100 * each.mean():.2f}" for each in found[SETS[name].title]), flush=True)
        print(table(found, size))


def splits(text_set, size):
    """Returns ((part, split) of the training texts, (part, split) of the unseen texts)."""
    if size != "all":
        return ("train", f"train[:{int(size)}]"), ("train", f"train[-{UNSEEN}:]")
    return text_set.held_out


def read(text_set, args, tokenizer, model, part, split):
    """Returns the examples of a split and their vectors, float32 [N,D]."""
    source = Source(text_set.source(args.data_dir, part), split)
    found = read_classification(source, tokenizer, Label("label", text_set.classes), args.max_length)
    kept = pathlib.Path(args.workdir, f"{text_set.name}.{part}.{split}.{args.max_length}.npy")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, rows.vectors_of(model, found))
    return found, np.load(kept)


def ngram_features(learned, num_classes, *parts):
    """Returns the n-gram features of several `Examples`, sparse [N,M]; those of `learned` are kept."""
    layer = ngrams.adapted(ngrams.buckets_for(num_classes, learned), num_classes, learned)
    return [ngrams.features(layer, part) for part in parts]


def held_out(found, vectors, counts, alike, unseen, num_classes):
    """Returns the logits for unseen texts, float [U,C]: some examples choose, the heads fit the others."""
    is_held, labels = validation.choose(found, alike), found.labels
    held, seen = np.flatnonzero(is_held), np.flatnonzero(~is_held)
    candidates = linear_head.fit(vectors[seen], labels[seen], num_classes, PENALTIES_BEFORE)

    def rank(weights):
        logits = vectors[held] @ weights[0] + weights[1]
        loss = joint.loss(logits, labels[held])
        return np.mean(logits.argmax(1) == labels[held]), -loss

    pair = [
        max(candidates, key=rank),
        *ngrams.fit(counts[seen], labels[seen], num_classes, ratio_share=ngrams.ratio_share_for(num_classes)),
    ]
    shares = joint.mixture(_logits(pair, (vectors[held], counts[held])), labels[held])
    return np.tensordot(shares, _logits(pair, unseen), 1)


def folded(found, vectors, counts, alike, unseen, num_classes):
    """Returns the logits for unseen texts, float [U,C], as `convnlp fit-head` computes them now."""
    fold_of = cross_fitting.folds(found, alike)
    best = heads.fit(parts_of(vectors, counts, num_classes), found.labels, fold_of)
    print(best.chosen, flush=True)
    return answers(best, unseen)


def parts_of(vectors, counts, num_classes):
    """Returns what `convnlp fit-head` fits to vectors and n-grams: two `heads.Part`."""

    def fit(features, labels, penalties):
        return linear_head.fit(features, labels, num_classes, penalties)

    def fit_ngrams(features, labels, penalties):
        share = ngrams.ratio_share_for(num_classes)
        return ngrams.fit(features, labels, num_classes, penalties, ratio_share=share)

    return [
        heads.Part("", vectors, fit, fit_head.PENALTIES),
        heads.Part("ngram_", counts, fit_ngrams, ngrams.PENALTIES),
    ]


def answers(best, unseen):
    """Returns the logits of a `heads.Fitted` for unseen texts, float [U,C]."""
    return np.tensordot(best.shares, _logits(best.weights, unseen), 1)


def _logits(weights, features):
    """Returns the logits of each part, float [2,N,C]."""
    return np.stack([x @ kernel + bias for x, (kernel, bias) in zip(features, weights, strict=True)])


def table(found, size):
    """Returns the accuracies of both ways and the gain, with the standard error of the paired difference.

    Args:
        found: dict, title of a set -> two bool arrays [U], whether each way classifies each unseen text
            correctly.
        size: str, of `--sizes`.

    Returns:
        str, Markdown.
    """
    lines, gains, errors = [], [], []
    for title, (before, after) in found.items():
        gain, error = paired.gain(before, after)
        gains.append(gain)
        errors.append(error)
        cells = [f"{100 * each.mean():.1f}" for each in (before, after)]
        lines.append([title, len(before), *cells, f"{gain:+.1f} ± {error:.1f}"])
    means = [f"{100 * np.mean([each[i].mean() for each in found.values()]):.1f}" for i in (0, 1)]
    error = np.linalg.norm(errors) / len(errors)
    lines.append(["mean", "", *means, f"{np.mean(gains):+.1f} ± {error:.1f}"])
    texts = "all texts" if size == "all" else f"{int(size):,} texts"
    return pages.table([texts, "unseen texts", "some held out", "folds", "gain"], lines)


if __name__ == "__main__":
    define_flags()
    programs.run(main)
