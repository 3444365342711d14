import pytest

from benchmarks.comparison.rates import best_rate


def test_the_highest_score_counts_and_one_that_diverged_does_not():
    found = [(1.0, 0.5), (2.0, 0.7), (3.0, None), (4.0, 0.6)]
    assert best_rate([{"learning_rate": rate, "score": score} for rate, score in found]) == 2.0


def test_of_equal_scores_the_first_counts():
    assert best_rate([{"learning_rate": rate, "score": 0.5} for rate in (3.0, 1.0)]) == 3.0


def test_that_all_diverged_is_said():
    with pytest.raises(ValueError, match=r"`learning_rates` must hold one .*Received: \[1.0, 2.0\]"):
        best_rate([{"learning_rate": rate, "score": None} for rate in (1.0, 2.0)])
