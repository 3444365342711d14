import doctest
import math

import pytest

from benchmarks.comparison import cells, intervals, plan, rates, results, tasks, variants

MODULES = [cells, intervals, plan, rates, results, tasks, variants]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples(module):
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed


def test_students_interval_by_hand():
    # Three seeds: t(0.975, 2) = 4.3027 of any table; s = 2, so that the half-width is 4.3027 * 2 / sqrt(3).
    score = intervals.student([10, 12, 14])
    assert score.mean == 12
    assert score.half_width == pytest.approx(4.3027 * 2 / math.sqrt(3), rel=1e-4)
    assert score.num_seeds == 3


def test_one_seed_has_no_interval():
    assert intervals.student([0.5]) == intervals.Interval(0.5, None, 1)
    assert intervals.student([0.5]).percent() == "50.0"


def test_no_seed_is_refused():
    with pytest.raises(ValueError, match="`values` must hold"):
        intervals.student([])
