"""Answers examples by models fitted without them, so that the answers can serve for choices and scores."""

import numpy as np

from convnlp.data import validation

FOLDS = 5
MAX_CROSS_FITTED = 5_000  # beyond it, a fifth is more than 1,000 examples, enough to choose by


def folds(found, alike=None):
    """Returns the fold in which each example is held out; -1 for none.

    With up to `MAX_CROSS_FITTED` examples, each is held out once, in one of `FOLDS` folds. With more, only
    two folds of half that size are held out, enough to choose for each other: all would take five times as
    long and hardly choose differently.

    Args:
        found: `convnlp.data.examples.Examples`, n of them.
        alike: uint64 array [n], see `validation.joined`. Default None.

    Returns:
        int array [n].

    Raises:
        SourceError: if there are not two different examples.
    """
    if len(found) <= MAX_CROSS_FITTED:
        return validation.folds(found, FOLDS, alike)
    of_each = validation.folds(found, 2 * FOLDS, alike)
    return np.where(of_each < 2, of_each, -1)


def in_turn(answer, fold_of):
    """Returns the answers to each fold's examples by what has seen only the other examples.

    Args:
        answer: function of (is_seen, is_asked), bool arrays [n] -> float array [...,m,U], answers to the m
            examples that are asked for.
        fold_of: int array [n], from `folds`.

    Returns:
        float array [...,h,U] for the h examples that are in a fold, in their order.
    """
    is_held, outputs = fold_of >= 0, None
    for fold in np.unique(fold_of[is_held]):
        is_asked = fold_of == fold
        answers = np.asarray(answer(~is_asked, is_asked))
        if outputs is None:
            outputs = np.empty([*answers.shape[:-2], len(fold_of), answers.shape[-1]], answers.dtype)
        outputs[..., is_asked, :] = answers
    return outputs[..., is_held, :]
