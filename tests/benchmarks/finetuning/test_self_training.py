"""What texts without labels give: which texts do what, a whole cell on easy texts, and the table."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.finetuning import folds, self_training
from convnlp.data.examples import Examples
from convnlp.models import Tokenizer
from convnlp.tasks import cross_fitting
from tests import corpus


@pytest.mark.parametrize("count", [22_188, 5_452, 300])
def test_each_text_does_one_thing(count):
    labelled, unseen, others = self_training.divided(count, 100, 1)
    assert sorted(np.concatenate([labelled, unseen, others])) == list(range(count))
    assert (len(labelled), len(unseen)) == (100, min(3_000, (count - 100) // 3))
    assert (self_training.divided(count, 100, 2)[0] != labelled).any()


def test_a_cell_learns_from_the_others_and_leaves_out_what_is_labelled(monkeypatch):
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 900)
    vectors = (2 * np.eye(8)[labels] + random.normal(size=[900, 8])).astype("float32")
    rows = [[*random.integers(3, 100, 8), 1] for _ in range(900)]
    labelled, unseen, others = self_training.divided(900, 60, 1)
    rows[others[0]], rows[others[1]] = rows[labelled[0]], rows[unseen[0]]
    tokenizer, chosen, original = Tokenizer(corpus.tiny_proto()), [], cross_fitting.folds
    monkeypatch.setattr(cross_fitting, "folds", lambda *given: chosen.append(original(*given)) or chosen[-1])
    choosing, features = [], folds.ngram_features  # the texts that choose the n-grams
    monkeypatch.setattr(
        folds, "ngram_features", lambda part, *given: choosing.append(part) or features(part, *given)
    )
    text = "The old river. The old garden"
    for place in range(1, 21):  # alike, but for the punctuation
        rows[labelled[place]] = tokenizer(text + "." * place).numpy().tolist()
    found = Examples((tf.ragged.constant(rows, tf.int32),), (16,), labels)
    cell = self_training.cell(found, vectors, 3, 60, 1, tokenizer)
    assert len({*chosen[0][1:21]}) == 1
    assert [part.columns[0].to_list() for part in choosing] == [[rows[place] for place in labelled]]
    assert cell["num_texts"] == len(others) - 2
    assert [len(each) for each in cell["right"]] == [280, 280]
    assert np.mean(cell["right"], 1).min() > 0.8
    assert cell["line"].startswith("self-training: 558 texts answered, ")


def test_the_table_pairs_the_texts_of_all_seeds():
    cells = {
        ("sst5", 1): {
            "num_texts": 2_000,
            "shares": [0.5, 0.0, 0.2],
            "right": [[True, False] * 50, [True] * 100],
        },
        ("sst5", 2): {
            "num_texts": 2_002,
            "shares": [1.0, 0.0, 0.0],
            "right": [[True, False] * 50, [True, False] * 50],
        },
    }
    error = 100 * (0.25 * 0.75 / 199) ** 0.5
    assert self_training.table(cells).splitlines()[2:] == [
        f"| SST-5 | 2,001 | 100 and 100 | 50.0 | 75.0 | +25.0 ± {error:.1f} | yes and no |"
    ]
