"""Holds out validation data from the training data, by content and with the same share of each class."""

import collections

import numpy as np

from convnlp.data import hashing
from convnlp.data.errors import SourceError

SHARE, LEAST, MOST, MOST_SHARE = 0.1, 200, 2000, 0.2


def choose(found, alike=None):
    """Chooses the examples to hold out for validation.

    These are a tenth of the examples, but at least 200, unless that is more than a fifth, and at most 2,000.
    Each class gives the same share of its examples, and at least one if that is no more than a fifth in all;
    an example with several labels counts for its rarest. The choice depends only on the tokens of the first
    column, which a model reads, not on the order of the data. Examples with the same tokens there, whatever
    they should be answered by, of one group, or that `alike` says are equal, stay together, so that none is
    both trained and validated on. Of each class, at least one text is trained on. A text that alone has more
    examples than its class should give is trained on, and does not count in the share; if a class has no
    others, the rarest is held out.

    Args:
        found: `convnlp.data.examples.Examples`.
        alike: uint64 array [n], see `joined`. Default None.

    Returns:
        bool array [n], True for examples that are held out.

    Raises:
        SourceError: if there are too few different examples to hold any out.

    Example:
    >>> from convnlp.data.examples import Examples
    >>> rows = tf.ragged.constant([[number, 1] for number in range(3, 23)], tf.int32)
    >>> found = Examples((rows,), (8,), labels=np.arange(20) % 2)
    >>> sorted(found.labels[choose(found)].tolist())
    [0, 0, 1, 1]
    """
    keys, count = joined(found, alike), len(found)
    classes = _classes(found.labels, count)
    share = min(max(count * SHARE, LEAST), MOST, count * MOST_SHARE) / count
    chosen = _chosen(_counts(keys, classes), share)
    is_held = np.isin(keys, np.array([*chosen], np.uint64))
    if not chosen or is_held.all():
        different, num_classes = len(np.unique(keys)), len(np.unique(classes))
        kind = "as they are read" if found.groups is None else "groups, such as contexts"
        raise SourceError(
            "`data.validation_split` must name a split: there are too few different examples to hold any "
            f"out. Received: {count} examples ({different} different {kind}"
            f"{f', {num_classes} classes' if num_classes > 1 else ''})"
        )
    return is_held


def _counts(keys, classes):
    """Returns how many examples of each class have each key, a list of `Counter`s."""
    return [collections.Counter(keys[classes == label].tolist()) for label in np.unique(classes)]


def _chosen(counts, share):
    """Returns the keys to hold out, a set; see `choose`.

    Args:
        counts: list of `Counter`s, one for each class.
        share: float, of the examples of each class.
    """
    chosen, left = set(), [len(own) for own in counts]  # different keys of each class that are not chosen

    def choose(keys, own, wanted):
        taken = 0
        for key in keys:
            if taken >= wanted:
                break
            if key not in chosen:
                classes = [number for number, other in enumerate(counts) if key in other]
                if any(left[number] == 1 for number in classes):
                    continue
                chosen.add(key)
                for number in classes:
                    left[number] -= 1
            taken += own[key]
        return taken

    for own, usual, wanted in zip(counts, *_wanted(counts, share), strict=True):
        if not choose(sorted(usual), own, wanted):
            choose(sorted(own, key=lambda key: (own[key], key)), own, min(wanted, 1))
    return chosen


def _wanted(counts, share):
    """Returns the keys of each class that are not too frequent, and how many examples it should give.

    A class of which the share is less than half an example gives one, the largest first, as long as all give
    no more than `MOST_SHARE` together.

    Returns:
        (list of lists of keys, list of ints); see `_chosen` for the arguments.
    """
    usual, wanted = [], []
    for own in counts:
        most = max(1, round(share * own.total()))
        usual.append([key for key in own if own[key] <= most])
        wanted.append(round(share * sum(own[key] for key in usual[-1])))
    room = max(MOST_SHARE * sum(own.total() for own in counts) - sum(wanted), not any(wanted))
    small = [number for number, own in enumerate(counts) if not wanted[number] and len(own) > 1]
    for number in sorted(small, key=lambda number: -counts[number].total())[: int(room)]:
        wanted[number] = 1
    return usual, wanted


def folds(found, count, alike=None):
    """Divides examples into `count` parts of similar size, so that each can be held out in turn.

    As in `choose`, each class is spread evenly, the order of the data does not matter, and examples that read
    alike, or of one group, are in the same part.

    Args:
        found: `convnlp.data.examples.Examples`.
        count: int >= 2.
        alike: uint64 array [n], see `joined`. Default None.

    Returns:
        int array [n], the part of each example, in [0, count).

    Raises:
        SourceError: if there are fewer than two different examples, so that nothing is left to learn from.

    Example:
    >>> from convnlp.data.examples import Examples
    >>> rows = tf.ragged.constant([[number, 1] for number in range(3, 23)], tf.int32)
    >>> found = Examples((rows,), (8,), labels=np.arange(20) % 2)
    >>> [found.labels[folds(found, 5) == part].tolist().count(1) for part in range(5)]
    [2, 2, 2, 2, 2]
    """
    keys = keys_of(found)
    classes = _classes(found.labels, len(found))
    part_of = {}
    for label in np.unique(classes):  # each continues where the last one ended: parts of similar size
        new = [key for key in np.unique(keys[classes == label]).tolist() if key not in part_of]
        part_of |= {key: (len(part_of) + i) % count for i, key in enumerate(new)}
    shared = joined(found, alike)  # afterwards, so that equal texts change only their own parts
    different, ranks = np.unique(shared, return_inverse=True)
    if len(different) < 2:
        raise SourceError(
            f"`data.source` must have at least two different examples. Received: {len(found)} examples"
        )
    parts = np.array([part_of[key] for key in shared.tolist()])
    # Few texts, each in many ways of writing, may have left one of the first parts without any.
    has_all = np.array_equal(np.unique(parts), np.arange(min(count, len(different))))
    return parts if has_all else ranks % count


def _classes(labels, count):
    """Returns the class of each example, int [n]: its label, or the rarest of several; 0 without labels."""
    if labels is not None and labels.ndim == 2:
        by_count = np.argsort(labels.sum(axis=0), kind="stable")  # [C], rare ones first
        has_any = labels.any(axis=1)
        return np.where(has_any, by_count[labels[:, by_count].argmax(axis=1)], -1)
    return labels if labels is not None and labels.dtype.kind == "i" else np.zeros(count, int)


def take(found, is_taken):
    """Returns the examples for which `is_taken`, bool [n], is True, in their order."""
    return found.take(np.flatnonzero(is_taken))


def joined(found, alike):
    """Returns the keys of examples, as `keys_of` does; those that are alike share the lowest of theirs.

    Args:
        found: `Examples`, n of them. If they have groups, these say what belongs together.
        alike: uint64 array [n] in which texts that count as equal share a number, 0 for a text that only
            equals itself, as `overlap.hashes` returns it. None: only the same tokens are equal.

    Returns:
        uint64 array [n].
    """
    keys = keys_of(found)
    if alike is None or found.groups is not None:
        return keys
    numbers, places = np.unique(alike, return_inverse=True)
    least = np.full(len(numbers), np.iinfo(np.uint64).max)
    np.minimum.at(least, places, keys)
    return np.where(alike == 0, keys, least[places])


def keys_of(found):
    """Returns a hash of what is read of each example, or its group: uint64 [n]."""
    if found.groups is not None:
        return np.asarray(found.groups, np.uint64)
    return hashing.of_rows(found.columns[0])
