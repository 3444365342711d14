"""Rows of symbols, in which an answer is found by its content or by its distance.

Each position of a row holds a symbol and a value, either of which may be blank. All randomness comes from
`numpy.random.Generator`s, one each for training, validation and test (`stream`).
"""

import dataclasses
import math

import numpy as np

NUM_VALUES, NUM_KEYS, NUM_FILLERS = 32, 32, 16
NUM_PAIRS = 8
NUM_COPIED = 32  # answers per row of `copy`: far more than pairs, because each says less
# Positions in front of everything else: on the way from one position to another, the taps of two layers may
# step back further than the distance, and nothing comes from outside a row.
MARGIN = 16
# Ids: the values, then the keys, the fillers and the blank.
FIRST_KEY = NUM_VALUES
FIRST_FILLER = FIRST_KEY + NUM_KEYS
BLANK = FIRST_FILLER + NUM_FILLERS
VOCABULARY_SIZE = BLANK + 1
PARTS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a task.

    Args:
        ids: int32 [R,n,2], symbol and value of each position.
        positions: int32 [A], where answers are asked for, the same for all rows.
        answers: int32 [R,A], in [0, NUM_VALUES).
    """

    ids: np.ndarray
    positions: np.ndarray
    answers: np.ndarray


def stream(part, seed):
    """Returns the random numbers of one part of the data, different from those of the other parts.

    Args:
        part: str, one of `PARTS`.
        seed: int.

    Returns:
        `numpy.random.Generator`.
    """
    return np.random.default_rng([PARTS.index(part), seed])


def recall(distance, count, random):
    """Key-value recall: pairs, filler, then the keys in another order, whose values are the answers.

    A pair is one position, whose symbol is the key and whose value is the answer, so a mixer need not join
    neighbours first. The pairs are adjacent, and so are the queries: the j-th query is `distance` + j - i
    positions behind its pair, the i-th. That is between `distance` - 7 and `distance` + 7, and `distance`
    on average. All orders of the queries are equally likely, so positions alone say only that it is one of
    the 8 pairs. The keys of a row are distinct, and its values are independent.

    After multi-query associative recall (Arora et al., 2023, "Zoology", https://arxiv.org/abs/2312.04927).
    Departs from it: a pair is one position; the distance is controlled.

    Args:
        distance: int >= 8, in positions.
        count: int, R.
        random: `numpy.random.Generator`.

    Returns:
        `Rows` with n = 16 + distance + 8 and A = 8.
    """
    length = MARGIN + distance + NUM_PAIRS
    queries, pairs = np.arange(length - NUM_PAIRS, length), np.arange(MARGIN, MARGIN + NUM_PAIRS)
    keys = _distinct(NUM_KEYS, NUM_PAIRS, count, random)
    values = random.integers(NUM_VALUES, size=(count, NUM_PAIRS))
    order = _distinct(NUM_PAIRS, NUM_PAIRS, count, random)
    ids = np.full([count, length, 2], BLANK, np.int32)
    ids[:, :, 0] = FIRST_FILLER + random.integers(NUM_FILLERS, size=(count, length))
    ids[:, pairs, 0], ids[:, pairs, 1] = FIRST_KEY + keys, values
    ids[:, queries, 0] = FIRST_KEY + np.take_along_axis(keys, order, axis=1)
    return Rows(ids, queries.astype(np.int32), np.take_along_axis(values, order, axis=1).astype(np.int32))


def copy(distance, count, random):
    """Range without content: each position has a value; the answer is the one `distance` positions before.

    Args:
        distance: int >= 1.
        count: int, R.
        random: `numpy.random.Generator`.

    Returns:
        `Rows` with n = 16 + distance + 32 and A = 32.
    """
    length = MARGIN + distance + NUM_COPIED
    ids = np.full([count, length, 2], BLANK, np.int32)
    ids[:, :, 1] = random.integers(NUM_VALUES, size=(count, length))
    positions = np.arange(length - NUM_COPIED, length, dtype=np.int32)
    return Rows(ids, positions, ids[:, positions - distance, 1])


def share_without_keys():
    """Returns the best accuracy without the keys: that of always answering a row's most frequent value.

    Of the V^P equally likely rows of P values, the number of those in which no value occurs more than m
    times is P! times the coefficient of x^P in (1 + x + x^2 / 2! + ... + x^m / m!)^V.

    Returns:
        float: the mean of the highest count, divided by P.
    """
    at_most = [0.0]
    for most in range(1, NUM_PAIRS + 1):
        series = np.array([1 / math.factorial(count) for count in range(most + 1)])
        power = np.ones(1)
        for _ in range(NUM_VALUES):
            power = np.convolve(power, series)[: NUM_PAIRS + 1]
        at_most.append(power[NUM_PAIRS] * math.factorial(NUM_PAIRS) / NUM_VALUES**NUM_PAIRS)
    return float(np.arange(1, NUM_PAIRS + 1) @ np.diff(at_most)) / NUM_PAIRS


def _distinct(limit, size, count, random):
    """Returns distinct numbers below `limit` in random order, int [count,size]."""
    return np.argsort(random.random([count, limit]), axis=1)[:, :size]


TASKS = {"recall": recall, "copy": copy}
