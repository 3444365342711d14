"""Answers to examples by what was fitted without them, so that they can choose, and say what was reached."""

import numpy as np

from convnlp.data import validation

FOLDS = 5
MAX_CROSS_FITTED = 5_000  # beyond it a fold has 1,000 examples, as many as choose where there are so few


def folds(found):
    """Which fold each example is held out in; -1: in none.

    With up to `MAX_CROSS_FITTED` examples, each is held out once. With more, those of one fold are, in two
    halves that `halves` makes: what they choose would hardly change, and the time would be fivefold.

    Args:
        found: `convnlp.data.examples.Examples`, n of them.

    Returns:
        int array [n].

    Raises:
        SourceError: if there are not two different examples.
    """
    of_each = validation.folds(found, FOLDS)
    return of_each if len(found) <= MAX_CROSS_FITTED else np.where(of_each == 0, 0, -1)


def in_turn(answer, fold_of):
    """The answers to the examples of each fold by what has seen the others.

    Args:
        answer: function of (is_seen, is_asked), bool arrays [n] -> float array [...,m,U], answers to the m
            examples that are asked for.
        fold_of: int array [n], of `folds`.

    Returns:
        float array [...,h,U], of the h examples that are in a fold, in their order.
    """
    is_held, outputs = fold_of >= 0, None
    for fold in np.unique(fold_of[is_held]):
        is_asked = fold_of == fold
        answers = np.asarray(answer(~is_asked, is_asked))
        if outputs is None:
            outputs = np.empty([*answers.shape[:-2], len(fold_of), answers.shape[-1]], answers.dtype)
        outputs[..., is_asked, :] = answers
    return outputs[..., is_held, :]


def halves(fold_of):
    """The folds of the examples that are held out, int array [h]; where there is but one, two halves of it.

    Example:
    >>> halves(np.array([0, -1, 0, -1, 0])).tolist(), halves(np.array([1, 0, 1])).tolist()
    ([0, 1, 0], [1, 0, 1])
    """
    held = fold_of[fold_of >= 0]
    return np.arange(len(held)) % 2 if len(np.unique(held)) == 1 else held
