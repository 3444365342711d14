"""What n-grams give by themselves: the parts that are read, and scores that can be told beforehand."""

import gzip
import json

import numpy as np
from scipy import sparse

from benchmarks.finetuning import ngrams
from benchmarks.scoring.sets import TextSet
from convnlp.models import Tokenizer, preset_names


def test_without_validation_texts_a_tenth_is_held_out(tmp_path):
    (tmp_path / "classification").mkdir()
    rows = [{"text": f"text {i}", "label": i % 2} for i in range(20)]
    with gzip.open(tmp_path / "classification" / "days.train.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    tokenizer = Tokenizer.from_preset(preset_names.locate("dynamic_conv_mini_en"))
    text_set = TextSet("days", "Days", 2, has_validation=False)
    (counts, labels), (held_out, answers) = ngrams.parts_of(text_set, str(tmp_path), tokenizer)
    assert (counts.shape, held_out.shape) == ((18, 65536), (2, 65536))
    assert (labels.tolist(), answers.tolist()) == ([0, 1] * 9, [0, 1])


def test_few_texts_are_the_first_ones():
    """The first two texts have the labels swapped, all others say what is right."""
    labels = np.array([1, 0] + [0, 1] * 20)
    buckets = np.array([0, 1] + [0, 1] * 20)
    counts = sparse.csr_array(np.eye(2)[buckets])
    held_out = sparse.csr_array(np.eye(2)), np.array([0, 1])
    assert ngrams.scores((counts, labels), held_out, 2, few=2) == ["0.0", "0.0", "100.0", "100.0"]
