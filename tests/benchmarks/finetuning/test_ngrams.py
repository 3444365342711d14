"""What n-grams give by themselves: the parts that are read, and scores that can be told beforehand."""

import gzip
import json

import numpy as np
import tensorflow as tf

from benchmarks.finetuning import ngrams
from benchmarks.scoring.sets import TextSet
from convnlp.data.examples import Examples
from convnlp.models import Tokenizer, preset_names


def test_without_validation_texts_a_tenth_is_held_out(tmp_path):
    (tmp_path / "classification").mkdir()
    rows = [{"text": f"text {i}", "label": i % 2} for i in range(20)]
    with gzip.open(tmp_path / "classification" / "days.train.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    tokenizer = Tokenizer.from_preset(preset_names.locate("dynamic_conv_mini_en"))
    text_set = TextSet("days", "Days", 2, has_validation=False)
    train, validation = ngrams.parts_of(text_set, str(tmp_path), tokenizer)
    assert (train.labels.tolist(), validation.labels.tolist()) == ([0, 1] * 9, [0, 1])


def test_few_texts_are_the_first_ones():
    """The first two texts have the labels swapped, all others say what is right."""
    train, validation = (
        Examples((tf.ragged.constant([[5 + each] for each in tokens], tf.int32),), (4,), np.array(labels))
        for tokens, labels in (([0, 1] + [0, 1] * 20, [1, 0] + [0, 1] * 20), ([0, 1], [0, 1]))
    )
    assert ngrams.scores(train, validation, 2, few=2) == ["0.0", "0.0", "100.0", "100.0"]
