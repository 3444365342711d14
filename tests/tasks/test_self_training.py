"""Self-training: against plain loops, with texts that help, and with texts that mislead."""

import numpy as np
import pytest
from scipy import sparse, special

from convnlp.models import linear_head
from convnlp.tasks.classification import heads, joint, ngrams, self_training

NUM_CLASSES, NUM_BUCKETS = 3, 60


def fit_vectors(features, labels, penalties):
    return linear_head.fit(features, labels, NUM_CLASSES, penalties)


def fit_counts(counts, labels, penalties):
    return ngrams.fit(counts, labels, NUM_CLASSES, penalties)


def texts_of(labels, seed, strength=1.2):
    """Returns vectors float32 [N,8] and counts [N,M] of texts with five words, most of them of their class.

    Each class has words of its own, each of them rare: few labels do not show them all.
    """
    random = np.random.default_rng(seed)
    vectors = random.normal(size=[len(labels), 8]) + strength * np.eye(8)[labels]
    words = random.integers(0, NUM_BUCKETS // NUM_CLASSES, [len(labels), 5]) * NUM_CLASSES
    is_own = random.random(words.shape) < 0.5
    words += np.where(is_own, labels[:, None], random.integers(0, NUM_CLASSES, words.shape))
    counts = np.zeros([len(labels), NUM_BUCKETS])
    np.add.at(counts, (np.arange(len(labels))[:, None], words), 1 / np.sqrt(5))
    return vectors.astype("float32"), sparse.csr_array(counts)


def parts_of(vectors, counts):
    return [
        heads.Part("", vectors, fit_vectors, (1.0, 0.1)),
        heads.Part("ngram_", counts, fit_counts, (0.3, 0.03)),
    ]


def some_labels(count, seed):
    return np.random.default_rng(seed).integers(0, NUM_CLASSES, count)


@pytest.fixture(scope="module")
def labels():
    return some_labels(60, 0)


@pytest.fixture(scope="module")
def parts(labels):
    return parts_of(*texts_of(labels, 1))


@pytest.fixture(scope="module")
def fold_of():
    return np.random.default_rng(2).permutation(np.arange(60) % 5)


@pytest.fixture(scope="module")
def before(parts, labels, fold_of):
    return heads.fit(parts, labels, fold_of)


@pytest.fixture(scope="module")
def helpful():
    return texts_of(some_labels(1_000, 3), 4)


@pytest.fixture(scope="module")
def misleading(before):
    """Texts whose vectors point to a class, and whose words are those of the next one, by far."""
    random, labels = np.random.default_rng(5), some_labels(1_000, 6)
    vectors, _ = texts_of(labels, 7, strength=40.0)
    words = random.integers(0, NUM_BUCKETS // NUM_CLASSES, 1_000) * NUM_CLASSES + (labels + 1) % NUM_CLASSES
    return vectors, sparse.csr_array(np.eye(NUM_BUCKETS)[words])


def logits_of(weights, shares, features):
    return sum(
        share * (x @ kernel + bias)
        for share, (kernel, bias), x in zip(shares, weights, features, strict=True)
    )


def plainly_taught(parts, labels, weights, shares, unlabelled):
    """Returns the new classifiers by a loop over the texts."""
    logits = logits_of(weights, shares, unlabelled)
    answers = [max(range(NUM_CLASSES), key=row.__getitem__) for row in logits]
    sureness = [1 / np.sum(np.exp(row - row.max())) for row in logits]
    taken = []
    for label in range(NUM_CLASSES):
        own = [n for n, answer in enumerate(answers) if answer == label]
        own.sort(key=lambda n: -sureness[n])
        taken += own[: round(0.8 * len(own))]
    taken.sort()
    new = []
    for part, more in zip(parts, unlabelled, strict=True):
        dense = [x if isinstance(x, np.ndarray) else x.toarray() for x in (part.features, more)]
        rows = np.concatenate([dense[0], dense[1][taken]])
        rows = rows if isinstance(more, np.ndarray) else sparse.csr_array(rows)
        new += part.fit(rows, np.concatenate([labels, np.array(answers)[taken]]), [0.1])
    return new, taken


def test_the_surest_of_each_class_are_those_of_a_plain_loop():
    logits = np.random.default_rng(0).normal(size=[203, 5]) * [1, 1, 1, 1, 3]  # some classes are rare
    logits[:, 0] -= 9  # and one has no text
    answers = [int(row.argmax()) for row in logits]
    expected = []
    for label in range(5):
        own = [n for n in range(203) if answers[n] == label]
        chances = [np.exp(logits[n, label]) / np.exp(logits[n]).sum() for n in own]
        ranks = [sum(other > chance for other in chances) for chance in chances]
        expected += [n for n, rank in zip(own, ranks, strict=True) if rank < round(0.8 * len(own))]
    found = self_training.surest(logits)
    assert found.tolist() == sorted(expected)
    assert {answers[n] for n in found} == {1, 2, 3, 4}


def test_the_result_is_that_of_a_plain_loop(parts, labels, fold_of, before, helpful):
    found, report = self_training.teach(before, parts, labels, fold_of, helpful)
    members = [np.empty([60, NUM_CLASSES]) for _ in range(3)]
    for fold in range(5):
        seen, asked = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        own = [heads.Part(p.name, p.features[seen], p.fit, p.penalties) for p in parts]
        choice = before.by_others[fold]
        weights = [
            part.fit(part.features, labels[seen], [part.penalties[index]])[0]
            for part, index in zip(own, choice.chosen, strict=True)
        ]
        new, _ = plainly_taught(own, labels[seen], weights, choice.shares, helpful)
        for member, (kernel, bias), part in zip(members[1:], new, parts, strict=True):
            member[asked] = part.features[asked] @ kernel + bias
    members[0] = before.outputs
    outputs = np.empty([60, NUM_CLASSES])
    for fold in range(5):
        others = fold_of != fold
        shares = joint.mixture([member[others] for member in members], labels[others])
        outputs[~others] = sum(share * member[~others] for share, member in zip(shares, members, strict=True))
    np.testing.assert_allclose(found.outputs, outputs, rtol=1e-4, atol=1e-4)
    losses = [-special.log_softmax(each, axis=1)[np.arange(60), labels] for each in (before.outputs, outputs)]
    np.testing.assert_allclose(report.loss, np.mean(losses, 1), rtol=1e-3)

    # The classifiers that are summed into one answer as their sum does.
    new, taken = plainly_taught(parts, labels, before.weights, before.shares, helpful)
    shares = joint.mixture(members, labels)
    np.testing.assert_allclose(report.shares, shares, rtol=1e-3, atol=1e-4)
    assert (report.num_texts, report.num_taken) == (1_000, len(taken))
    unseen = texts_of(some_labels(50, 8), 9)
    expected = report.shares[0] * logits_of(before.weights, before.shares, unseen)
    expected += logits_of(new, report.shares[1:], unseen)
    np.testing.assert_allclose(logits_of(found.weights, found.shares, unseen), expected, rtol=1e-4, atol=1e-4)


def test_an_encoder_alone_may_gain_from_texts_too(parts, labels, fold_of, helpful):
    before = heads.fit(parts[:1], labels, fold_of)
    found, report = self_training.teach(before, parts[:1], labels, fold_of, helpful[:1])
    assert report.loss[1] < report.loss[0]
    assert found is not before
    assert len(report.shares) == 2
    assert report.shares[1] > 0
    assert ", not used;" not in str(report)


def test_texts_that_help_are_used_and_unseen_ones_are_answered_better(
    parts, labels, fold_of, before, helpful
):
    found, report = self_training.teach(before, parts, labels, fold_of, helpful)
    asked = some_labels(3_000, 10)
    unseen = texts_of(asked, 11)
    without, with_it = (
        np.mean(logits_of(each.weights, each.shares, unseen).argmax(1) == asked) for each in (before, found)
    )
    assert with_it > without + 0.02
    assert report.loss[1] < report.loss[0]
    assert report.accuracy[1] == np.mean(found.outputs.argmax(1) == labels)
    assert str(report).startswith("self-training: 1,000 texts answered, 800 taken, weights: ")


def test_texts_that_mislead_change_nothing(parts, labels, fold_of, before, misleading):
    new, _ = self_training._taught(parts, labels, before.weights, before.shares, misleading)
    asked = some_labels(3_000, 10)
    unseen = texts_of(asked, 11)
    harmed = np.mean(logits_of(new[1:], [1], unseen[1:]).argmax(1) == asked)
    assert harmed < np.mean(logits_of(before.weights[1:], [1], unseen[1:]).argmax(1) == asked) - 0.1
    found, report = self_training.teach(before, parts, labels, fold_of, misleading)
    assert found is before
    assert report.shares == [1, 0, 0]
    assert report.accuracy[0] == np.mean(before.outputs.argmax(1) == labels)
    assert ", not used; held-out accuracy" in str(report)


def test_equal_runs_are_equal_bit_for_bit(parts, labels, fold_of, before, helpful):
    one, other = (self_training.teach(before, parts, labels, fold_of, helpful) for _ in range(2))
    assert one[1] == other[1]
    for pair, others in zip(one[0].weights, other[0].weights, strict=True):
        for array, same in zip(pair, others, strict=True):
            np.testing.assert_array_equal(array, same)


@pytest.mark.parametrize("held", [range(5), [2, 3]])
def test_what_answers_a_fold_has_not_seen_it(parts, labels, fold_of, helpful, held):
    fold_of = np.where(np.isin(fold_of, held), fold_of, -1)
    before, seen = heads.fit(parts[:1], labels, fold_of), []

    def watched(features, labels, penalties):
        seen.append({bytes(row) for row in features})
        return fit_vectors(features, labels, penalties)

    own = [heads.Part("", parts[0].features, watched, parts[0].penalties)]
    self_training.teach(before, own, labels, fold_of, helpful[:1])
    *of_folds, last = seen
    assert len(of_folds) == 2 * len(held)  # of each, what answers the texts and what learns from that
    for number, rows in enumerate(of_folds):
        fold = held[number // 2]
        is_seen = [bytes(row) in rows for row in parts[0].features]
        assert is_seen == (fold_of != fold).tolist()
    assert all(bytes(row) in last for row in parts[0].features)
