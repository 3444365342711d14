"""Linear models, tuned only on the training texts: what a user would use instead."""

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer

from benchmarks.scoring import minilm

FOLDS = 3
# Split at white space alone, `good.` would be another word than `good`: 3 points less on Jigsaw.
_WORDS = r"\w+|[^\w\s]"
# More than 30, which many sets chose when it was the last of them.
_LOGISTIC_REGRESSION = LogisticRegression(max_iter=300), {"C": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0]}


def tfidf():
    """Returns TF-IDF of words, marks and pairs of them, with logistic regression and penalties to choose."""
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=_WORDS)
    return words, *_LOGISTIC_REGRESSION


def hashed():
    """Returns hashed words, pairs and pieces of 3 to 5 letters, with gradient descent: like fastText."""
    words = HashingVectorizer(
        n_features=2**18, ngram_range=(1, 2), token_pattern=r"\S+", alternate_sign=False
    )
    pieces = HashingVectorizer(n_features=2**18, ngram_range=(3, 5), analyzer="char_wb", alternate_sign=False)
    features = make_pipeline(make_union(words, pieces), TfidfTransformer(sublinear_tf=True))
    return (
        features,
        SGDClassifier("log_loss", random_state=0),
        {"alpha": [1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4]},
    )


def sentence_embeddings(directory):
    """Returns embeddings of all-MiniLM-L6-v2, with logistic regression.

    Args:
        directory: path with `minilm.FILES`.
    """
    return FunctionTransformer(lambda texts: minilm.embeddings(directory, texts)), *_LOGISTIC_REGRESSION


PEERS = {"tfidf": tfidf, "hashed": hashed}  # those that need no files


def predictions(peer, texts, labels, test_texts):
    """Returns the classes that a peer gives to test texts.

    Args:
        peer: what a function of this file returned: features, classifier, penalties to choose from.
        texts: list of str to train on.
        labels: list of int.
        test_texts: list of str.

    Returns:
        (list of int, one per test text; dict, the penalty that cross-validation has chosen).
    """
    features, classifier, choices = peer
    search = GridSearchCV(classifier, choices, cv=FOLDS).fit(features.fit_transform(texts), labels)
    return np.asarray(search.predict(features.transform(test_texts))).tolist(), search.best_params_
