"""A linear classifier on hashed n-grams beside one that is trained, weighed on held-out texts."""

import numpy as np
import tensorflow as tf
from scipy import sparse

from convnlp.layers import HashedNgrams, hashed_ngrams
from convnlp.models import TextClassifier, linear_head
from convnlp.tasks.classification import joint
from convnlp.tasks.rows import outputs_of

PENALTY = 0.1  # over the number of examples
PENALTIES = (0.3, 0.1, 0.03, 0.01)  # where folds can choose
RATIO_SHARE = 0.5  # of a bucket's weight that follows from how unevenly the classes use it
MAX_RATIO_CLASSES = 8  # from 10 on it gains nothing, with few texts of each it loses (docs/recipes.md)
MAX_WEIGHTS = 2**20
_LEAST_BUCKETS = 2**12
_BATCH_SIZE = 64


def buckets_for(num_classes):
    """How many buckets a classifier gets: a power of two, with at most `MAX_WEIGHTS` weights; 0: too few.

    Example:
    >>> [buckets_for(number) for number in (2, 16, 20, 1_000)]
    [65536, 65536, 32768, 0]
    """
    buckets = min(hashed_ngrams.MAX_BUCKETS, 1 << (MAX_WEIGHTS // num_classes).bit_length() >> 1)
    return buckets if buckets >= _LEAST_BUCKETS else 0


def ratio_share_for(num_classes):
    """`RATIO_SHARE`, or 0 where there are so many classes that each says little of a bucket.

    Example:
    >>> [ratio_share_for(number) for number in (2, 8, 9)]
    [0.5, 0.5, 0.0]
    """
    return RATIO_SHARE if num_classes <= MAX_RATIO_CLASSES else 0.0


def join(model, num_buckets, found, held_out, learns=False):
    """Classifiers whose logits are a z + b u: z those of `model`, u those of a linear one on n-grams.

    u = U x + c is fitted on the examples that were trained on, by softmax regression; x is the weight of
    each bucket of `convnlp.layers.HashedNgrams`: its count, over the square root of the number of n-grams,
    times its `bucket_weights`. Then a and b, at least 0, are those of the smallest loss on the
    held-out examples, which also makes the probabilities fit: a model that is too sure has a small a.

    Words decide many classes, and no small encoder has seen all of them often enough. The loss alone weighs
    them: the held-out examples that the encoder gets right are more than it would get of others, since its
    best step was chosen by them.

    Once a and b are known, the held-out examples may be learned from as well: u is fitted to all of them,
    with the same b. With few examples that gains half a point (docs/recipes.md).

    Args:
        model: `TextClassifier` without n-grams, trained.
        num_buckets: int, M, at most 2**16.
        found: `convnlp.data.examples.Examples` that it was trained on.
        held_out: `Examples` that it was not; with `weights` if `found` has them.
        learns: bool. Whether the classifier to keep learns from `held_out` too. Defaults to False.

    Returns:
        (`TextClassifier` that has not learned from `held_out`, the one to keep), with the backbone of
        `model`; without `learns` they are one.
    """
    layer = HashedNgrams(num_buckets, model.num_classes)
    counts, held_counts = features(layer, found), features(layer, held_out)

    def fitted(counts, *parts):
        labels = np.concatenate([part.labels for part in parts])
        weights = None
        if found.weights is not None:
            weights = np.concatenate([part.weights for part in parts])
        share = ratio_share_for(model.num_classes)
        (linear,) = fit(counts, labels, model.num_classes, weights=weights, ratio_share=share)
        return linear

    head, linear = model.head.get_weights(), fitted(counts, found)
    table, bias = linear
    members = outputs_of(model, held_out), held_counts @ table + bias
    shares = joint.mixture(members, held_out.labels)
    judged = joined(model, head, linear, shares)
    if not learns:
        return judged, judged
    linear = fitted(sparse.vstack([counts, held_counts], "csr"), found, held_out)
    return judged, joined(model, head, linear, shares)


def joined(model, head, linear, shares):
    """The classifier of logits a (W v + b) + s (U x + c).

    Args:
        model: `TextClassifier` without n-grams, whose `head` is given v.
        head: (W, b), arrays [D,C] and [C].
        linear: (U, c), arrays [M,C] and [C], of `fit`.
        shares: float array [2], (a, s).

    Returns:
        `TextClassifier` with the same backbone.
    """
    (kernel, own_bias), (table, bias), (share, ngram_share) = head, linear, shares
    classifier = TextClassifier(
        model.backbone,
        num_classes=model.num_classes,
        preprocessor=model.preprocessor,
        pooling=model.pooling,
        dropout=model.dropout,
        labels=model.labels,
        ngram_buckets=len(table),
        ngram_dim=model.num_classes,
    )
    classifier.ngrams.set_weights([table])
    identity = np.eye(model.num_classes) * ngram_share / hashed_ngrams.SCALE
    classifier.head.set_weights(
        [np.concatenate([share * kernel, identity]), share * own_bias + ngram_share * bias]
    )
    return classifier


def fit(counts, labels, num_classes, penalties=(PENALTY,), weights=None, ratio_share=RATIO_SHARE):
    """Softmax regression on x, each count times the weight of its bucket.

    Args:
        counts: SciPy's sparse array [N,M], of `features`.
        labels: int [N], each in [0, C).
        num_classes: int, C.
        penalties: sequence of float, over the number of examples. Defaults to `PENALTY` alone.
        weights: float [N], how much an example counts. Default None: 1.
        ratio_share: float in [0, 1], see `bucket_weights`.

    Returns:
        list of pairs (U, c), one per penalty: float64 [M,C] and [C], which take the counts as they are.
    """
    used = np.unique(counts.indices)  # all others have weights of zero, and would take most of the time
    scale = bucket_weights(counts, labels, num_classes, ratio_share)[used]
    x = sparse.csr_array(counts[:, used] * scale[None])
    found, start = [], None
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
    """How large each bucket is made before the fit, so that a penalty on its weights bears on it the less.

    s_b = i_b (1 - h + h r_b), h = `ratio_share`; i_b is the logarithm of how rare the bucket is, and r_b how
    unevenly the classes use it: the root of the mean over classes c of

        (log[(1 + n_bc) / sum_b (1 + n_bc)] - log[(1 + m_bc) / sum_b (1 + m_bc)])^2,

    n_bc texts of class c have the bucket, and m_bc of the other classes. i and r are scaled so that |x| is 1
    on average. What the counts of a class say of a word is worth more than what a regression finds out.

    Source: Wang and Manning, 2012, section 2 (?), the log-count ratio, https://aclanthology.org/P12-2018.
    Departs from it: one ratio for all classes, without its sign, in place of one for each; half of it.

    Args:
        counts: SciPy's sparse array [N,M], of `features`.
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
    """The size of an average x = counts * scale."""
    return np.sqrt(counts.power(2).dot(scale**2).mean())


def features(layer, found):
    """What a `HashedNgrams` layer sums up: how often a text has an n-gram of each bucket, over sqrt(n).

    Args:
        layer: `HashedNgrams` of M buckets.
        found: `Examples`, N of them.

    Returns:
        SciPy's sparse float64 array [N,M].
    """
    parts, sizes = [], []
    for first in range(0, len(found), _BATCH_SIZE):
        token_ids = found.columns[0][first : first + _BATCH_SIZE].to_tensor()
        mask = tf.sequence_mask(found.columns[0][first : first + _BATCH_SIZE].row_lengths())
        buckets, is_present = (value.numpy() for value in layer.buckets(token_ids, mask))
        parts.append(buckets[is_present])
        sizes.append(is_present.sum(1))
    sizes = np.concatenate(sizes)
    places = np.concatenate([[0], np.cumsum(sizes)])
    values = np.repeat(1 / np.sqrt(sizes), sizes)
    rows = sparse.csr_array((values, np.concatenate(parts), places), shape=(len(found), layer.num_buckets))
    rows.sum_duplicates()
    return rows
