"""Joins a linear classifier on hashed n-grams to a trained one, with weights from held-out texts."""

import numpy as np
import tensorflow as tf
from absl import logging
from scipy import sparse

from convnlp.layers import HashedNgrams, hashed_ngrams
from convnlp.models import arguments, linear_head
from convnlp.tasks.classification import joint
from convnlp.tasks.rows import outputs_of

PENALTY = 0.1  # divided by the number of examples
PENALTIES = (0.3, 0.1, 0.03, 0.01)  # where folds can choose
RATIO_SHARE = 0.5  # share of a bucket's weight that depends on how unevenly the classes use it
MAX_RATIO_CLASSES = 8  # from 10 on, it gains nothing; with few texts per class, it loses (docs/recipes.md)
MAX_WEIGHTS = 2**21  # 2 MB in int8
_LEAST_BUCKETS = 2**13
_BATCH_SIZE = 64
_MAX_ADAPTED = 2**22  # tokens, for which `adapt` takes seconds and less than a gigabyte
_LEAST_PART = 0.05  # of the logits: with less, an encoder hardly counts


def buckets_for(num_classes, found):
    """Returns the number of buckets: a power of two with at most `MAX_WEIGHTS` weights; 0 if too few.

    2^17 buckets are filled by more tokens than that; for fewer, half of them are enough.

    Args:
        num_classes: int.
        found: `Examples` to learn from.
    """
    num_tokens = len(found.columns[0].flat_values)
    most = hashed_ngrams.MAX_BUCKETS
    if num_tokens <= most:
        most //= 2
    buckets = min(most, 1 << (MAX_WEIGHTS // num_classes).bit_length() >> 1)
    return buckets if buckets >= _LEAST_BUCKETS else 0


def ratio_share_for(num_classes):
    """Returns `RATIO_SHARE`, or 0 if there are so many classes that each says little about a bucket.

    Example:
    >>> [ratio_share_for(number) for number in (2, 8, 9)]
    [0.5, 0.5, 0.0]
    """
    return RATIO_SHARE if num_classes <= MAX_RATIO_CLASSES else 0.0


def takes(model):
    """Returns whether a model's class, which may be one of your own, can have n-grams."""
    return "ngram_buckets" in arguments.names(type(model))


def join(model, num_buckets, found, held_out, learns=False):
    """Returns classifiers with logits a z + b u: z from `model`, u from a linear classifier on n-grams.

    u = U x + c is fitted to the training examples by softmax regression. x holds the value of each bucket of
    `convnlp.layers.HashedNgrams`: 1 over the square root of the number of n-grams that count if the text has
    the bucket's n-gram, else 0, times its `bucket_weights`. Then a and b, at least 0, are chosen to minimise
    the loss on the held-out examples. This also calibrates the probabilities: a model that is too sure gets a
    small a.

    Many classes depend on words, and no small encoder has seen all of them often enough. Only the loss
    chooses the weights: the encoder gets more of the held-out examples right than it would of others, since
    its best step was chosen by them.

    Once a and b are known, the held-out examples may be learned from as well: u is fitted to all examples,
    with the same b. With few examples, that gains half a point (docs/recipes.md).

    Args:
        model: trained `TextClassifier` without n-grams, see `joined`.
        num_buckets: int, M, at most 2**16.
        found: `convnlp.data.examples.Examples` that it was trained on.
        held_out: `Examples` that it was not trained on; with `weights`, for learning, if `found` has them.
        learns: bool. Whether the classifier to keep also learns from `held_out`. Defaults to False.

    Returns:
        (model that has not learned from `held_out`, model to keep), with the class and the backbone of
        `model`; without `learns`, they are the same.
    """
    layer = adapted(num_buckets, model.num_classes, found)
    counts, held_counts = features(layer, found), features(layer, held_out)

    def fitted(counts, *parts, start=None):
        labels = np.concatenate([part.labels for part in parts])
        weights = None
        if found.weights is not None:
            weights = np.concatenate([part.weights for part in parts])
        share = ratio_share_for(model.num_classes)
        (linear,) = fit(counts, labels, model.num_classes, weights=weights, ratio_share=share, start=start)
        return linear

    head, linear = model.head.get_weights(), fitted(counts, found)
    table, bias = linear
    members = outputs_of(model, held_out), held_counts @ table + bias
    shares = joint.mixture(members, held_out.labels)
    _report(members, shares, held_out.labels)
    judged = joined(model, layer, head, linear, shares)
    if not learns:
        return judged, judged
    linear = fitted(sparse.vstack([counts, held_counts], "csr"), found, held_out, start=linear)
    return judged, joined(model, layer, head, linear, shares)


def _report(members, shares, labels):
    """Logs what n-grams change on the held-out examples, and whether they alone decide."""
    parts = shares[:, None, None] * np.stack(members)  # [2,N,C]
    own, joined = (np.mean(logits.argmax(1) == labels) for logits in (members[0], parts.sum(0)))
    logging.warning(
        "validation accuracy %.4f by the encoder alone, %.4f with n-grams (weights %.2f and %.2f)",
        own,
        joined,
        *shares,
    )
    size, ngram_size = parts.std(axis=2).mean(axis=1)
    if size < _LEAST_PART * (size + ngram_size):
        logging.warning("the n-grams alone decide: the encoder hardly counts, and may need more training")


def adapted(num_buckets, num_classes, found):
    """Returns a `HashedNgrams` layer whose buckets keep n-grams of the examples that are learned from.

    Of very many, every second or every n-th is enough to see which n-grams are frequent.
    """
    rows = found.columns[0]
    layer = HashedNgrams(num_buckets, num_classes)
    layer.adapt(rows[:: 1 + len(rows.flat_values) // _MAX_ADAPTED])
    return layer


def joined(model, layer, head, linear, shares):
    """Returns the classifier with logits a (W v + b) + s (U x + c).

    Args:
        model: `TextClassifier` without n-grams, whose `head` takes v, or a model of your own class whose
            constructor and `get_config` have `ngram_buckets` and `ngram_dim`, too.
        layer: `HashedNgrams` from `adapted`, which gives x.
        head: (W, b), arrays [D,C] and [C].
        linear: (U, c), arrays [M,C] and [C], from `fit`.
        shares: float array [2], (a, s).

    Returns:
        A model of the same class and backbone.
    """
    (kernel, own_bias), (table, bias), (share, ngram_share) = head, linear, shares
    config = {**model.get_config(), "ngram_buckets": len(table), "ngram_dim": model.num_classes}
    config |= {"backbone": model.backbone, "preprocessor": model.preprocessor}
    classifier = type(model)(**config)
    classifier.ngrams.set_weights([table, layer.keys])
    identity = np.eye(model.num_classes) * ngram_share / hashed_ngrams.SCALE
    classifier.head.set_weights(
        [np.concatenate([share * kernel, identity]), share * own_bias + ngram_share * bias]
    )
    return classifier


def fit(counts, labels, num_classes, penalties=(PENALTY,), weights=None, ratio_share=RATIO_SHARE, start=None):
    """Fits a softmax regression to x, in which each count is multiplied by the weight of its bucket.

    Args:
        counts: SciPy sparse array [N,M], from `features`.
        labels: int [N], each in [0, C).
        num_classes: int, C.
        penalties: sequence of float, divided by the number of examples. Defaults to `PENALTY` alone.
        weights: float [N], how much each example counts. Default None: all 1.
        ratio_share: float in [0, 1], see `bucket_weights`.
        start: (U, c) where the search starts, for example from fewer texts. Default None: zeros.

    Returns:
        list of pairs (U, c), one per penalty: float64 [M,C] and [C], to be applied to the counts themselves.
    """
    used = np.unique(counts.indices)  # all others have zero weights, and would take most of the time
    scale = bucket_weights(counts, labels, num_classes, ratio_share)[used]
    x = sparse.csr_array(counts[:, used] * scale[None])
    found = []
    if start is not None:
        table, bias = start
        inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
        start = table[used] * inverse[:, None], bias
    for penalty in penalties:
        start = linear_head.softmax_regression(
            x, labels, num_classes, penalty / len(labels), start, weights=weights
        )
        kernel, bias = start
        table = np.zeros([counts.shape[1], num_classes])
        table[used] = kernel * scale[:, None]
        found.append((table, bias))
    return found


def bucket_weights(counts, labels, num_classes, ratio_share=RATIO_SHARE):
    """Returns the scale of each bucket before the fit; the larger it is, the less a penalty affects it.

    s_b = i_b (1 - h + h r_b) with h = `ratio_share`. i_b is the logarithm of how rare the bucket is, and r_b
    says how unevenly the classes use it: the root of the mean over classes c of

        (log[(1 + n_bc) / sum_b (1 + n_bc)] - log[(1 + m_bc) / sum_b (1 + m_bc)])^2,

    where n_bc texts of class c have the bucket, and m_bc texts of the other classes. i and r are scaled so
    that |x| is 1 on average. The counts of a class say more about a word than a regression finds out.

    Source: Wang and Manning, 2012, the log-count ratio, https://aclanthology.org/P12-2018.
    Departs from it: one ratio for all classes, without its sign, instead of one for each; half of it.

    Args:
        counts: SciPy sparse array [N,M], from `features`.
        labels: int [N], each in [0, num_classes).
        num_classes: int, C.
        ratio_share: float in [0, 1].

    Returns:
        float64 [M].
    """
    rarity = np.log((1 + len(labels)) / (1 + np.bincount(counts.indices, minlength=counts.shape[1]))) + 1
    rarity /= _root_mean_square(counts, rarity)
    texts = sparse.csr_array((np.ones_like(counts.data), counts.indices, counts.indptr), counts.shape)
    own = np.stack([texts[labels == label].sum(0) for label in range(num_classes)])  # [C,M]
    shares, of_others = (
        np.log(number) - np.log(number.sum(1, keepdims=True)) for number in (1 + own, 1 + own.sum(0) - own)
    )
    ratio = np.sqrt(np.mean((shares - of_others) ** 2, axis=0))
    ratio /= max(_root_mean_square(counts, rarity * ratio), np.finfo(float).tiny)  # 0: all classes are alike
    return rarity * (1 - ratio_share + ratio_share * ratio)


def _root_mean_square(counts, scale):
    """Returns the size of an average x = counts * scale."""
    return np.sqrt(counts.power(2).dot(scale**2).mean())


def features(layer, found):
    """Returns what a `HashedNgrams` layer sums: 1 / sqrt(n) for each of the n n-grams of a text that count.

    Args:
        layer: `HashedNgrams` of M buckets, from `adapted`.
        found: `Examples`, N of them.

    Returns:
        SciPy sparse float64 array [N,M].
    """
    parts, sizes = [], []
    for first in range(0, len(found), _BATCH_SIZE):
        token_ids = found.columns[0][first : first + _BATCH_SIZE].to_tensor()
        mask = tf.sequence_mask(found.columns[0][first : first + _BATCH_SIZE].row_lengths())
        buckets, is_counted = (value.numpy() for value in layer.buckets(token_ids, mask))
        parts.append(buckets[is_counted])
        sizes.append(is_counted.sum(1))
    sizes = np.concatenate(sizes)
    places = np.concatenate([[0], np.cumsum(sizes)])
    values = np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes)
    rows = sparse.csr_array((values, np.concatenate(parts), places), shape=(len(found), layer.num_buckets))
    rows.sort_indices()
    return rows
