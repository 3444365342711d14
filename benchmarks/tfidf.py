"""The baseline that every small text classifier has to beat: TF-IDF with logistic regression."""

import time

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from convnlp.data import Label, Source, sources


def accuracy(train_source, test_source, num_classes):
    """Test accuracy of words and word pairs with logistic regression, scikit-learn's defaults but for C = 10.

    Args:
        train_source: source string with "text" and "label".
        test_source: the same.
        num_classes: int.

    Returns:
        dict with "accuracy" and "seconds".
    """
    started = time.monotonic()
    (texts, labels), (test_texts, test_labels) = (_read(s, num_classes) for s in (train_source, test_source))
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")
    model = make_pipeline(vectorizer, LogisticRegression(C=10.0, max_iter=1000))
    model.fit(texts, labels)
    return {
        "accuracy": float(np.mean(model.predict(test_texts) == test_labels)),
        "seconds": time.monotonic() - started,
    }


def _read(source, num_classes):
    label = Label("label", num_classes)
    rows = list(sources.read(Source(source), label=label).as_numpy_iterator())
    return [row["text"].decode() for row in rows], np.array([row["label"] for row in rows])
