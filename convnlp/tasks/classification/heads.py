"""Fits linear classifiers to fixed vectors and n-grams, and joins them by examples they have not seen."""

import dataclasses
import typing

import numpy as np

from convnlp.tasks import cross_fitting
from convnlp.tasks.classification import joint


@dataclasses.dataclass(frozen=True)
class Part:
    """What a linear classifier is fitted to, and how.

    Attributes:
        name: str, the prefix of its entries in `Fitted.chosen`: "" or "ngram_".
        features: float array or SciPy sparse array [n,D].
        fit: function of (features, labels, penalties) -> list of (W [D,C], b [C]), one per penalty.
        penalties: sequence of float, from the simplest model to the closest fit.
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
        chosen: dict, the penalty and the share of each part, by their names.
        outputs: float array [h,C], logits for the held-out examples: from a fit without them, with the
            penalties and the weights that the other folds choose.
        by_others: dict, each fold -> the `Joint` that the others choose for it.
    """

    weights: list
    shares: np.ndarray
    chosen: dict
    outputs: np.ndarray
    by_others: dict


def fit(parts, labels, fold_of):
    """Fits linear classifiers whose summed logits fit best to examples that they have not seen.

    Each part is fitted with each of its penalties to the examples outside a fold, and answers those in it.
    From these answers, `joint.choose` finds the penalties and the weights of the sum. Then the parts are
    fitted to all examples. `outputs` shows how good this is: it answers each fold as the others choose.

    Args:
        parts: sequence of M `Part`.
        labels: int array [n].
        fold_of: int array [n], from `cross_fitting.folds`.

    Returns:
        `Fitted`.
    """
    members = [_answers(part, labels, fold_of) for part in parts]  # [P,h,C] each
    held = labels[fold_of >= 0]

    def chosen_by(is_seen):
        return joint.choose([each[:, is_seen] for each in members], held[is_seen])

    folds = fold_of[fold_of >= 0]
    by_others = {fold: chosen_by(folds != fold) for fold in np.unique(folds).tolist()}
    outputs = cross_fitting.in_turn(
        lambda _, is_asked: by_others[folds[is_asked][0]].logits([each[:, is_asked] for each in members]),
        folds,
    )
    found, chosen = joint.choose(members, held), {}
    for part, index, share in zip(parts, found.chosen, found.shares, strict=True):
        chosen |= {f"{part.name}penalty": part.penalties[index], f"{part.name}share": float(share)}
    return Fitted(refitted(parts, labels, found), found.shares, chosen, outputs, by_others)


def refitted(parts, labels, choice):
    """Returns the weights of each part, fitted to all examples with the penalties of a `Joint`.

    Args:
        parts: list of `Part`, as for the choice.
        labels: int array [n], of all examples.
        choice: `Joint`.

    Returns:
        list of (W, b), float32 [D,C] and [C].
    """
    return [
        part.fit(part.features, labels, part.penalties[index : index + 1])[0]
        for part, index in zip(parts, choice.chosen, strict=True)
    ]


def _answers(part, labels, fold_of):
    """Returns the logits of each penalty for the held-out examples, float [P,h,C]."""

    def answer(is_seen, is_asked):
        seen = part.features[np.flatnonzero(is_seen)]
        asked = part.features[np.flatnonzero(is_asked)]
        return [asked @ kernel + bias for kernel, bias in part.fit(seen, labels[is_seen], part.penalties)]

    return cross_fitting.in_turn(answer, fold_of)
