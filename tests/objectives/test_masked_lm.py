"""Masked LM: where, what and how often."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp.models import Tokenizer
from convnlp.objectives import Seeds, build_objectives, masked_lm
from tests import corpus

MASK, NUM_TEXT_TOKENS, END = 119, 100, 1


def masked(tokens, seed=(0, 1), **kwargs):
    values = masked_lm.mask(tf.constant(tokens), seed, MASK, NUM_TEXT_TOKENS, **kwargs)
    return [value.numpy() for value in values]


def test_targets_are_what_stood_at_the_positions():
    tokens = np.random.default_rng(0).integers(3, NUM_TEXT_TOKENS, [40, 64], "int32")
    rows, positions, targets = masked(tokens)
    assert positions.shape == targets.shape == (40, round(0.15 * 64))
    np.testing.assert_array_equal(targets, np.take_along_axis(tokens, positions, axis=1))
    assert (np.diff(positions, axis=1) > 0).all()  # ascending, each place once
    changed = rows.copy()
    np.put_along_axis(changed, positions, targets, axis=1)
    np.testing.assert_array_equal(changed, tokens)  # nothing else has changed


def test_four_of_five_are_masked():
    tokens = np.full([2000, 20], 50, "int32")
    rows, positions, _ = masked(tokens, noise_density=0.5)
    values = np.take_along_axis(rows, positions, axis=1).ravel()
    assert values.size == 20000
    # Standard deviations of shares of 20,000 draws are below 0.003; five of them are not passed by chance.
    assert abs((values == MASK).mean() - 0.8) < 0.015
    assert abs((values == 50).mean() - (0.1 + 0.1 / 97)) < 0.015
    other = values[(values != MASK) & (values != 50)]
    assert abs(other.size / values.size - 0.1) < 0.015
    assert other.min() == 3  # after pad, end and unknown
    assert other.max() == NUM_TEXT_TOKENS - 1
    counts = np.bincount(positions.ravel(), minlength=20)
    assert np.abs(counts / 2000 - 0.5).max() < 0.06  # standard deviation 0.011


def test_ends_of_documents_are_not_predicted_while_there_is_text():
    tokens = np.full([100, 20], 50, "int32")
    tokens[:, ::2] = END
    _, _, targets = masked(tokens, noise_density=0.5)
    assert (targets == 50).all()
    _, _, targets = masked(tokens, noise_density=0.6)
    np.testing.assert_array_equal((targets == END).sum(axis=1), 2)


def test_the_seed_decides():
    tokens = np.full([4, 64], 50, "int32")
    one, same, other = (masked(tokens, (0, seed))[1] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_the_first_sentinel_is_the_mask_and_no_other_is_drawn():
    tokenizer = Tokenizer(corpus.tiny_proto(), num_sentinels=20)
    assert masked_lm.replacements(tokenizer) == {"mask_token_id": MASK, "num_text_tokens": NUM_TEXT_TOKENS}


@pytest.mark.parametrize("name", ["masked_lm", "unilm"])
def test_a_tokenizer_without_a_mask_is_refused(name):
    (objective,) = build_objectives([name], 16)
    tokenizer, seed = Tokenizer(corpus.tiny_proto(), num_sentinels=0), tf.constant([0, 1], tf.int64)
    with pytest.raises(ValueError, match=r"^`tokenizer` must have a sentinel, which stands for the mask"):
        objective.examples(tf.fill([2, 16], 5), Seeds(seed, seed), tokenizer)


@pytest.mark.parametrize("density", [0.0, 1.0])
def test_extreme_settings_are_refused(density):
    message = rf"`noise_density` must be a number in \(0, 1\)\. Received: noise_density={density}"
    with pytest.raises(ValueError, match=message):
        masked_lm.num_predictions(10, density)
