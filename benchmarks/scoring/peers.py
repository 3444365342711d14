"""Linear models of words, tuned on the training texts alone: what a user would take instead."""

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)  # C of the logistic regression, by five-fold cross-validation
FOLDS = 5
_WORDS = r"\S+"


def tfidf():
    """TF-IDF of words and word pairs."""
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=_WORDS)


def hashed():
    """Hashed words, pairs of words and pieces of 3 to 5 letters, as in fastText, with TF-IDF's weights."""
    words = HashingVectorizer(
        n_features=2**18, ngram_range=(1, 2), token_pattern=_WORDS, alternate_sign=False
    )
    pieces = HashingVectorizer(n_features=2**18, ngram_range=(3, 5), analyzer="char_wb", alternate_sign=False)
    return make_pipeline(make_union(words, pieces), TfidfTransformer(sublinear_tf=True))


PEERS = {"tfidf": tfidf, "hashed": hashed}


def predictions(name, texts, labels, test_texts):
    """The classes that a peer gives to test texts.

    Args:
        name: str, a key of `PEERS`.
        texts: list of str to train on.
        labels: list of int.
        test_texts: list of str.

    Returns:
        (list of int, one per test text; the C that cross-validation has chosen).
    """
    features = PEERS[name]()
    vectors = features.fit_transform(texts)
    search = GridSearchCV(LogisticRegression(max_iter=2000), {"C": list(STRENGTHS)}, cv=FOLDS)
    search.fit(vectors, labels)
    answers = search.predict(features.transform(test_texts))
    return np.asarray(answers).tolist(), search.best_params_["C"]
