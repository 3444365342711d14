"""Against one sentence, one hidden token and one softmax at a time."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.judging import pseudo_likelihood
from tests.small_classifier import small_classifier

SENTENCES = [
    "The old river crosses the valley.",
    "A quiet",
    "",
    "Every narrow bridge and every old bridge crosses the quiet valley by the river.",
]


@pytest.fixture(scope="module")
def model():
    return small_classifier(["dynamic_conv", "self_attention"], 64, ["a", "b"])


def one_at_a_time(backbone, tokenizer, sentence):
    """The definition."""
    tokens = [tokenizer.end_token_id, *tokenizer(sentence).numpy().tolist(), tokenizer.end_token_id]
    total = 0.0
    for position in range(1, len(tokens) - 1):
        row = np.array([tokens], "int32")
        row[0, position] = tokenizer.sentinel_token_ids[0]
        hidden = backbone.encode(row)[0, position]
        logits = np.float64(tf.linalg.matvec(backbone.token_embedding.embeddings, hidden))
        total += logits[tokens[position]] - np.log(np.sum(np.exp(logits)))
    return total


@pytest.mark.slow
def test_the_sum_over_tokens(model, monkeypatch):
    backbone, tokenizer = model.backbone, model.preprocessor.tokenizer
    monkeypatch.setattr(pseudo_likelihood, "_BATCH_TOKENS", 48)  # several batches, the last ones not full
    found = pseudo_likelihood.pseudo_log_likelihoods(backbone, tokenizer, SENTENCES)
    expected = [one_at_a_time(backbone, tokenizer, sentence) for sentence in SENTENCES]
    assert expected[2] == 0.0
    assert min(np.abs(np.diff(expected))) > 1
    np.testing.assert_allclose(found, expected, rtol=1e-5)
