import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.data import Source
from convnlp.data.schema import SEVERAL
from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, Seq2SeqLMPreprocessor, Tokenizer
from convnlp.tasks import Fields, TextToText, scores
from convnlp.tasks.text_to_text import greedy_predictions, text_to_text_scores
from convnlp.tasks.text_to_text import task as text_to_text_task
from tests import corpus


def plain_f1(predicted, labels, cls):
    hits = np.sum((predicted == cls) & (labels == cls))
    wrong = np.sum((predicted == cls) != (labels == cls))
    return 2 * hits / (2 * hits + wrong)


@pytest.mark.parametrize("num_classes", [2, 4])
def test_scores_of_classes_equal_the_definitions(num_classes):
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=[23, num_classes]), random.integers(0, num_classes, 23)
    result = scores.of_logits(logits, labels)
    predicted = logits.argmax(-1)
    each = [plain_f1(predicted, labels, cls) for cls in range(num_classes)]
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    assert result["num_examples"] == 23
    assert result["accuracy"] == pytest.approx(np.mean(predicted == labels))
    assert result["f1_macro"] == pytest.approx(np.mean(each))
    assert result["loss"] == pytest.approx(-log_p[np.arange(23), labels].mean(), rel=1e-5)  # float32
    assert ("f1" in result) == (num_classes == 2)
    if num_classes == 2:
        assert result["f1"] == pytest.approx(each[1])


def test_a_largest_logit_of_zero_is_an_answer():
    """As that of a log-probability of a sure answer is."""
    sure = scores.of_logits(np.array([[0, -20], [-20, 0], [-20, 0]], "float32"), np.array([0, 1, 0]))
    assert (sure["f1"], sure["f1_macro"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))


def test_of_equal_logits_one_is_the_answer():
    equal = scores.of_logits(np.ones([3, 2], "float32"), np.array([0, 1, 1]))
    assert (equal["accuracy"], equal["f1"], equal["f1_macro"]) == (1 / 3, 0, 1 / 4)


def test_a_class_that_does_not_occur_is_not_in_the_mean():
    logits = np.eye(4)[[1, 2, 2, 2]]
    labels = np.array([1, 1, 2, 2])
    f1 = np.array([2 * 1 / (2 + 1), 2 * 2 / (2 + 3)])
    assert scores.of_logits(logits, labels)["f1_macro"] == pytest.approx(f1.mean())
    assert scores.of_logits(logits, np.array([1, 1, 2, 3]))["f1_macro"] == pytest.approx((2 / 3 + 2 / 4) / 3)
    counts = np.zeros([4, 4], int)
    np.add.at(counts, (labels, logits.argmax(-1)), 1)
    of_four, of_two = scores.f1_intervals(10 * counts), scores.f1_intervals(10 * counts[1:3, 1:3])
    assert of_four["f1_macro"] == of_two["f1_macro"]


def test_intervals_hold_the_scores_of_examples_drawn_again():
    counts = np.array([[12, 3], [4, 6]])
    labels, answers = (np.repeat(each.ravel(), counts.ravel()) for each in np.indices([2, 2]))
    random, draws = np.random.default_rng(1), []
    for _ in range(2_000):
        again = random.integers(0, 25, 25)
        draws.append([plain_f1(answers[again], labels[again], cls) for cls in (0, 1)])
    found = scores.f1_intervals(counts)
    draws = {"f1": np.array(draws)[:, 1], "f1_macro": np.mean(draws, 1)}
    assert found.keys() == draws.keys()
    for name, values in draws.items():
        np.testing.assert_allclose(found[name], np.quantile(values, (0.025, 0.975)), atol=0.02)


@pytest.fixture(scope="module")
def lm():
    """A model that always writes "river" and nothing else."""
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16)
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 12))
    answer = tf.constant([*tokenizer.ragged("river").numpy(), 1])
    lm.generate_ids = lambda ids, mask, max_length: tf.repeat(
        tf.pad(answer, [[0, max_length - len(answer)]])[tf.newaxis], tf.shape(ids)[0], axis=0
    )
    return lm


def test_exact_match_counts_what_is_written(lm):
    targets = ["river", " river ", "River", "the river", "rivers"]
    result = text_to_text_scores(lm, ["a"] * 5, targets, batch_size=2)
    assert result == {
        "exact_match": pytest.approx(2 / 5),
        "num_examples": 5.0,
        "word_f1": pytest.approx((1 + 1 + 0 + 2 / 3 + 0) / 5),
        "squad_exact_match": pytest.approx(4 / 5),
        "squad_f1": pytest.approx(4 / 5),
    }


def test_the_best_of_several_answers_counts(lm):
    targets = [
        SEVERAL.join(answers) for answers in (["garden", "river"], ["the old river", "the river"], ["a"])
    ]
    result = text_to_text_scores(lm, ["a"] * 3, targets, batch_size=2)
    assert result["exact_match"] == pytest.approx(1 / 3)
    assert result["word_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert result["squad_exact_match"] == pytest.approx(2 / 3)
    assert result["squad_f1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Théâtre,\tof a king!", "théâtre of king"),
        ("U.S. (an $1,000 A-list)", "us 1000 alist"),
        ("theatre another Anne", "theatre another anne"),
        ("«the» king", "« » king"),  # only ASCII's punctuation goes
        ("A. An? THE", ""),
    ],
)
def test_answers_are_compared_in_squads_form(text, expected):
    assert scores.squad_normalized(text) == expected


def test_squads_f1_is_that_of_precision_and_recall_word_by_word():
    rng = np.random.default_rng(0)
    words = ["The", "a", "king,", "King", "of", "of.", "—", "x"]
    for _ in range(200):
        found, wanted = (" ".join(rng.choice(words, rng.integers(0, 6))) for _ in range(2))
        mine, right = (
            [w for w in text.replace(",", "").replace(".", "").lower().split() if w not in ("the", "a")]
            for text in (found, wanted)
        )
        left, shared = list(right), 0
        for word in mine:
            if word in left:
                left.remove(word)
                shared += 1
        if not mine or not right:
            expected = float(mine == right)
        elif not shared:
            expected = 0.0
        else:
            precision, recall = shared / len(mine), shared / len(right)
            expected = 2 * precision * recall / (precision + recall)
        assert scores.squad_f1(found, wanted) == pytest.approx(expected)


def test_ranking_takes_the_most_probable_name(lm):
    inputs, names = ["the old river", "a", "b"], ["garden", "music"]
    best = lm.rank_labels(inputs, names).argmax(-1)
    targets = [names[best[0]], names[best[1]], names[1 - best[2]]]
    result = text_to_text_scores(lm, inputs, targets, names, batch_size=2)
    assert result["ranked_accuracy"] == pytest.approx(2 / 3)
    assert {"ranked_f1", "ranked_f1_macro"} <= set(result)


@pytest.mark.parametrize("names", [None, ("garden", "music"), ("garden", "music", "river")])
def test_the_scores_of_texts_and_classes_are_the_known_ones(lm, tmp_path, names):
    rows = [{"text": "a", "label": name} for name in names or ("garden", "river")]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    given = {"target": "label"} if names is None else {"label_names": names}
    task = TextToText.from_model(lm, source, Fields(**given))
    assert {*task.scores(lm, task.read(source))} == {*task.known_metrics, "num_examples"}


def test_classes_are_ranked_that_a_slice_lacks(lm, tmp_path):
    rows = [{"text": "a", "label": name} for name in ("garden", "river", "music")]
    name = f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}"
    task = TextToText.from_model(lm, Source(name, "train[:2]"), Fields())
    assert task.label_names == ("garden", "music", "river")


def test_the_texts_of_a_pair_are_scored_in_their_order(lm, tmp_path, monkeypatch):
    rows = [{"a": f"one {i}", "b": f"other {i}", "c": "river"} for i in range(3)]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    given = []
    monkeypatch.setattr(text_to_text_task, "text_to_text_scores", lambda *arguments: given.append(arguments))
    for texts in (("a", "b"), ("b",)):
        task = TextToText.from_model(lm, source, Fields(texts, target="c"))
        task.scores(lm, task.read(source), 2)
    columns = [[row[name] for row in rows] for name in "abc"]
    assert given == [(lm, (columns[0], columns[1]), columns[2], None, 2), (lm, *columns[1:], None, 2)]


def test_names_of_classes_are_ranked_however_long_they_are(lm, tmp_path):
    names = ("a", "the old river paints the garden and finds the market")
    rows = [{"text": "a", "label": name} for name in names]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    task = TextToText.from_model(lm, source, Fields())
    found = task.read(source)
    longest = max(len(row) for row in found.columns[1].to_list())
    assert longest == task.target_length > lm.preprocessor.decoder_sequence_length  # with the end token


def test_what_is_scored_and_what_is_exported_are_what_generate_writes():
    keras.utils.set_random_seed(0)
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16)
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 8))
    texts = ["the old river", "", "a"]
    written = lm.generate(texts)
    assert greedy_predictions(lm, texts, batch_size=2) == written
    signatures, rows = TextToText.answers(lm).signatures()
    exported = signatures["generate"](text=tf.constant(texts))["generated_text"].numpy()
    assert [text.decode() for text in exported] == written
    ids = signatures["ids"](token_ids=rows.of_texts(tf.constant(texts))["token_ids"])["generated_ids"]
    assert ids.shape == (3, 7)
    assert not (ids == tokenizer.end_token_id).numpy().any()  # so that one more would be another text


def test_pairs_are_written_and_ranked_one_by_one():
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16)
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 8))
    pairs = ["the old river", "", "a"], ["garden", "music", "the river"]
    written = [lm.generate({"encoder_text": pair}) for pair in zip(*pairs, strict=True)]
    assert greedy_predictions(lm, pairs, batch_size=2) == written == lm.generate({"encoder_text": pairs})
    names = ["garden", "river"]
    ranked = [lm.rank_labels(([a], [b]), names) for a, b in zip(*pairs, strict=True)]
    np.testing.assert_allclose(lm.rank_labels(pairs, names, batch_size=2), np.concatenate(ranked), atol=1e-4)
    assert abs(lm.rank_labels(pairs, names) - lm.rank_labels(pairs[0], names)).max() > 1e-3


@pytest.mark.parametrize(("a", "b"), [("ﬁne  day\n", "fine day"), ("e\u0301", "é"), ("", "  ")])
def test_texts_are_compared_after_normalisation(a, b):
    assert scores.normalized(a) == scores.normalized(b)


def test_case_and_punctuation_count():
    assert len({scores.normalized(text) for text in ("Yes", "yes", "yes.")}) == 3
