"""Linear classifiers that are joined by folds: against plain loops, and against labels that mean nothing."""

import types

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse, special

from convnlp import tasks
from convnlp.configs import common
from convnlp.data import Label, MultiLabel, Number, Source, examples
from convnlp.models import Tokenizer, linear_head
from convnlp.tasks import Classification, MultiLabelClassification, Regression, cross_fitting
from convnlp.tasks.classification import heads, joint, ngrams
from tests import corpus

NUM_EXAMPLES, NUM_CLASSES, NUM_BUCKETS = 120, 3, 40
PENALTIES, NGRAM_PENALTIES = (1.0, 0.1), (0.3, 0.03)


def fit_vectors(features, labels, penalties):
    return linear_head.fit(features, labels, NUM_CLASSES, penalties)


def fit_counts(counts, labels, penalties):
    return ngrams.fit(counts, labels, NUM_CLASSES, penalties)


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(0).integers(0, NUM_CLASSES, NUM_EXAMPLES)


@pytest.fixture(scope="module")
def parts(labels):
    random = np.random.default_rng(1)
    features = random.normal(size=[NUM_EXAMPLES, 6]) + 2 * np.eye(6)[labels]
    counts = random.poisson(0.1, [NUM_EXAMPLES, NUM_BUCKETS]) + 0.5 * np.eye(NUM_BUCKETS)[labels]
    return [
        heads.Part("", features.astype("float32"), fit_vectors, PENALTIES),
        heads.Part("ngram_", sparse.csr_array(counts), fit_counts, NGRAM_PENALTIES),
    ]


@pytest.fixture(scope="module")
def fold_of():
    return np.random.default_rng(2).permutation(np.arange(NUM_EXAMPLES) % 5)


def out_of_fold(parts, labels, fold_of):
    """By a loop over the examples: [P,h,C] of each part."""
    answers = [np.full([len(part.penalties), len(labels), NUM_CLASSES], np.nan) for part in parts]
    for n in np.flatnonzero(fold_of >= 0):
        seen = [m for m in range(len(labels)) if fold_of[m] != fold_of[n]]
        for part, found in zip(parts, answers, strict=True):
            dense = part.features if isinstance(part.features, np.ndarray) else part.features.toarray()
            for p, (kernel, bias) in enumerate(part.fit(part.features[seen], labels[seen], part.penalties)):
                found[p, n] = dense[n] @ kernel + bias
    return [found[:, fold_of >= 0] for found in answers]


def test_the_outputs_are_those_of_a_plain_loop(parts, labels, fold_of):
    keep = np.arange(30)  # a fit for each example in the loop
    few = [heads.Part(p.name, p.features[keep], p.fit, p.penalties) for p in parts]
    found = heads.fit(few, labels[keep], fold_of[keep])
    expected = out_of_fold(few, labels[keep], fold_of[keep])
    for n in keep:
        others = fold_of[keep] != fold_of[n]
        best = joint.choose([each[:, others] for each in expected], labels[keep][others])
        logits = sum(
            share * each[index, n]
            for share, index, each in zip(best.shares, best.chosen, expected, strict=True)
        )
        np.testing.assert_allclose(found.outputs[n], logits, rtol=1e-4, atol=1e-4)


def test_the_weights_are_fitted_to_all_examples(parts, labels, fold_of):
    found = heads.fit(parts, labels, fold_of)
    for part, (kernel, bias) in zip(parts, found.weights, strict=True):
        penalty = found.chosen[f"{part.name}penalty"]
        assert penalty in part.penalties
        ((expected, expected_bias),) = part.fit(part.features, labels, [penalty])
        np.testing.assert_array_equal(kernel, expected)
        np.testing.assert_array_equal(bias, expected_bias)
    assert found.chosen["share"] == found.shares[0]
    assert found.chosen["ngram_share"] == found.shares[1] > 0


@pytest.mark.parametrize("which", [0, 1])
def test_labels_of_a_fold_do_not_reach_what_answers_it(parts, labels, fold_of, which):
    wrong = np.where(fold_of == 3, (labels + 1) % NUM_CLASSES, labels)
    before, after = (heads._answers(parts[which], given, fold_of) for given in (labels, wrong))
    np.testing.assert_array_equal(before[:, fold_of == 3], after[:, fold_of == 3])
    assert np.abs(before - after)[:, fold_of != 3].max() > 0.1


def test_labels_that_mean_nothing_are_fitted_and_not_foretold():
    random = np.random.default_rng(4)
    features, labels = random.normal(size=[400, 500]), random.integers(0, 2, 400)
    part = heads.Part("", features, lambda *given: linear_head.fit(*given[:2], 2, given[2]), (0.1, 0.01))
    found = heads.fit([part], labels, np.arange(400) % 5)
    ((kernel, bias),) = found.weights
    assert np.mean((features @ kernel + bias).argmax(1) == labels) > 0.95
    # Three standard deviations of 400 coins are 0.075.
    assert abs(np.mean(found.outputs.argmax(1) == labels) - 0.5) < 0.075


def test_with_many_examples_two_small_folds_are_held_out(labels, monkeypatch):
    """Of two equal texts, one must not choose for the other."""
    numbers = np.arange(NUM_EXAMPLES) // 2 + 3
    rows = tf.ragged.constant([[number, 1] for number in numbers], tf.int32)
    found = examples.Examples((rows,), (8,), labels)
    assert sorted(np.unique(cross_fitting.folds(found))) == [0, 1, 2, 3, 4]
    monkeypatch.setattr(cross_fitting, "MAX_CROSS_FITTED", NUM_EXAMPLES - 1)
    fold_of = cross_fitting.folds(found)
    assert sorted(np.unique(fold_of)) == [-1, 0, 1]
    np.testing.assert_array_equal(fold_of[::2], fold_of[1::2])
    assert np.mean(fold_of >= 0) == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize(("number", "parts"), [(5_000, [0, 1, 2, 3, 4]), (5_001, [-1, 0, 1])])
def test_up_to_five_thousand_examples_are_all_held_out(number, parts):
    rows = tf.RaggedTensor.from_tensor(tf.range(number)[:, tf.newaxis])
    found = examples.Examples((rows,), (1,), np.arange(number) % 2)
    assert np.unique(cross_fitting.folds(found)).tolist() == parts


def test_the_candidate_of_the_smallest_loss_is_chosen_however_sure_it_is(labels):
    random = np.random.default_rng(5)
    good, bad = (
        np.eye(NUM_CLASSES)[labels] * size + random.normal(size=[NUM_EXAMPLES, 3]) for size in (2, 1)
    )
    candidates = np.stack([bad, 30 * good, bad])  # the good one is far too sure: its loss is the largest
    found = joint.choose([candidates, np.zeros([1, NUM_EXAMPLES, 3])], labels)
    assert found.chosen == (1, 0)
    losses = [
        [
            -np.mean(special.log_softmax(share * each, axis=1)[np.arange(NUM_EXAMPLES), labels])
            for share in np.geomspace(0.01, 1, 200)
        ]
        for each in candidates
    ]
    assert np.argmin(np.min(losses, 1)) == 1 != np.argmin(np.array(losses)[:, -1])
    logits = found.logits([candidates, np.zeros([1, NUM_EXAMPLES, 3])])
    np.testing.assert_allclose(logits, found.shares[0] * 30 * good)


def test_the_weights_of_classes_hold_for_a_head_alone(tmp_path, fold_of):
    """One text in ten is of the rare class, and its vector says hardly more than that."""
    rows = [{"text": "x", "label": "rare" if n % 10 == 0 else "often"} for n in range(NUM_EXAMPLES)]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    config = common.get_config()
    config.data.input_length = 8
    config.task.options.ngram_buckets = 0
    taken = []
    model = types.SimpleNamespace(head=types.SimpleNamespace(set_weights=taken.append))

    def share_of_rare(class_weights):
        config.task.options.class_weights = class_weights
        task = tasks.build_task(config, Tokenizer(corpus.tiny_proto()), source)
        found = task.read(source)
        is_rare = found.labels == task.label.names.index("rare")
        features = np.random.default_rng(6).normal(size=[NUM_EXAMPLES, 2]) + 0.3 * is_rare[:, None]
        _, chosen, _ = task.fitted(model, found, features, fold_of, (0.1,))
        part = heads.Part("", features, task.linear_heads, (0.1,))
        assert chosen == heads.fit([part], found.labels, fold_of).chosen  # where all examples count equally
        counts = sparse.csr_array(np.random.default_rng(7).poisson(0.5, [NUM_EXAMPLES, 9]).astype(float))
        weights = None if class_weights is None else np.where(is_rare, 5.0, 5 / 9)
        ((table, _),) = task._ngram_heads(counts, found.labels, (0.1,))
        ((expected, _),) = ngrams.fit(counts, found.labels, 2, (0.1,), weights)
        np.testing.assert_allclose(table, expected, rtol=1e-4, atol=1e-6)
        kernel, bias = taken[-1]
        return np.mean((features @ kernel + bias).argmax(1) == task.label.names.index("rare"))

    assert share_of_rare(None) < 0.05
    assert 0.25 < share_of_rare("balanced") < 0.75


def test_each_answer_is_of_what_has_not_seen_it():
    fold_of, asked = np.array([1, -1, 0, 1, 2, 0]), []

    def answer(is_seen, is_asked):
        assert not (is_seen & is_asked).any()
        assert (is_seen | is_asked).all()
        asked.append(np.flatnonzero(is_asked).tolist())
        return np.flatnonzero(is_asked)[:, None] * 10.0

    np.testing.assert_array_equal(cross_fitting.in_turn(answer, fold_of)[:, 0], [0, 20, 30, 40, 50])
    assert asked == [[2, 5], [0, 3], [4]]


class Head:
    """A model whose head alone matters here."""

    def __init__(self):
        self.head = types.SimpleNamespace(set_weights=lambda weights: setattr(self, "weights", weights))

    def answers(self, features):
        kernel, bias = self.weights
        return features @ kernel + bias


def labelled(labels):
    rows = tf.ragged.constant([[number, 1] for number in range(3, 3 + len(labels))], tf.int32)
    return examples.Examples((rows,), (8,), labels)


def noisy():
    """Vectors and numbers that hang together a little: no extreme penalty is best."""
    random = np.random.default_rng(0)
    features = random.normal(size=[40, 8])
    return features, features[:, :3].sum(1) + 1.5 * random.normal(size=40)


def a_regression(values):
    """Returns a task, its labels, their mean and scale, a fit to them, and how good outputs are."""
    labels = (300 + 50 * values).astype("float32")
    mean, scale = float(labels.mean()), float(labels.std())
    task = Regression(tokenizer=None, sequence_length=8, label=Number("label"), mean=mean, scale=scale)

    def fit(features, labels, penalties):
        return linear_head.fit_numbers(features, (labels - mean) / scale, penalties)

    return task, labels, mean, scale, fit, lambda found, labels: -np.mean((found[:, 0] - labels) ** 2)


def a_classification_of_several(values):
    labels = np.stack([values > 0, values > 1], 1).astype("float32")
    task = MultiLabelClassification(tokenizer=None, sequence_length=8, label=MultiLabel("label", ("a", "b")))

    def rank(outputs, labels):
        f1 = 2 * np.sum((outputs >= 0) * labels, 0) / (np.sum(outputs >= 0, 0) + np.sum(labels, 0))
        return np.mean(f1), -np.mean(np.log1p(np.exp((1 - 2 * labels) * outputs)))

    return task, labels, 0.0, 1.0, linear_head.fit_several, rank


@pytest.mark.parametrize("kind", [a_regression, a_classification_of_several])
def test_what_is_fitted_and_how_it_answers_others_is_that_of_a_plain_loop(kind, fold_of):
    features, values = noisy()
    task, labels, mean, scale, fit, rank = kind(values)
    penalties = (100.0, 10.0, 1.0, 0.1, 0.01)
    fold_of = fold_of[:40]
    by_penalty = np.empty([5, 40, labels[0].size])
    for fold in set(fold_of):
        is_asked = fold_of == fold
        for number, (kernel, bias) in enumerate(fit(features[~is_asked], labels[~is_asked], penalties)):
            by_penalty[number, is_asked] = (features[is_asked] @ kernel + bias) * scale + mean

    def best(places):
        return max(range(5), key=lambda p: rank(by_penalty[p, places], labels[places]))

    expected = np.empty_like(by_penalty[0])
    for fold in set(fold_of):
        expected[fold_of == fold] = by_penalty[best(fold_of != fold), fold_of == fold]
    assert any(best(fold_of == fold) != best(fold_of != fold) for fold in set(fold_of))
    model, chosen, outputs = task.fitted(Head(), labelled(labels), features, fold_of, penalties)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5)
    assert chosen == {"penalty": penalties[best(slice(None))]}
    assert chosen["penalty"] not in (penalties[0], penalties[-1])
    ((kernel, bias),) = fit(features, labels, [chosen["penalty"]])
    np.testing.assert_allclose(model.answers(features), features @ kernel + bias, rtol=1e-5)


def test_of_labels_found_alike_the_smaller_loss_is_better():
    task = MultiLabelClassification(tokenizer=None, sequence_length=8, label=MultiLabel("label", ("a", "b")))
    labels = np.array([[1, 0], [1, 1], [0, 1], [0, 1]], "float32")
    sure, unsure = (size * np.where(labels, 1.0, -1.0) for size in (2, 1))
    wrong = np.where([[1, 1]] * 3 + [[1, 0]], 9 * sure, -0.01)  # of a smaller loss than the unsure ones
    ranks = [task.head_rank(outputs, labels) for outputs in (sure, unsure, wrong)]
    assert ranks[0] > ranks[1] > ranks[2]
    assert ranks[1][-1] < ranks[2][-1]


def test_a_classifier_without_n_grams_is_as_sure_as_the_folds_let_it_be(parts, labels, fold_of):
    task = Classification(
        tokenizer=None, sequence_length=8, label=Label("label", names=tuple("abc")), ngram_buckets=0
    )
    features = parts[0].features
    model, chosen, outputs = task.fitted(Head(), labelled(labels), features, fold_of, PENALTIES)
    best = heads.fit(parts[:1], labels, fold_of)
    assert chosen == best.chosen
    np.testing.assert_array_equal(outputs, best.outputs)
    ((kernel, bias),), (share,) = best.weights, best.shares
    assert abs(share - 1) > 0.01
    np.testing.assert_allclose(
        model.answers(features), share * (features @ kernel + bias), rtol=1e-4, atol=1e-4
    )
