"""How the logits of several classifiers are joined: which of each, and with what weights."""

import dataclasses

import numpy as np
from scipy import optimize

from convnlp.models import linear_head

_LEAST_SHARE = 0.01  # of the first, an encoder's, whose answers would else be lost


@dataclasses.dataclass(frozen=True)
class Joint:
    """Logits sum_m s_m z_m.

    Attributes:
        chosen: tuple of int, which candidate of each member z_m is.
        shares: float array [M], s.
    """

    chosen: tuple
    shares: np.ndarray

    def logits(self, members):
        """The sum, float [N,C], of members as in `choose`."""
        parts = [candidates[index] for candidates, index in zip(members, self.chosen, strict=True)]
        return np.tensordot(self.shares, np.stack(parts), 1)


def choose(members, labels):
    """The candidate of each member that fits best by itself, and the weights of their sum.

    A candidate is looked at with the weight at which its loss is smallest, as it is in the sum: how sure it
    is of its answers does not matter.

    Args:
        members: sequence of M float arrays [P_m,N,C], logits of the candidates of each.
        labels: int [N], of examples that none of them has seen.

    Returns:
        `Joint`.
    """
    chosen = tuple(min(range(len(each)), key=lambda i: _loss_alone(each[i], labels)) for each in members)
    parts = [candidates[index] for candidates, index in zip(members, chosen, strict=True)]
    return Joint(chosen, mixture(parts, labels))


def mixture(members, labels):
    """The weights s >= 0 of the smallest mean CE(sum_m s_m z_m, labels).

    A pull to 1/M each, as strong as one example, keeps them small where all examples are right.

    Args:
        members: sequence of M float arrays [N,C], z. The first has some weight in any case.
        labels: int [N].

    Returns:
        float [M].
    """
    members = np.stack(members)
    targets, equal = np.eye(members.shape[2])[labels], 1 / len(members)

    def objective(shares):
        log_probabilities = linear_head.log_softmax(np.tensordot(shares, members, 1))
        error = np.exp(log_probabilities) - targets
        loss = np.sum((shares - equal) ** 2) - np.sum(log_probabilities * targets)
        slope = 2 * (shares - equal) + np.tensordot(members, error, 2)
        return loss / len(labels), slope / len(labels)

    bounds = [(_LEAST_SHARE, None)] + [(0, None)] * (len(members) - 1)
    start = [equal] * len(members)
    return optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x


def _loss_alone(logits, labels):
    """The mean cross-entropy of logits [N,C] at their best weight."""
    (share,) = mixture([logits], labels)
    return -np.mean(linear_head.log_softmax(share * logits)[np.arange(len(labels)), labels])
