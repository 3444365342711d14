"""What the report of a run shows about a classifier."""

import numpy as np
import tensorflow as tf

from convnlp.data import batching
from convnlp.models import labels as label_names
from convnlp.models import model_card
from convnlp.prediction import words
from convnlp.tasks import scores
from convnlp.tasks.classification.explain import explain
from convnlp.tasks.review import Calibration, Confusion, Mistakes, Review, Table, text_of

NUM_BINS = 10
NUM_MISTAKES = 10
MAX_EXPLAINED = 256  # tokens of a mistake whose words are explained, at one forward pass per token
MAX_MATRIX = 30  # classes; of more, only the pairs most often confused are shown
NUM_CONFUSED = 20
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_ABOUT_MISTAKES = "Look here for wrong labels first."
_ABOUT_THRESHOLDS = (
    "If only answers of at least this probability count, as with --threshold of convnlp predict: the share "
    "of the texts that have such an answer, and the share of these answers that are right."
)
_ABOUT_WORDS = " A word speaks for the answer where leaving it out makes the answer less probable."


def review(model, found, logits, explains=True):
    """Makes sections on the classes, confusions, how sure the model is, and its surest mistakes.

    Args:
        model: `TextClassifier` with its preprocessor.
        found: `Examples`, n of them.
        logits: float [n,C], the model's logits.
        explains: bool, whether to show which words the mistakes rest on, which takes logits of this very
            model. Default True.

    Returns:
        `Review`.
    """
    labels = label_names.names_of(model)
    log_probabilities = tf.nn.log_softmax(logits).numpy()
    answers, best = logits.argmax(1), np.exp(log_probabilities.max(1))
    counts = np.zeros([len(labels)] * 2, int)
    np.add.at(counts, (found.labels, answers), 1)
    is_right = answers == found.labels
    sections = [
        _per_class(labels, counts),
        _confusion(labels, counts),
        _calibration(best, is_right),
        _thresholds(best, is_right),
    ]
    surest = [i for i in np.argsort(-best, kind="stable") if not is_right[i]][:NUM_MISTAKES]
    if surest:
        explained = _explained(model, found, logits, surest) if explains else {}
        rows = [
            {
                "text": text_of(model.preprocessor.tokenizer, found.columns[0][int(i)].numpy()),
                "wanted": labels[found.labels[i]],
                "found": labels[answers[i]],
                "probability": float(best[i]),
                "words": explained.get(int(i)),
            }
            for i in surest
        ]
        sections.append(
            Mistakes(
                "The mistakes it was most sure of",
                rows,
                _ABOUT_MISTAKES + (_ABOUT_WORDS if explains else ""),
            )
        )
    return Review(sections, scores.f1_intervals(counts))


def mistakes(model, found, logits):
    """Lists the examples whose label the model does not give, those with the least probable labels first.

    Args:
        model: `TextClassifier`.
        found: `Examples`, n of them.
        logits: float [n,C]. Those of a model that has learned from an example say little about its label.

    Returns:
        list of (int, the example's index; dict: "label" and "probability" of the answer, and
        "given_probability", that of the label).
    """
    labels, answers = label_names.names_of(model), logits.argmax(1)
    probabilities = tf.nn.softmax(logits).numpy()
    given = probabilities[np.arange(len(found)), found.labels]
    return [
        (
            int(i),
            {
                "label": labels[answers[i]],
                "probability": round(float(probabilities[i, answers[i]]), 6),
                "given_probability": round(float(given[i]), 6),
            },
        )
        for i in np.argsort(given, kind="stable")
        if answers[i] != found.labels[i]
    ]


def _per_class(labels, counts):
    rows = [
        [label, int(counts[i].sum()), *scores.of_class(counts[i, i], counts[:, i].sum(), counts[i].sum())]
        for i, label in enumerate(labels)
    ]
    rows.sort(key=lambda row: -row[1])
    return Table(
        "Per class",
        ("class", "examples", "precision", "recall", "F1"),
        rows,
        "Precision: how many of those that were given the class belong to it. Recall: how many of those that "
        "belong to it were given it.",
    )


def _confusion(labels, counts):
    if len(labels) <= MAX_MATRIX:
        return Confusion("What was taken for what", list(labels), counts.tolist())
    wrong = counts - np.diag(np.diag(counts))
    places = np.argsort(-wrong, axis=None, kind="stable")[:NUM_CONFUSED]
    pairs = [divmod(int(place), len(labels)) for place in places]
    rows = [[labels[i], labels[j], int(wrong[i, j])] for i, j in pairs if wrong[i, j]]
    return Table("What was most often taken for what", ("class", "taken for", "examples"), rows)


def _calibration(best, is_right):
    bin_of = np.minimum((best * NUM_BINS).astype(int), NUM_BINS - 1)
    bins = [
        (float(best[bin_of == b].mean()), float(is_right[bin_of == b].mean()), int((bin_of == b).sum()))
        for b in np.unique(bin_of)
    ]
    error = sum(number * abs(sure - right) for sure, right, number in bins) / len(best)
    return Calibration("How far its probabilities can be trusted", bins, float(error))


def _thresholds(best, is_right):
    rows = []
    for threshold in THRESHOLDS:
        is_given = best >= threshold
        if number := int(is_given.sum()):
            right = int(is_right[is_given].sum())
            between = "{:.3f} to {:.3f}".format(*model_card.share_interval(right / number, number))
            rows.append([threshold, number / len(best), right / number, between, number])
    columns = ("probability of at least", "answered", "right", "95% interval", "answers")
    return Table("Answers above a threshold", columns, rows, _ABOUT_THRESHOLDS)


def _explained(model, found, logits, chosen):
    """Returns {index: words with their importances} for the examples of `chosen` that are not too long."""
    ids, length = found.columns[0], found.lengths[0]
    chosen = [int(i) for i in chosen if len(ids[int(i)]) <= MAX_EXPLAINED]
    if not chosen:
        return {}
    token_ids, mask = batching.dense(tf.gather(ids, chosen), [len(chosen), length])
    rows = {"token_ids": token_ids, "padding_mask": mask}
    specs = {name: tf.TensorSpec([None, length], values.dtype) for name, values in rows.items()}
    call = tf.function(
        lambda rows, logits: explain(model, rows, logits),
        input_signature=[specs, tf.TensorSpec([None, logits.shape[1]], tf.float32)],
        autograph=False,
    )
    pieces = {name: values.numpy() for name, values in call(rows, logits[chosen]).items()}
    return {
        i: words.of_pieces([token.decode("utf-8", "replace") for token in tokens], importances.tolist())
        for i, tokens, importances in zip(chosen, pieces["tokens"], pieces["importances"], strict=True)
    }
