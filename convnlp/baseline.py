r"""Measures the score that a text classifier has to beat: logistic regression on TF-IDF of words and pairs.

    convnlp baseline --source=csv:train.csv --test_source=csv:test.csv --output=baseline.json
    convnlp baseline --source=csv:all.csv

Without test data, each fifth of the source is scored by a model of the other four; equal texts stay together.
It uses scikit-learn (`pip install scikit-learn`) and takes seconds: run it before you train anything larger.
It finds fields and labels as `convnlp finetune` does, and computes accuracy and F1 as `convnlp evaluate`
does, with 95 % intervals.
"""

import json
import time
import warnings

import numpy as np
from absl import flags, logging

from convnlp import outputs, source_flags
from convnlp.data import Label, Source, fields, sources
from convnlp.data.labels import have_order
from convnlp.models import model_card
from convnlp.programs import run
from convnlp.tasks import scores

FOLDS = 5  # without test data

_SOURCE = source_flags.define_source("source", "Texts with labels", required=True)
_SPLIT = source_flags.define_split("split")
_TEST_SOURCE = flags.DEFINE_string("test_source", None, "Source to score on. Default: --source.")
_TEST_SPLIT = flags.DEFINE_string(
    "test_split", None, "Split of --test_source, optionally sliced. Default: train."
)
_DATA_DIR = source_flags.define_data_dir("data_dir")
_TEXT_FIELD = source_flags.define_text_field("text_field")
_LABEL_FIELD = flags.DEFINE_string("label_field", "label", "Field of the label. Default: the obvious one.")
_LABEL_NAMES = flags.DEFINE_list(
    "label_names", [], "Names of the classes, in order. Default: those that the source has."
)
_C = flags.DEFINE_float("c", 10.0, "Inverse strength of the penalty, scikit-learn's C.", lower_bound=1e-6)
_OUTPUT = flags.DEFINE_string("output", None, "JSON file to write the scores to.")


def classifier():
    """Returns scikit-learn's pipeline, not yet fitted.

    Raises:
        ValueError: if scikit-learn is not installed.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
    except ImportError as error:
        raise ValueError("convnlp.baseline needs scikit-learn: pip install scikit-learn") from error
    # Marks are words of their own: split at white space alone, `good.` would be another word than `good`.
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    return make_pipeline(words, LogisticRegression(C=_C.value, max_iter=1000))


def answers(model, texts, labels, asked, num_classes):
    """Fits a model and asks it.

    Args:
        model: scikit-learn's pipeline; see `classifier`.
        texts: list of str.
        labels: int array [N], the classes of the texts.
        asked: list of str.
        num_classes: int, C. Classes without a text are the least probable.

    Returns:
        float32 array [len(asked), C], logarithms of probabilities.
    """
    found, known = np.zeros([len(asked), num_classes], "float32"), np.unique(labels)
    if len(known) > 1 and any(text.split() for text in texts):
        found[:, known] = model.fit(texts, labels).predict_log_proba(asked)
    found[:, np.setdiff1d(np.arange(num_classes), known)] = found.min() - 1.0
    return found


def cross_validated(model, texts, labels, num_classes):
    """Returns the answers to all texts, each from a model of the other parts; see `answers`.

    Raises:
        ValueError: if there are fewer different texts than parts.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    if len(set(texts)) < FOLDS:
        raise ValueError(
            f"`source` must have at least {FOLDS} different texts, or `test_source` must be given. "
            f"Received: {len(set(texts))}"
        )
    found = np.zeros([len(texts), num_classes], "float32")
    # scikit-learn refuses to spread classes over the parts if none has a text for each part.
    strata = labels if np.bincount(labels).max() >= FOLDS else np.zeros_like(labels)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of classes with few texts
        for rest, part in StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0).split(
            texts, strata, texts
        ):
            asked = [texts[i] for i in part]
            found[part] = answers(model, [texts[i] for i in rest], labels[rest], asked, num_classes)
    return found


def read(source, text_field, label):
    """Returns (texts, a list of str; classes, int array [N]) of a source."""
    rows = [
        (row[text_field].decode(), int(row["label"]))
        for row in sources.read(source, (text_field,), label).as_numpy_iterator()
    ]
    texts, labels = zip(*rows, strict=True)
    return list(texts), np.array(labels)


def main(_):
    """Texts -> TF-IDF -> logistic regression -> scores."""
    model = classifier()
    train = Source(_SOURCE.value, _SPLIT.value, _DATA_DIR.value)
    has_test = bool(_TEST_SOURCE.value or _TEST_SPLIT.value)
    test = train
    if has_test:
        test = Source(_TEST_SOURCE.value or _SOURCE.value, _TEST_SPLIT.value or "train", _DATA_DIR.value)
    if has_test and train == test:
        raise ValueError(
            "`test_split` must not be `split`: a model is not scored on what it was trained on. "
            f"Received: {test} for both"
        )
    if _OUTPUT.value is not None:
        outputs.check_file("output", _OUTPUT.value, inputs=[*sources.paths(train), *sources.paths(test)])
    names = {"text_field": _TEXT_FIELD.value, "label_field": _LABEL_FIELD.value}
    names |= fields.take(train, names)
    classes = tuple(_LABEL_NAMES.value) or sources.label_names(train.whole, names["label_field"])
    label = Label(
        names["label_field"], names=classes, has_order=have_order(classes, given=_LABEL_NAMES.value)
    )
    texts, labels = read(train, names["text_field"], label)
    test_texts, test_labels = read(test, names["text_field"], label) if has_test else (texts, labels)
    if np.bincount(labels).max() == len(labels):
        raise ValueError(f"`split` must contain at least two classes. Received: one class in {train}")
    if not any(text.split() for text in texts):
        raise ValueError(f"`source` must contain words. Received: only empty texts in {train}")
    if not np.isin(test_labels, labels).any():
        raise ValueError(
            "`test_split` must have classes that `split` has; sorted rows are not to be sliced. "
            f"Received: {test}"
        )
    known = {*texts}
    if has_test and (num_known := sum(text in known for text in test_texts)):
        logging.warning("%d of the %d test texts are among those trained on", num_known, len(test_texts))
    started = time.monotonic()
    if has_test:
        found = answers(model, texts, labels, test_texts, label.num_classes)
    else:
        found = cross_validated(model, texts, labels, label.num_classes)
    results = scores.of_logits(found, test_labels)
    results["seconds"] = time.monotonic() - started
    low, high = model_card.share_interval(results["accuracy"], len(test_labels))
    how = "" if has_test else f", each fifth by a model of the other {FOLDS - 1}"
    print(
        f"accuracy {results['accuracy']:.4f} ({low:.3f} to {high:.3f}) on {len(test_labels):,} examples{how}"
    )
    print(f"f1_macro {results['f1_macro']:.4f}")
    if _OUTPUT.value is not None:
        report = {"source": str(train), "test_source": str(test) if has_test else None, "scores": results}
        outputs.write_file(_OUTPUT.value, f"{json.dumps(report, indent=2)}\n".encode())


if __name__ == "__main__":
    run(main)
