"""Joins the logits of several classifiers: chooses a candidate of each, and their weights."""

import dataclasses

import numpy as np
from scipy import optimize

from convnlp.models import linear_head

_LEAST_SHARE = 0.01  # of the first member, an encoder's, whose answers would otherwise be lost


@dataclasses.dataclass(frozen=True)
class Joint:
    """Logits sum_m s_m z_m.

    Attributes:
        chosen: tuple of int, which candidate of each member is its z_m.
        shares: float array [M], s.
    """

    chosen: tuple
    shares: np.ndarray

    def logits(self, members):
        """Returns the sum, float [N,C], for members as in `choose`."""
        parts = [candidates[index] for candidates, index in zip(members, self.chosen, strict=True)]
        return np.tensordot(self.shares, np.stack(parts), 1)


def choose(members, labels, weights=None):
    """Chooses the candidate of each member that fits best by itself, and the weights of their sum.

    Each candidate is judged with the weight that minimises its loss, as in the sum: how sure it is of its
    answers does not matter.

    Args:
        members: sequence of M float arrays [P_m,N,C], the logits of each member's candidates.
        labels: int [N], labels of examples that no candidate has seen.
        weights: float [N], how much each example counts. Default None: all 1.

    Returns:
        `Joint`.
    """
    chosen = tuple(
        min(range(len(each)), key=lambda i: _loss_alone(each[i], labels, weights)) for each in members
    )
    parts = [candidates[index] for candidates, index in zip(members, chosen, strict=True)]
    return Joint(chosen, mixture(parts, labels, weights))


def mixture(members, labels, weights=None):
    """Returns the shares s >= 0 that minimise the mean of w_n CE(sum_m s_m z_mn, y_n).

    A pull towards 1/M for each, as strong as one example, keeps them small if all answers are right.

    Args:
        members: sequence of M float arrays [N,C], z. The first always has some share.
        labels: int [N], y.
        weights: float [N], w. Default None: all 1.

    Returns:
        float [M].
    """
    members = np.stack(members)
    targets, equal = np.eye(members.shape[2])[labels], 1 / len(members)
    counted = np.reshape(1.0 if weights is None else weights, [-1, 1])  # [N,1] or [1,1]

    def objective(shares):
        log_probabilities = linear_head.log_softmax(np.tensordot(shares, members, 1))
        error = (np.exp(log_probabilities) - targets) * counted
        loss = np.sum((shares - equal) ** 2) - np.sum(log_probabilities * targets * counted)
        slope = 2 * (shares - equal) + np.tensordot(members, error, 2)
        return loss / len(labels), slope / len(labels)

    bounds = [(_LEAST_SHARE, None)] + [(0, None)] * (len(members) - 1)
    start = [equal] * len(members)
    return optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x


def loss(logits, labels, weights=None):
    """Returns the mean cross-entropy of logits [N,C], where each example counts by its weight, if given."""
    losses = -linear_head.log_softmax(logits)[np.arange(len(labels)), labels]
    return float(np.average(losses, weights=weights))


def _loss_alone(logits, labels, weights):
    """Returns the loss of logits [N,C] at their best share."""
    (share,) = mixture([logits], labels, weights)
    return loss(share * logits, labels, weights)
