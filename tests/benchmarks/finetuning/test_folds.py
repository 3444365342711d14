"""What folds give: which texts judge, both ways on texts that are easy, and the figures of the table."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from benchmarks.finetuning import folds
from benchmarks.scoring.sets import SETS
from convnlp.data import validation
from convnlp.data.examples import Examples
from convnlp.tasks import cross_fitting


def test_no_text_that_judges_is_learned_from():
    assert folds.splits(SETS["sst2"], "1000") == (("train", "train[:1000]"), ("train", "train[-3000:]"))
    assert folds.splits(SETS["sst2"], "all") == (("train", "train"), ("valid", "train"))
    assert folds.splits(SETS["trec6"], "all") == (("train", "train[:90%]"), ("train", "train[90%:]"))
    for name in folds.NAMES:
        assert "test" not in {part for size in ("1000", "all") for part, _ in folds.splits(SETS[name], size)}


@pytest.fixture
def easy():
    """Four of five texts have a vector and a bucket of their class."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 300)
    told = np.where(random.random(300) < 0.8, labels, random.integers(0, 3, 300))
    vectors = (3 * np.eye(8)[told] + random.normal(size=[300, 8])).astype("float32")
    counts = sparse.csr_array(np.eye(64)[told] + np.eye(64)[3 + np.arange(300) % 61])
    rows = tf.ragged.constant([[3 + number, 1] for number in range(300)], tf.int32)
    return Examples((rows,), (8,), labels), vectors, counts


@pytest.mark.parametrize("way", [folds.held_out, folds.folded])
def test_both_ways_learn_what_is_told(easy, way):
    found, vectors, counts = easy
    seen, unseen = np.arange(200), np.arange(200, 300)
    train = found.take(seen), vectors[seen], counts[seen], np.zeros(200, np.uint64)
    logits = way(*train, (vectors[unseen], counts[unseen]), 3)
    assert logits.shape == (100, 3)
    assert np.mean(logits.argmax(1) == found.labels[unseen]) > 0.75


@pytest.mark.parametrize(("way", "choice"), [("held_out", validation), ("folded", cross_fitting)])
def test_texts_that_are_alike_stay_together(easy, monkeypatch, way, choice):
    found, vectors, counts = easy
    name = {"held_out": "choose", "folded": "folds"}[way]
    chosen, original = [], getattr(choice, name)
    monkeypatch.setattr(choice, name, lambda *given: chosen.append(original(*given)) or chosen[-1])
    alike = np.repeat(np.arange(1, 151, dtype=np.uint64), 2)
    getattr(folds, way)(found, vectors, counts, alike, (vectors, counts), 3)
    first, second = chosen[0].reshape(-1, 2).T
    np.testing.assert_array_equal(first, second)


def test_the_figures_of_the_table():
    before, after = np.zeros([2, 100], bool)
    before[:50], after[10:70] = True, True  # 10 lost, 20 won
    lines = folds.table({"Days": (before, after), "Nights": (before, before)}, "1000").splitlines()
    assert lines[0] == "| 1,000 texts | unseen texts | some held out | folds | gain |"
    # Of 0, -1 and +1 the variance is 0.3 - 0.1 ** 2.
    error = 100 * (0.29 * 100 / 99) ** 0.5 / 10
    assert lines[2] == f"| Days | 100 | 50.0 | 60.0 | +10.0 ± {error:.1f} |"
    assert lines[3] == "| Nights | 100 | 50.0 | 50.0 | +0.0 ± 0.0 |"
    assert lines[4] == f"| mean |  | 50.0 | 55.0 | +5.0 ± {error / 2:.1f} |"
