"""Linear classifiers on what does not change, vectors and n-grams, joined by what they have not seen."""

import dataclasses
import typing

import numpy as np

from convnlp.tasks import cross_fitting
from convnlp.tasks.classification import joint


@dataclasses.dataclass(frozen=True)
class Part:
    """What a linear classifier is fitted to, and how.

    Attributes:
        name: str, in front of what is said of it: "" or "ngram_".
        features: float array or SciPy's sparse array [n,D].
        fit: function of (features, labels, penalties) -> list of (W [D,C], b [C]), one per penalty.
        penalties: sequence of float, from the simplest model to the one that fits best.
    """

    name: str
    features: typing.Any
    fit: typing.Callable
    penalties: tuple


class Fitted(typing.NamedTuple):
    """What `fit` found.

    Attributes:
        weights: list of (W, b), one per part, fitted to all examples.
        shares: float array [M], how much each part counts in the sum of their logits.
        chosen: dict, the penalty and the share of each part by their names.
        outputs: float array [h,C], logits for the examples that were held out: of a fit without them, by
            the penalties and the weights that the other folds choose.
    """

    weights: list
    shares: np.ndarray
    chosen: dict
    outputs: np.ndarray


def fit(parts, labels, fold_of):
    """Linear classifiers of the same examples, the sum of whose logits fits best to what they have not seen.

    Each part is fitted by each of its penalties to the examples outside of a fold, and answers those in it.
    By these answers `joint.choose` finds the penalties and the weights of the sum, and the parts are fitted
    to all examples. How good that is, `outputs` say: the answers to a fold, by what the other folds choose.

    Args:
        parts: sequence of M `Part`.
        labels: int array [n].
        fold_of: int array [n], of `cross_fitting.folds`.

    Returns:
        `Fitted`.
    """
    members = [_answers(part, labels, fold_of) for part in parts]  # [P,h,C] each
    held = labels[fold_of >= 0]

    def answer(is_seen, is_asked):
        found = joint.choose([each[:, is_seen] for each in members], held[is_seen])
        return found.logits([each[:, is_asked] for each in members])

    outputs = cross_fitting.in_turn(answer, cross_fitting.halves(fold_of))
    found = joint.choose(members, held)
    weights, chosen = [], {}
    for part, index, share in zip(parts, found.chosen, found.shares, strict=True):
        weights += part.fit(part.features, labels, part.penalties[index : index + 1])
        chosen |= {f"{part.name}penalty": part.penalties[index], f"{part.name}share": float(share)}
    return Fitted(weights, found.shares, chosen, outputs)


def _answers(part, labels, fold_of):
    """The logits of each penalty for the examples that are held out, float [P,h,C]."""

    def answer(is_seen, is_asked):
        seen = part.features[np.flatnonzero(is_seen)]
        asked = part.features[np.flatnonzero(is_asked)]
        return [asked @ kernel + bias for kernel, bias in part.fit(seen, labels[is_seen], part.penalties)]

    return cross_fitting.in_turn(answer, fold_of)
