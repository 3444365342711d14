"""A linear classifier on n-grams joined to a trained one: against plain loops."""

import collections
import dataclasses
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse, special

from convnlp.data import Label, examples
from convnlp.layers import HashedNgrams
from convnlp.models import Seq2SeqBackbone, TextClassifier, linear_head
from convnlp.tasks import Classification
from convnlp.tasks.classification import joint, ngrams
from convnlp.tasks.rows import outputs_of

NUM_CLASSES, LENGTH, NUM_BUCKETS = 3, 12, 64


def some_examples(count, seed):
    """Texts whose class is which of the tokens 5, 6 and 7 they have, among others."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, NUM_CLASSES, count)
    rows = [[*random.integers(8, 40, random.integers(1, LENGTH - 2)), 5 + label, 1] for label in labels]
    return examples.Examples((tf.ragged.constant(rows, tf.int32),), (LENGTH,), labels)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    size = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    return TextClassifier(Seq2SeqBackbone(40, **size, num_decoder_layers=0), NUM_CLASSES, pooling="mean")


@pytest.fixture(scope="module")
def found():
    return some_examples(90, 1)


@pytest.fixture(scope="module")
def held_out():
    return some_examples(70, 2)


@pytest.fixture(scope="module")
def joined(model, found, held_out):
    judged, kept = ngrams.join(model, NUM_BUCKETS, found, held_out)
    assert kept is judged
    return kept


def loss(logits, labels):
    return -special.log_softmax(logits, axis=1)[np.arange(len(labels)), labels].mean()


def kept_ngrams(texts, buckets=NUM_BUCKETS):
    """Bucket -> the n-gram of all that fall into it that most texts have, by a plain loop."""
    counts = collections.Counter(ngram for text in texts for ngram in ngrams_of(text))
    kept = {}
    for ngram in sorted(counts):
        bucket = bucket_of(ngram, buckets)
        if bucket not in kept or counts[ngram] > counts[kept[bucket]]:
            kept[bucket] = ngram
    return kept


def ngrams_of(ids):
    return {(token,) for token in ids} | set(itertools.pairwise(ids))


def bucket_of(ngram, buckets):
    if len(ngram) == 1:
        return ngram[0] % buckets * 12_799 % buckets
    return (ngram[0] % buckets * 15_383 % buckets + ngram[1]) % buckets


def test_features_are_what_the_layer_sums_up(joined, found, held_out):
    rows = ngrams.features(joined.ngrams, held_out).toarray()
    assert rows.shape == (70, NUM_BUCKETS)
    kept = kept_ngrams(found.columns[0].to_list())
    for row, ids in zip(rows, held_out.columns[0].to_list(), strict=True):
        expected = np.zeros(NUM_BUCKETS)
        counted = [bucket for bucket, ngram in kept.items() if ngram in ngrams_of(ids)]
        expected[counted] = 1 / np.sqrt(len(counted))
        np.testing.assert_allclose(row, expected)


def test_of_very_many_texts_every_nth_chooses_the_ngrams(found, monkeypatch):
    rows = found.columns[0]
    monkeypatch.setattr(ngrams, "_MAX_ADAPTED", len(rows.flat_values) // 2 + 1)
    layer = ngrams.adapted(NUM_BUCKETS, NUM_CLASSES, found)
    half = HashedNgrams(NUM_BUCKETS, NUM_CLASSES)
    half.adapt(tf.ragged.constant(rows.to_list()[::2], tf.int32))
    np.testing.assert_array_equal(layer.keys, half.keys)


def test_a_text_of_which_nothing_is_kept_has_no_features(found):
    layer = ngrams.adapted(NUM_BUCKETS, NUM_CLASSES, found)
    unknown = examples.Examples(
        (tf.ragged.constant([[90, 91], [92]], tf.int32),), (LENGTH,), np.array([0, 1])
    )
    assert not ngrams.features(layer, unknown).toarray().any()


def test_bucket_weights_are_those_of_a_plain_loop(joined, found):
    counts = ngrams.features(joined.ngrams, found)
    rows, labels = counts.toarray(), found.labels
    rarity, ratio = np.zeros(NUM_BUCKETS), np.zeros(NUM_BUCKETS)
    for b in range(NUM_BUCKETS):
        having = [int(rows[n, b] > 0) for n in range(len(rows))]
        rarity[b] = np.log((1 + len(rows)) / (1 + sum(having))) + 1
        for label in range(NUM_CLASSES):
            inside, outside = (
                (1 + sum(h for h, y in zip(having, labels, strict=True) if (y == label) == same))
                / (NUM_BUCKETS + np.sum(rows[(labels == label) == same] > 0))
                for same in (True, False)
            )
            ratio[b] += np.log(inside / outside) ** 2 / NUM_CLASSES
    rarity /= np.sqrt(np.mean([np.sum((row * rarity) ** 2) for row in rows]))
    ratio = np.sqrt(ratio)
    ratio /= np.sqrt(np.mean([np.sum((row * rarity * ratio) ** 2) for row in rows]))
    np.testing.assert_allclose(
        ngrams.bucket_weights(counts, labels, NUM_CLASSES), rarity * (0.5 + 0.5 * ratio)
    )


def test_with_many_classes_rarity_alone_weighs(model, found, held_out, monkeypatch):
    few = ngrams.join(model, NUM_BUCKETS, found, held_out)[1].ngrams.get_weights()[0]
    monkeypatch.setattr(ngrams, "MAX_RATIO_CLASSES", NUM_CLASSES - 1)
    _, joined = ngrams.join(model, NUM_BUCKETS, found, held_out)
    many = joined.ngrams.get_weights()[0]
    counts = ngrams.features(joined.ngrams, found)
    np.testing.assert_allclose(
        many, ngrams.fit(counts, found.labels, NUM_CLASSES, ratio_share=0.0)[0][0], rtol=1e-5, atol=1e-6
    )
    assert np.abs(few - many).max() > 1e-2


@pytest.mark.parametrize(("num_classes", "share"), [(8, 0.5), (9, 0.0)])
def test_without_training_rarity_alone_weighs_too_if_there_are_many_classes(num_classes, share):
    random = np.random.default_rng(0)
    labels, counts = np.arange(36) % num_classes, sparse.csr_array(random.poisson(0.3, [36, 20]) * 1.0)
    label = Label("label", names=tuple(map(str, range(num_classes))))
    task = Classification(tokenizer=None, label=label, sequence_length=LENGTH)
    (found,), (expected,) = (
        task._ngram_heads(counts, labels, [0.1]),
        ngrams.fit(counts, labels, num_classes, [0.1], ratio_share=share),
    )
    np.testing.assert_array_equal(found[0], expected[0])


def test_buckets_that_all_classes_use_alike_keep_their_rarity():
    counts = sparse.csr_array(np.ones([4, 2]))
    np.testing.assert_allclose(
        ngrams.bucket_weights(counts, np.array([0, 0, 1, 1]), 2), 0.5 / np.sqrt(2) * np.ones(2)
    )


def test_a_search_may_start_where_buckets_weigh_nothing():
    """By classes alone, those that all classes use alike do."""
    counts, start = sparse.csr_array(np.ones([4, 2])), (np.ones([2, 2]), np.zeros(2))
    ((table, bias),) = ngrams.fit(counts, np.array([0, 0, 1, 1]), 2, ratio_share=1.0, start=start)
    assert not table.any()
    np.testing.assert_allclose(bias[0], bias[1], atol=1e-6)


@pytest.mark.parametrize("is_weighed", [False, True])
def test_the_fit_is_where_the_penalised_loss_has_no_slope(joined, found, is_weighed):
    counts, penalties = ngrams.features(joined.ngrams, found), (3.0, 0.1)
    weights = 1.0 + found.labels if is_weighed else np.ones(len(found))
    fits = ngrams.fit(counts, found.labels, NUM_CLASSES, penalties, weights=weights if is_weighed else None)
    scale = ngrams.bucket_weights(counts, found.labels, NUM_CLASSES)
    x = counts.toarray() * scale
    for penalty, (table, bias) in zip(penalties, fits, strict=True):
        kernel = table / scale[:, None]
        error = np.exp(special.log_softmax(x @ kernel + bias, axis=1)) - np.eye(NUM_CLASSES)[found.labels]
        error *= weights[:, None] / len(found)
        assert np.abs(x.T @ error + penalty / len(found) * kernel).max() < 1e-4
        assert np.abs(error.sum(0)).max() < 1e-4
        assert np.abs(kernel).max() * penalty / len(found) > 1e-3


def test_logits_are_in_the_order_of_the_examples(model, held_out):
    found = outputs_of(model, held_out)
    for row, ids in zip(found, held_out.columns[0].to_list(), strict=True):
        ids = tf.constant([ids])
        expected = model({"token_ids": ids, "padding_mask": ids != 0}, training=False)
        np.testing.assert_allclose(row, expected[0], rtol=1e-4, atol=1e-5)


def test_the_joined_logits_are_a_sum_of_both(model, joined, found, held_out):
    own, both = (outputs_of(classifier, held_out) for classifier in (model, joined))
    kernel, bias = joined.head.get_weights()
    linear = ngrams.features(joined.ngrams, held_out) @ joined.ngrams.get_weights()[0]  # [N,C]
    share = kernel[0, 0] / model.head.get_weights()[0][0, 0]
    ngram_share = kernel[-1, -1] * 10
    constant = bias - share * model.head.get_weights()[1]
    assert share >= 0 < ngram_share
    ((table, own_bias),) = ngrams.fit(ngrams.features(joined.ngrams, found), found.labels, NUM_CLASSES)
    members = own, ngrams.features(joined.ngrams, held_out) @ table + own_bias
    best = joint.mixture(members, held_out.labels)
    np.testing.assert_allclose([share, ngram_share], best, rtol=1e-3)
    np.testing.assert_allclose(both, share * own + ngram_share * linear + constant, rtol=1e-3, atol=1e-4)


def test_words_decide(model, joined, held_out):
    own, both = (outputs_of(classifier, held_out) for classifier in (model, joined))
    labels = held_out.labels
    assert (own.argmax(1) == labels).mean() < 0.6
    assert (both.argmax(1) == labels).mean() > 0.9
    assert loss(both, labels) < loss(own, labels) / 2


@pytest.mark.parametrize("is_trained", [False, True])
def test_the_log_says_what_n_grams_change_and_whether_they_alone_decide(
    model, found, held_out, caplog, monkeypatch, is_trained
):
    own = np.random.default_rng(0).normal(size=[70, NUM_CLASSES])
    own += (3 if is_trained else -3) * np.eye(NUM_CLASSES)[held_out.labels]
    monkeypatch.setattr(ngrams, "outputs_of", lambda *_: own)
    joined, _ = ngrams.join(model, NUM_BUCKETS, found, held_out)
    share = joined.head.get_weights()[0][0, 0] / model.head.get_weights()[0][0, 0]
    ngram_share = joined.head.get_weights()[0][-1, -1] * 10
    linear = ngrams.features(joined.ngrams, held_out) @ joined.ngrams.get_weights()[0]
    constant = joined.head.get_weights()[1] - share * model.head.get_weights()[1]
    hits = [
        np.mean(each.argmax(1) == held_out.labels)
        for each in (own, share * own + ngram_share * linear + constant)
    ]
    line, *warning = caplog.messages
    assert line == (
        f"validation accuracy {hits[0]:.4f} by the encoder alone, {hits[1]:.4f} with n-grams "
        f"(weights {share:.2f} and {ngram_share:.2f})"
    )
    alone = ["the n-grams alone decide: the encoder hardly counts, and may need more training"]
    assert warning == ([] if is_trained else alone)


def test_a_classifier_that_knows_better_is_left_as_it_is(held_out):
    labels = held_out.labels
    right = 3.0 * np.eye(NUM_CLASSES)[labels] + np.random.default_rng(0).normal(size=[70, NUM_CLASSES])
    useless = np.random.default_rng(1).normal(size=[70, NUM_CLASSES])
    share, ngram_share = joint.mixture([right, useless], labels)
    assert share > 5 * ngram_share


def test_n_grams_that_are_wrong_get_no_share(held_out):
    right = np.eye(NUM_CLASSES)[held_out.labels] + np.random.default_rng(0).normal(size=[70, NUM_CLASSES])
    share, ngram_share = joint.mixture([right, -np.eye(NUM_CLASSES)[held_out.labels]], held_out.labels)
    assert (share > 0.1, ngram_share) == (True, 0.0)
    least, _ = joint.mixture([-right, right], held_out.labels)
    assert least == 0.01  # the encoder keeps some


def test_the_examples_that_chose_the_step_do_not_decide_whether_n_grams_join(model, found, held_out):
    """The encoder gets all of them right, as it may by luck: the n-grams still have their share."""
    lucky = dataclasses.replace(held_out, labels=outputs_of(model, held_out).argmax(1))
    assert ngrams.join(model, NUM_BUCKETS, found, lucky)[1].ngram_buckets == NUM_BUCKETS


@pytest.mark.parametrize("is_weighed", [False, True])
def test_once_weighed_n_grams_learn_from_the_held_out_examples_too(
    model, joined, found, held_out, is_weighed
):
    if is_weighed:
        found, held_out = (
            dataclasses.replace(each, weights=(1.0 + each.labels).astype("float32"))
            for each in (found, held_out)
        )
    judged, kept = ngrams.join(model, NUM_BUCKETS, found, held_out, learns=True)
    if not is_weighed:
        for one, other in zip(judged.get_weights(), joined.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
    rows = np.concatenate([ngrams.features(joined.ngrams, each).toarray() for each in (found, held_out)])
    labels, weights = (
        np.concatenate([getattr(each, name) for each in (found, held_out)])
        if is_weighed or name == "labels"
        else None
        for name in ("labels", "weights")
    )
    (start,) = ngrams.fit(
        ngrams.features(joined.ngrams, found), found.labels, NUM_CLASSES, weights=found.weights
    )
    ((table, bias),) = ngrams.fit(sparse.csr_array(rows), labels, NUM_CLASSES, weights=weights, start=start)
    np.testing.assert_allclose(kept.ngrams.get_weights()[0], table, rtol=1e-3, atol=1e-5)
    (kernel, _), (kept_kernel, kept_constant) = judged.head.get_weights(), kept.head.get_weights()
    np.testing.assert_array_equal(kept_kernel, kernel)
    share = kernel[0, 0] / model.head.get_weights()[0][0, 0]
    own = share * model.head.get_weights()[1] + kernel[-1, -1] * 10 * bias
    np.testing.assert_allclose(kept_constant, own, rtol=1e-3, atol=1e-5)
    assert np.abs(kept.ngrams.get_weights()[0] - judged.ngrams.get_weights()[0]).max() > 1e-3


def test_a_search_goes_on_from_where_it_starts(joined, found, monkeypatch):
    counts = ngrams.features(joined.ngrams, found)
    ((table, bias),) = ngrams.fit(counts, found.labels, NUM_CLASSES)
    ((again, _),) = ngrams.fit(counts, found.labels, NUM_CLASSES, start=(-table, bias))
    np.testing.assert_allclose(again, table, rtol=1e-2, atol=1e-2 * np.abs(table).max())
    monkeypatch.setattr(linear_head, "MAX_ITERATIONS", 0)
    ((same, same_bias),) = ngrams.fit(counts, found.labels, NUM_CLASSES, start=(table, bias))
    np.testing.assert_allclose(same, table, rtol=1e-6)
    np.testing.assert_allclose(same_bias, bias, rtol=1e-6)


def test_the_mixture_has_the_smallest_loss():
    random = np.random.default_rng(3)
    labels = random.integers(0, NUM_CLASSES, 400)
    first, second = (scale * (np.eye(NUM_CLASSES)[labels] + random.normal(size=[400, 3])) for scale in (4, 1))
    best = joint.mixture([first, second], labels)

    def objective(weights):
        return loss(weights[0] * first + weights[1] * second, labels) + np.sum((weights - 0.5) ** 2) / 400

    assert best[0] < best[1]  # the first is too sure
    for step in ([0.01, 0], [-0.01, 0], [0, 0.01], [0, -0.01]):
        assert objective(best) < objective(best + step)


def test_a_heavy_held_out_example_does_not_decide_how_much_n_grams_count(model, found, held_out):
    """It is one of a rare class, and its words are those of another."""
    mixed = held_out.labels.copy()
    mixed[0] = (mixed[0] + 1) % NUM_CLASSES
    heavy = dataclasses.replace(
        held_out, labels=mixed, weights=np.where(np.arange(len(mixed)) == 0, 68.0, 1.0).astype("float32")
    )
    even = dataclasses.replace(heavy, weights=None)
    kernels = [
        ngrams.join(model, NUM_BUCKETS, found, each)[0].head.get_weights()[0] for each in (heavy, even)
    ]
    np.testing.assert_array_equal(*kernels)


def test_all_right_gives_finite_weights():
    logits = np.eye(NUM_CLASSES)[[0, 1, 2]]
    assert max(joint.mixture([logits, logits], np.array([0, 1, 2]))) < 5


def texts_of(num_tokens):
    return examples.Examples(
        (tf.RaggedTensor.from_row_lengths(tf.ones(num_tokens, tf.int32), [num_tokens]),), (1,), [0]
    )


@pytest.mark.parametrize("num_tokens", [10, 2**17, 2**17 + 1])
@pytest.mark.parametrize("num_classes", [2, 16, 17, 100, 256, 257, 10**6, 10**7])
def test_the_table_is_never_large(num_classes, num_tokens):
    buckets = ngrams.buckets_for(num_classes, texts_of(num_tokens))
    assert buckets == 0 or 2**13 <= buckets <= 2**17
    assert buckets * num_classes <= 2**21
    assert (buckets > 0) == (num_classes <= 256)


@pytest.mark.parametrize(
    ("num_classes", "num_tokens", "expected"),
    [(2, 2**17, 2**16), (2, 2**17 + 1, 2**17), (16, 10**6, 2**17), (17, 10**6, 2**16), (77, 10**6, 2**14)],
)
def test_many_texts_have_more_buckets_if_there_are_few_classes(num_classes, num_tokens, expected):
    assert ngrams.buckets_for(num_classes, texts_of(num_tokens)) == expected


class Plain(TextClassifier):
    """A class of a user's own, whose constructor takes no `ngram_buckets`."""

    def __init__(self, backbone, num_classes, preprocessor=None):
        super().__init__(backbone, num_classes, preprocessor)


def test_a_class_without_n_grams_stays_as_it_is(model, found, held_out, caplog):
    plain = Plain(model.backbone, NUM_CLASSES)
    label = Label(num_classes=NUM_CLASSES)
    task = Classification(tokenizer=None, label=label, sequence_length=LENGTH)
    assert task.trained(plain, found, held_out) == (plain, plain)
    fitted, *_ = task.fitted(plain, found, np.ones([90, 16]), np.arange(90) % 5, [1.0])
    assert fitted is plain
    assert caplog.messages == ["no n-grams are joined: Plain takes no `ngram_buckets`"] * 2
