"""Joins the logits of several classifiers: chooses a candidate of each, and their weights."""

import dataclasses

import numpy as np
from scipy import optimize, special

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


def choose(members, labels):
    """Chooses the candidate of each member that fits best by itself, and the weights of their sum.

    Each candidate is judged with the weight that minimises its loss, as in the sum: how sure it is of its
    answers does not matter.

    Args:
        members: sequence of M float arrays [P_m,N,C], the logits of each member's candidates.
        labels: int [N], labels of examples that no candidate has seen.

    Returns:
        `Joint`.
    """
    chosen = tuple(min(range(len(each)), key=lambda i: _loss_alone(each[i], labels)) for each in members)
    parts = [candidates[index] for candidates, index in zip(members, chosen, strict=True)]
    return Joint(chosen, mixture(parts, labels))


def mixture(members, labels):
    """Returns the shares s >= 0 that minimise the mean of CE(sum_m s_m z_mn, y_n).

    A pull towards 1/M for each, as strong as one example, keeps them small if all answers are right.

    Args:
        members: sequence of M float arrays [N,C], z. The first always has some share.
        labels: int [N], y.

    Returns:
        float [M].
    """
    members = np.stack(members)
    targets, equal = np.eye(members.shape[2])[labels], 1 / len(members)

    def objective(shares):
        log_probabilities = special.log_softmax(np.tensordot(shares, members, 1), axis=1)
        error = np.exp(log_probabilities) - targets
        loss = np.sum((shares - equal) ** 2) - np.sum(log_probabilities * targets)
        slope = 2 * (shares - equal) + np.tensordot(members, error, 2)
        return loss / len(labels), slope / len(labels)

    bounds = [(_LEAST_SHARE, None)] + [(0, None)] * (len(members) - 1)
    start = [equal] * len(members)
    return optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x


def loss(logits, labels):
    """Returns the mean cross-entropy of logits [N,C]."""
    return -float(special.log_softmax(logits, axis=1)[np.arange(len(labels)), labels].mean())


def _loss_alone(logits, labels):
    """Returns the loss of logits [N,C] at their best share."""
    (share,) = mixture([logits], labels)
    return loss(share * logits, labels)
