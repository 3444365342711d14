r"""Measures the score that a text classifier has to beat: logistic regression on TF-IDF of words and pairs.

    python -m convnlp.baseline --source=csv:train.csv --test_source=csv:test.csv --output=baseline.json

It uses scikit-learn (`pip install 'convnlp[baseline]'`) and takes seconds: run it before you train anything
larger. It finds fields and labels as `convnlp finetune` does, and computes accuracy and F1 as `convnlp
evaluate` does, with 95 % intervals.
"""

import json
import time

import numpy as np
from absl import flags

from convnlp import outputs, scores
from convnlp.data import Label, Source, fields, sources
from convnlp.models import model_card
from convnlp.programs import run

_SOURCE = flags.DEFINE_string("source", None, "csv:GLOB, jsonl:GLOB, ... (docs/training.md).", required=True)
_SPLIT = flags.DEFINE_string("split", "train", "Split of the source, optionally sliced: train[10%:].")
_TEST_SOURCE = flags.DEFINE_string("test_source", None, "Source to score on. Default: --source.")
_TEST_SPLIT = flags.DEFINE_string("test_split", "train", "Split of --test_source, optionally sliced.")
_DATA_DIR = flags.DEFINE_string("data_dir", None, "Where TFDS looks for tfds:NAME.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "Field of the text. Default: the obvious one.")
_LABEL_FIELD = flags.DEFINE_string("label_field", "label", "Field of the label. Default: the obvious one.")
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
        raise ValueError("convnlp.baseline needs scikit-learn: pip install 'convnlp[baseline]'") from error
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")
    return make_pipeline(words, LogisticRegression(C=_C.value, max_iter=1000))


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
    test = Source(_TEST_SOURCE.value or _SOURCE.value, _TEST_SPLIT.value, _DATA_DIR.value)
    if train == test:
        raise ValueError(
            "`test_source` or `test_split` must be given: a model is not scored on what it was trained on. "
            f"Received: {test} for both"
        )
    if _OUTPUT.value:
        outputs.check_file("output", _OUTPUT.value, inputs=[*sources.paths(train), *sources.paths(test)])
    names = {"text_field": _TEXT_FIELD.value, "label_field": _LABEL_FIELD.value}
    names |= fields.take(train, names)
    label = Label(names["label_field"], names=sources.label_names(train.whole, names["label_field"]))
    texts, labels = read(train, names["text_field"], label)
    test_texts, test_labels = read(test, names["text_field"], label)
    if np.bincount(labels).max() == len(labels):
        raise ValueError(f"`split` must contain at least two classes. Received: one class in {train}")
    if not any(text.split() for text in texts):
        raise ValueError(f"`source` must contain words. Received: only empty texts in {train}")
    started = time.monotonic()
    model.fit(texts, labels)
    answers = np.zeros([len(test_texts), label.num_classes], "float32")
    answers[:, model.classes_] = model.predict_log_proba(test_texts)
    if missing := sorted({*range(label.num_classes)} - {*model.classes_.tolist()}):
        answers[:, missing] = answers.min() - 1.0
    results = scores.of_logits(answers, test_labels)
    results["seconds"] = time.monotonic() - started
    low, high = model_card.share_interval(results["accuracy"], len(test_labels))
    print(f"accuracy {results['accuracy']:.4f} ({low:.3f} to {high:.3f}) on {len(test_labels):,} examples")
    print(f"f1_macro {results['f1_macro']:.4f}")
    if _OUTPUT.value:
        report = {"source": str(train), "test_source": str(test), "scores": results}
        outputs.write_file(_OUTPUT.value, f"{json.dumps(report, indent=2)}\n".encode())


if __name__ == "__main__":
    run(main)
