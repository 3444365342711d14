"""Self-training: linear classifiers learn from texts without labels, by their own answers to them."""

import dataclasses
import typing

import numpy as np
from scipy import sparse, special

from convnlp.tasks import cross_fitting
from convnlp.tasks.classification import heads, joint

TAKEN_SHARE = 0.8  # of the texts that get a class, the surest
PENALTY = 0.1  # on the weights of the new classifiers


class Report(typing.NamedTuple):
    """What came of it, on the held-out examples.

    Attributes:
        num_texts: int, texts without labels that were answered.
        num_taken: int, those of them that were learned from.
        shares: list of float, the weights of the joint classifier and of each new one in the sum; 1 and
            zeros if the new ones are not used.
        accuracy: list of float, without the new classifiers and with them; each fold as the others choose.
        loss: list of float, the mean cross-entropies of the same answers.
    """

    num_texts: int
    num_taken: int
    shares: list
    accuracy: list
    loss: list

    def __str__(self):
        before, *new = (f"{share:.2f}" for share in self.shares)
        use = f"weights: {before} before, {' and '.join(new)} new" if any(self.shares[1:]) else "not used"
        return (
            f"self-training: {self.num_texts:,} texts answered, {self.num_taken:,} taken, {use}; held-out "
            f"accuracy {self.accuracy[0]:.4f} without, {self.accuracy[1]:.4f} with it; "
            f"loss {self.loss[0]:.4f} without, {self.loss[1]:.4f} with it"
        )


def teach(fitted, parts, labels, fold_of, unlabelled):
    """Adds classifiers that have also learned from texts without labels, if held-out examples gain from it.

    The joint classifier z = sum_m s_m z_m answers the texts. Of those that get a class, the surest
    `TAKEN_SHARE` are added to the examples, and a new classifier u_m is fitted to each part. The logits are
    then a z + sum_m b_m u_m, with the weights a and b of `joint.mixture`. All of this is linear in the
    features of the parts, so that the result has one (W, b) per part, as before.

    The held-out examples choose the weights. Those of each fold are answered by classifiers that have not
    seen them, and these have learned from the answers of one that has not either. Unless the loss gets
    smaller when each fold is answered as the others choose, nothing is added.

    Source: Yarowsky, 1995, https://aclanthology.org/P95-1026. Departs from it: one round; the surest of each
    class, not those above a threshold; the former classifier stays in the sum.

    Args:
        fitted: what `heads.fit` has returned for the next three.
        parts: sequence of M `heads.Part`.
        labels: int array [n].
        fold_of: int array [n], from `cross_fitting.folds`.
        unlabelled: sequence of M arrays [u,D], the features of the texts for each part.

    Returns:
        (`heads.Fitted`, `Report`); the first is `fitted` itself if nothing is added.
    """
    folds = fold_of[fold_of >= 0]
    held_features = [part.features[np.flatnonzero(fold_of >= 0)] for part in parts]

    def answer(_, is_asked):
        fold = folds[is_asked][0]
        seen = np.flatnonzero(fold_of != fold)
        own = [dataclasses.replace(part, features=part.features[seen]) for part in parts]
        choice = fitted.by_others[fold]
        weights = heads.refitted(own, labels[seen], choice)
        new, _ = _taught(own, labels[seen], weights, choice.shares, unlabelled)
        return _answers(new, [features[np.flatnonzero(is_asked)] for features in held_features])

    members = np.stack([fitted.outputs, *cross_fitting.in_turn(answer, folds)])  # [1+M,h,C]
    held = labels[fold_of >= 0]
    outputs = cross_fitting.in_turn(
        lambda is_seen, is_asked: np.tensordot(
            joint.mixture(members[:, is_seen], held[is_seen]), members[:, is_asked], 1
        ),
        folds,
    )
    shares = joint.mixture(members, held)
    new, num_taken = _taught(parts, labels, fitted.weights, fitted.shares, unlabelled)
    judged = fitted.outputs, outputs
    losses = [joint.loss(each, held) for each in judged]
    is_used = losses[1] < losses[0] and any(shares[1:] > 0)
    report = Report(
        unlabelled[0].shape[0],
        num_taken,
        shares.tolist() if is_used else [1.0] + [0.0] * len(parts),
        [float(np.mean(each.argmax(1) == held)) for each in judged],
        losses,
    )
    if not is_used:
        return fitted, report
    summed = [
        tuple(shares[0] * share * old + new_share * more for old, more in zip(*pair, strict=True))
        for share, new_share, *pair in zip(fitted.shares, shares[1:], fitted.weights, new, strict=True)
    ]
    return fitted._replace(weights=summed, shares=np.ones(len(parts)), outputs=outputs), report


def surest(logits):
    """Returns which texts are among the surest `TAKEN_SHARE` of those that get the same class.

    Args:
        logits: float array [u,C].

    Returns:
        int array [k], their indices, in order.

    Example:
    >>> surest(np.array([[3, 0], [0, 1], [2, 0], [1, 0], [4, 0], [5, 0]])).tolist()
    [0, 1, 2, 4, 5]
    """
    classes = logits.argmax(1)
    order = np.argsort(-special.log_softmax(logits, axis=1).max(1), kind="stable")
    by_class = [order[classes[order] == label] for label in range(logits.shape[1])]
    return np.sort(np.concatenate([each[: round(TAKEN_SHARE * len(each))] for each in by_class]))


def _taught(parts, labels, weights, shares, unlabelled):
    """Returns the new classifiers, a list of (W, b), and how many texts they have learned from."""
    logits = np.tensordot(shares, _answers(weights, unlabelled), 1)
    taken = surest(logits)
    labels = np.concatenate([labels, logits.argmax(1)[taken]])
    new = [
        part.fit(_joined(part.features, features[taken]), labels, (PENALTY,))[0]
        for part, features in zip(parts, unlabelled, strict=True)
    ]
    return new, len(taken)


def _answers(weights, features):
    """Returns the logits of each (W, b) for its features [N,D]: float array [M,N,C]."""
    return np.stack([x @ kernel + bias for (kernel, bias), x in zip(weights, features, strict=True)])


def _joined(first, second):
    """Returns the rows of both, dense or sparse."""
    if sparse.issparse(first):
        return sparse.vstack([first, second], "csr")
    return np.concatenate([first, second])
