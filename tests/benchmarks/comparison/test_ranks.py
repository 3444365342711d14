import doctest
import math

import pytest

from benchmarks.comparison import rank_plot, ranks
from benchmarks.comparison.ranks import Ranking, common, critical_difference, rank
from benchmarks.figures import plt


def test_examples():
    done = doctest.testmod(ranks)
    assert done.attempted
    assert not done.failed


# Ranks by hand: a 1, 1, 1, 2; b 2, 2, 3, 1; c 3, 3, 2, 3. Their sums are 5, 8 and 11.
SCORES = {
    "c": {"w": 0.1, "x": 0.3, "y": 0.5, "z": 0.1},
    "a": {"w": 0.9, "x": 0.9, "y": 0.9, "z": 0.5},
    "b": {"w": 0.5, "x": 0.4, "y": 0.2, "z": 0.7},
}


def test_mean_ranks_and_friedmans_test_by_hand():
    found = rank(SCORES)
    assert found.ranks == {"a": 1.25, "b": 2.0, "c": 2.75}
    assert list(found.ranks) == ["a", "b", "c"]
    # 12 / (N k (k + 1)) sum R^2 - 3 N (k + 1) = 12 / 48 (25 + 64 + 121) - 48 = 4.5; chi-square, 2 degrees of
    # freedom: exp(-4.5 / 2).
    assert found.p_value == pytest.approx(math.exp(-2.25))
    assert found.num_tasks == 4


def test_equal_scores_share_their_ranks():
    found = rank({"a": {"x": 0.5, "y": 0.9}, "b": {"x": 0.5, "y": 0.8}, "c": {"x": 0.5, "y": 0.7}})
    assert found.ranks == {"a": 1.5, "b": 2.0, "c": 2.5}
    same = rank({name: {"x": 0.5, "y": 0.5} for name in "abc"})
    assert set(same.ranks.values()) == {2.0}
    assert same.p_value == 1.0
    assert rank({name: {"x": 0.5} for name in "ab"}).p_value is None


@pytest.mark.parametrize(("count", "quantile"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_has_the_quantiles_of_the_published_table(count, quantile):
    """Demsar, 2006, table 5(a), alpha 0.05."""
    expected = quantile * math.sqrt(count * (count + 1) / (6 * 14))
    assert critical_difference(count, 14) == pytest.approx(expected, abs=0.001)


def test_groups_that_may_be_alike():
    ranked = {"a": 1.0, "b": 1.5, "c": 2.9, "d": 3.0}
    assert Ranking(ranked, 0.01, 0.6, 9).alike() == [["a", "b"], ["c", "d"]]
    assert Ranking(ranked, 0.01, 1.45, 9).alike() == [["a", "b"], ["b", "c"], ["c", "d"]]
    assert Ranking(ranked, 0.01, 1.6, 9).alike() == [["a", "b"], ["b", "c", "d"]]
    assert Ranking(ranked, 0.01, 3.0, 9).alike() == [["a", "b", "c", "d"]]
    assert Ranking(ranked, 0.01, 0.05, 9).alike() == []
    assert Ranking(ranked, 0.01, 0.5, 9).alike() == [["c", "d"]]  # that a and b are just at


def test_what_cannot_be_ranked_is_said():
    for scores in ({}, {"a": {"x": 1}}, {"a": {"x": 1}, "b": {"y": 1}}, {"a": {}, "b": {}}):
        with pytest.raises(ValueError, match="`scores` must be for two or more models on the same tasks"):
            rank(scores)


def test_of_incomplete_scores_the_most_are_ranked():
    assert common({}) == common({"a": {"x": 1}}) == common({"a": {"x": 1}, "b": {"y": 1}}) == {}
    wide = {"a": {"x": 1, "y": 2, "z": 3}, "b": {"x": 1, "y": 2, "z": 3}, "c": {"x": 1}}
    assert set(common(wide)) == {"a", "b"}  # 6 scores; with c there would be 3
    tall = {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 2}, **{name: {"x": 1} for name in "cdef"}}
    assert set(common(tall)) == set("abcdef")  # 6 scores of one task against 4
    assert {task for found in common(tall).values() for task in found} == {"x"}


def test_the_plot_has_every_name_its_rank_and_a_bar_for_each_group():
    ranking = Ranking({"a": 1.2, "b": 1.6, "c": 3.2}, 0.02, 0.5, 8)
    figure = rank_plot.plot(ranking)
    (axis,) = figure.axes
    texts = " ".join(text.get_text() for text in axis.texts)
    for words in ("a  1.20", "b  1.60", "3.20  c", "critical difference 0.50"):
        assert words in texts
    bars = [line for line in axis.lines if line.get_linewidth() == 3]
    assert [bar.get_xdata().tolist() for bar in bars] == [[pytest.approx(1.16), pytest.approx(1.64)]]
    for name, value in ranking.ranks.items():  # a line goes from the rank to the name
        assert any(line.get_xdata()[0] == value and line.get_ydata()[0] == 0 for line in axis.lines), name
    plt.close(figure)
