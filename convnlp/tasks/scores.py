"""Scores that several tasks share."""

import collections
import re
import string
import unicodedata

import keras
import numpy as np

_DRAWS = 1000


def of_class(right, given, there):
    """Returns precision, recall and F1 of a class; None where the denominator would be 0.

    Args:
        right: int, examples that belong to the class and were assigned to it.
        given: int, examples that were assigned to it.
        there: int, examples that belong to it.

    Example:
    >>> of_class(right=3, given=4, there=6)
    (0.75, 0.5, 0.6)
    """
    pairs = (right, given), (right, there), (2 * right, given + there)
    return tuple(float(part / whole) if whole else None for part, whole in pairs)


def normalized(text):
    """Returns the form in which texts are compared: NFKC, as SentencePiece normalises, and single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def word_f1(found, wanted):
    """Returns the F1 score of the words of two texts in normalised form, as bags of words.

    Source: Rajpurkar et al., 2016, section 6.1, https://arxiv.org/abs/1606.05250. Departs from their program,
    which `squad_f1` follows: case, articles and punctuation count. Two texts without words agree.

    Example:
    >>> word_f1("the old bridge", "old bridge")
    0.8
    """
    return _shared_words(*(normalized(text).split() for text in (found, wanted)))


def squad_normalized(text):
    """Returns the form in which SQuAD compares answers: lower case, no ASCII punctuation, no articles.

    Punctuation is removed without leaving a space; the articles are "a", "an" and "the" as whole words.

    Source: Rajpurkar et al., 2016, section 6.1, https://arxiv.org/abs/1606.05250, and its evaluation program.

    Example:
    >>> squad_normalized("The  U.S. Senate, an A-list")
    'us senate alist'
    """
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(?:an?|the)\b", " ", text).split())


def squad_f1(found, wanted):
    """Returns `word_f1` of two answers in SQuAD's normalised form.

    Example:
    >>> squad_f1("The old bridge.", "an old, narrow bridge")
    0.8
    """
    return _shared_words(*(squad_normalized(text).split() for text in (found, wanted)))


def squad_exact_match(found, wanted):
    """Returns whether two answers are equal in SQuAD's normalised form.

    Example:
    >>> squad_exact_match("The old bridge.", "old bridge")
    True
    """
    return squad_normalized(found) == squad_normalized(wanted)


SQUAD = {"squad_exact_match": squad_exact_match, "squad_f1": squad_f1}


def _shared_words(found, wanted):
    """Returns twice the number of shared words over the number of words of both lists, as bags."""
    found, wanted = collections.Counter(found), collections.Counter(wanted)
    if not found or not wanted:
        return float(found == wanted)
    return 2 * (found & wanted).total() / (found.total() + wanted.total())


def of_logits(logits, labels):
    """Returns the scores of logits [N,C] for integer labels [N], a dict of floats.

    They are "accuracy", "f1" (of class 1, with two classes only), "f1_macro" (the mean over the classes that
    are a label or an answer of some example), "loss" (nats) and "num_examples". The answer is the class of
    the largest logit, the first of several.
    """
    num_classes, answers = logits.shape[-1], logits.argmax(-1)
    of_both = sum(np.bincount(each, minlength=num_classes) for each in (labels, answers))  # [C]
    hits = np.bincount(labels[answers == labels], minlength=num_classes)
    f1, f1_macro = _f1(hits, of_both)
    loss = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return {
        "accuracy": float(np.mean(answers == labels)),
        **({"f1": float(f1[1])} if num_classes == 2 else {}),
        "f1_macro": float(f1_macro),
        "loss": float(np.mean(loss)),
        "num_examples": float(len(labels)),
    }


def _f1(hits, of_both):
    """Returns the F1 scores of classes [...,C], 0 for those that do not occur, and the mean of the others.

    Args:
        hits: int [...,C], examples of each class that were answered right.
        of_both: int [...,C], how often the class is a label, plus how often it is an answer.
    """
    f1 = 2 * hits / np.maximum(of_both, 1)
    return f1, f1.sum(-1) / np.count_nonzero(of_both, axis=-1)


def f1_intervals(counts):
    """Returns 95 % intervals of the F1 scores of `of_logits`, for other examples of the same kind.

    Source: Efron, 1979, https://doi.org/10.1214/aos/1176344552 (bootstrap, the percentiles of 1,000 draws).

    Args:
        counts: int [C,C], number of examples of class i that were taken for class j.

    Returns:
        dict, name -> (low, high).

    Example:
    >>> low, high = f1_intervals(np.array([[40, 10], [10, 40]]))["f1_macro"]
    >>> bool(0.7 < low < 0.8 < high < 0.9)
    True
    """
    rows, columns = np.nonzero(counts)  # with many classes, most pairs never occur
    there = counts[rows, columns]
    draws = np.random.default_rng(0).multinomial(there.sum(), there / there.sum(), _DRAWS)  # [draws,k]
    one_hot = np.eye(len(counts))
    right = draws @ (one_hot[rows] * (rows == columns)[:, np.newaxis])
    of_both = draws @ one_hot[rows] + draws @ one_hot[columns]
    f1, f1_macro = _f1(right, of_both)  # [draws,C], [draws]
    found = {"f1_macro": f1_macro, **({"f1": f1[:, 1]} if len(counts) == 2 else {})}
    return {name: tuple(map(float, np.percentile(values, (2.5, 97.5)))) for name, values in found.items()}


def of_several_labels(logits, labels):
    """Returns the scores of logits [N,C] for labels [N,C] of zeros and ones, a dict of floats.

    They are "accuracy" (share of examples whose labels are all right), "f1_micro" (of all labels together),
    "f1_macro" (the mean over the labels), "loss" (binary cross-entropy, nats) and "num_examples". A label
    counts as found if its probability is at least one half.
    """
    found, wanted = logits >= 0, labels > 0.5
    hits, all_of_both = (found & wanted).sum(0), found.sum(0) + wanted.sum(0)  # [C]
    losses = np.logaddexp(0.0, logits.astype("float64")) - labels * logits
    return {
        "accuracy": float(np.mean((found == wanted).all(-1))),
        "f1_micro": float(2 * hits.sum() / max(all_of_both.sum(), 1)),
        "f1_macro": float(np.mean(2 * hits / np.maximum(all_of_both, 1))),
        "loss": float(np.mean(losses)),
        "num_examples": float(len(labels)),
    }


def of_numbers(found, wanted):
    """Returns the scores of a model's numbers [N] for the wanted numbers [N], a dict of floats.

    They are "pearson" and "spearman" (correlations of the numbers and of their ranks; 0 if either does not
    vary), "mae" (mean absolute error), "rmse" (root mean squared error) and "num_examples".
    """
    found, wanted = np.asarray(found, "float64"), np.asarray(wanted, "float64")
    return {
        "pearson": _correlation(found, wanted),
        "spearman": _correlation(_ranks(found), _ranks(wanted)),
        "mae": float(np.mean(np.abs(found - wanted))),
        "rmse": float(np.sqrt(np.mean(np.square(found - wanted)))),
        "num_examples": float(len(wanted)),
    }


def _correlation(x, y):
    if not (np.ptp(x) and np.ptp(y)):  # the mean of equal numbers is rounded, so their norm may not be 0
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    return float(np.sum(x * y) / np.sqrt(np.sum(x * x) * np.sum(y * y)))


def _ranks(values):
    """Returns ranks from 0; equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[place]
