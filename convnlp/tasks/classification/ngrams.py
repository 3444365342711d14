"""A linear classifier on hashed n-grams beside one that is trained, weighed on held-out texts."""

import numpy as np
import tensorflow as tf
from scipy import optimize, sparse

from convnlp.layers import hashed_ngrams
from convnlp.models import TextClassifier, linear_head
from convnlp.tasks.rows import outputs_of

PENALTY = 0.1  # over the number of examples
RATIO_SHARE = 0.5  # of a bucket's weight that follows from how unevenly the classes use it
MAX_RATIO_CLASSES = 16  # with 77 of 110 texts each, it lost 0.8 points of held-out accuracy
MAX_WEIGHTS = 2**20
_LEAST_BUCKETS = 2**12
_LEAST_SHARE = 0.01  # of the encoder, whose answers would else be lost
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
    >>> [ratio_share_for(number) for number in (2, 16, 17)]
    [0.5, 0.5, 0.0]
    """
    return RATIO_SHARE if num_classes <= MAX_RATIO_CLASSES else 0.0


def join(model, num_buckets, found, held_out):
    """A classifier whose logits are a z + b u: z those of `model`, u those of a linear one on n-grams.

    u = U x + c is fitted on the examples that were trained on, by softmax regression; x is the weight of
    each bucket of `convnlp.layers.HashedNgrams`: its count, over the square root of the number of n-grams,
    times its `bucket_weights`. Then a and b, at least 0, are those of the smallest loss on the
    held-out examples, which also makes the probabilities fit: a model that is too sure has a small a.

    Words decide many classes, and no small encoder has seen all of them often enough. The loss alone weighs
    them: the held-out examples that the encoder gets right are more than it would get of others, since its
    best step was chosen by them.

    Args:
        model: `TextClassifier` without n-grams, trained.
        num_buckets: int, M, at most 2**16.
        found: `convnlp.data.examples.Examples` that it was trained on.
        held_out: `Examples` that it was not.

    Returns:
        `TextClassifier` with the same backbone.
    """
    num_classes = model.num_classes
    joined = TextClassifier(
        model.backbone,
        num_classes=num_classes,
        preprocessor=model.preprocessor,
        pooling=model.pooling,
        dropout=model.dropout,
        labels=model.labels,
        ngram_buckets=num_buckets,
        ngram_dim=num_classes,
    )
    counts = features(joined.ngrams, found)
    share_of_ratio = ratio_share_for(num_classes)
    table, bias = fit(counts, found.labels, num_classes, found.weights, share_of_ratio)
    own = outputs_of(model, held_out)
    linear = features(joined.ngrams, held_out) @ table + bias
    share, ngram_share = mixture(own, linear, held_out.labels)
    kernel, own_bias = model.head.get_weights()
    joined.ngrams.set_weights([table])
    identity = np.eye(num_classes) * ngram_share / hashed_ngrams.SCALE
    joined.head.set_weights(
        [np.concatenate([share * kernel, identity]), share * own_bias + ngram_share * bias]
    )
    return joined


def fit(counts, labels, num_classes, weights=None, ratio_share=RATIO_SHARE):
    """Softmax regression on x, each count times the weight of its bucket.

    Args:
        counts: SciPy's sparse array [N,M], of `features`.
        labels: int [N], each in [0, C).
        num_classes: int, C.
        weights: float [N], how much an example counts. Default None: 1.
        ratio_share: float in [0, 1], see `bucket_weights`.

    Returns:
        (U, c): float64 [M,C] and [C], which take the counts as they are.
    """
    scale = bucket_weights(counts, labels, num_classes, ratio_share)
    x = sparse.csr_array(counts * scale[None])
    kernel, bias = linear_head.softmax_regression(
        x, labels, num_classes, PENALTY / len(labels), weights=weights
    )
    return kernel * scale[:, None], bias


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


def mixture(first, second, labels):
    """The weights a > 0, b >= 0 of the smallest mean CE(a first + b second, labels).

    A pull to 1/2 and 1/2, as strong as one example, keeps them small where all examples are right.

    Args:
        first: float [N,C], logits.
        second: float [N,C], logits.
        labels: int [N].

    Returns:
        float [2].
    """
    both = np.stack([first, second])
    targets = np.eye(first.shape[1])[labels]

    def objective(weights):
        log_probabilities = linear_head.log_softmax(np.tensordot(weights, both, 1))
        error = np.exp(log_probabilities) - targets
        loss = np.sum((weights - 0.5) ** 2) - np.sum(log_probabilities * targets)
        slope = 2 * (weights - 0.5) + np.tensordot(both, error, 2)
        return loss / len(labels), slope / len(labels)

    bounds = [(_LEAST_SHARE, None), (0, None)]
    return optimize.minimize(objective, [0.5, 0.5], jac=True, method="L-BFGS-B", bounds=bounds).x
