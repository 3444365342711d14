"""The fitted head against what makes a minimum of a convex function: a gradient of zero."""

import numpy as np
import pytest

from convnlp.models import linear_head

NUM_EXAMPLES, NUM_FEATURES, NUM_CLASSES = 60, 5, 3


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    features = random.normal(size=[NUM_EXAMPLES, NUM_FEATURES]) * [1, 10, 0.1, 3, 1] + [0, 5, -2, 100, 0]
    labels = (features[:, 0] + features[:, 1] / 10 + random.gumbel(size=NUM_EXAMPLES) > 0).astype(int)
    labels[features[:, 2] > -1.95] = 2
    return features.astype("float32"), labels


def gradient(features, labels, kernel, bias, penalty):
    """Of the objective in the docstring, by a loop over the examples; [D+1,C]."""
    mean, deviation = features.mean(0), features.std(0)
    total = np.zeros([NUM_FEATURES + 1, NUM_CLASSES])
    for x, label in zip(features.astype("float64"), labels, strict=True):
        logits = x @ kernel + bias
        error = np.exp(logits - logits.max())
        error /= error.sum()
        error[label] -= 1
        z = np.append((x - mean) / deviation, 1.0)
        total += np.outer(z, error) / len(labels)
    total[:-1] += penalty * kernel * deviation[:, None]
    return total


@pytest.mark.parametrize("penalty", [1.0, 0.01])
def test_each_head_is_the_minimum_for_its_penalty(data, penalty):
    heads = linear_head.fit(*data, NUM_CLASSES, [1.0, penalty])
    assert [(kernel.shape, bias.shape) for kernel, bias in heads] == [((5, 3), (3,))] * 2
    found = gradient(*data, *heads[1], penalty)
    at_zero = gradient(*data, np.zeros([NUM_FEATURES, NUM_CLASSES]), np.zeros(NUM_CLASSES), penalty)
    assert abs(found).max() < 1e-3 < 0.05 < abs(at_zero).max()


def test_the_order_of_examples_and_the_scale_of_features_play_no_part(data):
    features, labels = data
    ((kernel, bias),) = linear_head.fit(features, labels, NUM_CLASSES, [0.1])
    order = np.random.default_rng(1).permutation(len(labels))
    ((other, shifted),) = linear_head.fit(7 * features[order] - 3, labels[order], NUM_CLASSES, [0.1])
    np.testing.assert_allclose(
        (7 * features - 3) @ other + shifted, features @ kernel + bias, rtol=1e-3, atol=1e-3
    )


def test_a_feature_that_never_changes_takes_no_part(data):
    features, labels = data
    ((kernel, bias),) = linear_head.fit(features, labels, NUM_CLASSES, [0.1])
    wider = np.concatenate([features, np.full([NUM_EXAMPLES, 1], 4.0)], axis=1)
    ((other, shifted),) = linear_head.fit(wider, labels, NUM_CLASSES, [0.1])
    np.testing.assert_array_equal(other[-1], 0.0)
    np.testing.assert_allclose(wider @ other + shifted, features @ kernel + bias, rtol=1e-4, atol=1e-4)
