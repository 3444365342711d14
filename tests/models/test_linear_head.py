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


def gradient(features, labels, kernel, bias, penalty, weights=None):
    """Of the objective in the docstring, by a loop over the examples; [D+1,C]."""
    mean, deviation = features.mean(0), features.std(0)
    total = np.zeros([NUM_FEATURES + 1, NUM_CLASSES])
    weights = np.ones(len(labels)) if weights is None else weights
    for x, label, weight in zip(features.astype("float64"), labels, weights, strict=True):
        logits = x @ kernel + bias
        error = np.exp(logits - logits.max())
        error /= error.sum()
        error[label] -= 1
        z = np.append((x - mean) / deviation, 1.0)
        total += weight * np.outer(z, error) / len(labels)
    total[:-1] += penalty * kernel * deviation[:, None]
    return total


@pytest.mark.parametrize("penalty", [1.0, 0.01])
def test_each_head_is_the_minimum_for_its_penalty(data, penalty):
    heads = linear_head.fit(*data, NUM_CLASSES, [1.0, penalty])
    assert [(kernel.shape, bias.shape) for kernel, bias in heads] == [((5, 3), (3,))] * 2
    found = gradient(*data, *heads[1], penalty)
    at_zero = gradient(*data, np.zeros([NUM_FEATURES, NUM_CLASSES]), np.zeros(NUM_CLASSES), penalty)
    assert abs(found).max() < 1e-3 < 0.05 < abs(at_zero).max()


def test_examples_count_by_their_weights(data):
    weights = np.random.default_rng(2).uniform(0, 4, NUM_EXAMPLES)
    ((kernel, bias),) = linear_head.fit(*data, NUM_CLASSES, [0.1], weights)
    assert abs(gradient(*data, kernel, bias, 0.1, weights)).max() < 1e-3
    assert abs(gradient(*data, kernel, bias, 0.1)).max() > 1e-2


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


@pytest.mark.parametrize("penalty", [1.0, 0.01])
def test_several_labels_are_a_regression_each(data, penalty):
    features, classes = data
    labels = np.stack([classes == 0, classes > 0, classes >= 0], axis=1).astype("float32")  # the last: always
    kernel, bias = linear_head.fit_several(features, labels, [1.0, penalty])[1]
    assert (kernel.shape, bias.shape) == ((5, 3), (3,))
    mean, deviation = features.mean(0), features.std(0)
    slope = np.zeros([NUM_FEATURES + 1, 3])
    for x, wanted in zip(features.astype("float64"), labels, strict=True):
        error = 1 / (1 + np.exp(-(x @ kernel + bias))) - wanted
        slope += np.outer(np.append((x - mean) / deviation, 1.0), error) / len(labels)
    slope[:-1] += penalty * kernel * deviation[:, None]
    assert abs(slope).max() < 1e-3
    np.testing.assert_allclose(kernel[:, 0], -kernel[:, 1], atol=1e-3)  # the two are opposites
    alone = linear_head.fit_several(features, labels[:, :1], [penalty])[0]
    np.testing.assert_allclose(alone[0][:, 0], kernel[:, 0], rtol=1e-2, atol=1e-3)
    assert (features @ kernel + bias)[:, 2].min() > 3


@pytest.mark.parametrize("penalty", [1.0, 0.01, 0.0])
def test_numbers_solve_the_equations_of_ridge_regression(data, penalty):
    features, classes = data
    wider = np.concatenate([features, features[:, :1], np.full([NUM_EXAMPLES, 1], 4.0)], axis=1)
    values = 20 + 3 * classes + features[:, 1]
    kernel, bias = linear_head.fit_numbers(wider, values, [1.0, penalty])[1]
    assert (kernel.shape, bias.shape) == ((7, 1), (1,))
    mean, deviation = wider.mean(0), wider.std(0)
    error = wider.astype("float64") @ kernel + bias - values[:, None]
    assert abs(error.mean()) < 1e-3
    for d in range(6):
        z = (wider[:, d] - mean[d]) / deviation[d]
        assert np.mean(z * error[:, 0]) + penalty * kernel[d, 0] * deviation[d] == pytest.approx(0, abs=2e-3)
    assert kernel[6, 0] == 0  # never changes
    assert kernel[5, 0] == pytest.approx(kernel[0, 0], rel=1e-3)  # twins share


def test_two_features_that_are_almost_alike_may_differ_in_what_matters():
    """Their difference has a ten-thousandth of their variance."""
    random = np.random.default_rng(0)
    first, noise = random.normal(size=[2, 200])
    features = np.stack([first, first + 0.01 * noise], axis=1)
    ((kernel, _),) = linear_head.fit_numbers(features, noise, [0.0])
    np.testing.assert_allclose(kernel[:, 0], [-100, 100], rtol=1e-3)


@pytest.mark.parametrize("kind", ["classes", "labels", "numbers"])
def test_with_fewer_examples_than_features_it_is_the_same_minimum(kind):
    """Of twins of each feature, which are one of twice the variance, and of one that never changes."""
    random = np.random.default_rng(0)
    features = random.normal(size=[12, 8]) + 3
    classes = np.arange(12) % 3
    fit, targets, arguments = {
        "classes": (linear_head.fit, classes, [3]),
        "labels": (linear_head.fit_several, np.eye(3)[classes], []),
        "numbers": (linear_head.fit_numbers, features[:, 0] + classes, []),
    }[kind]
    (few,) = fit(features, targets, *arguments, [0.1])
    wide = np.concatenate([features, 5 * features, np.full([12, 1], 7.0)], axis=1)  # 17 features
    (many,) = fit(wide, targets, *arguments, [0.2])
    assert many[0].shape == (17, few[0].shape[1])
    np.testing.assert_array_equal(many[0][-1], 0.0)
    np.testing.assert_allclose(many[0][:8], few[0] / 2, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(5 * many[0][8:16], few[0] / 2, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(wide @ many[0] + many[1], features @ few[0] + few[1], rtol=1e-3, atol=1e-3)


def test_with_penalty_0_of_all_solutions_the_shortest_is_found_however_many_features():
    random = np.random.default_rng(0)
    features, values = random.normal(size=[6, 20]), random.normal(size=6)
    kernel, _ = linear_head.fit_numbers(features, values, [0.0])[0]
    z = (features - features.mean(0)) / features.std(0)
    expected = np.linalg.pinv(z, 1e-6) @ (values - values.mean())
    np.testing.assert_allclose(kernel[:, 0] * features.std(0), expected, rtol=1e-3, atol=1e-4)
