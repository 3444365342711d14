"""A question answerer as Keras users see it: fit, predict, presets; and what it may answer."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.models import (
    QuestionAnswerer,
    QuestionAnswererPreprocessor,
    Seq2SeqBackbone,
    TextClassifier,
    question_answerer,
)
from tests import corpus
from tests.models.test_best_spans import best_by_loop, rows_by_loop
from tests.models.test_token_offsets import offsets

LENGTH, STRIDE, LONGEST = 24, 6, 4


def build(tokenizer, mixer="dynamic_conv", length=LENGTH, longest=LONGEST, stride=STRIDE, **options):
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        num_decoder_layers=0,
        mixer=mixer,
        max_sequence_length=length,
    )
    preprocessor = QuestionAnswererPreprocessor(tokenizer, length, stride=stride, max_answer_length=longest)
    return QuestionAnswerer(backbone, preprocessor, **options)


@pytest.fixture(scope="module")
def model(tokenizer):
    return build(tokenizer, question_summary=True)


CONTEXTS = [
    "the old river",
    "",
    " \n\u3000",
    "Grüße aus Köln:\u00a0\ufb01ne \U0001f642 cafe\u0301\u2026 the river",
    " ".join(corpus.documents(4)),
    "the quiet captain repairs the clock behind the station, " * 9,
]
QUESTIONS = ["what is old", "the river " * 20, "", "\U0001f642?", "who paints", "the captain " * 20]


def answer_by_loop(model, question, context):
    """What `answer` should give, window by window."""
    tokens = offsets(context)
    ids = model.preprocessor.tokenizer.ragged([question])[0].numpy().tolist()
    rows = rows_by_loop(ids, [token[0] for token in tokens], LENGTH, STRIDE, LONGEST)
    padded = tf.constant([row + [0] * (LENGTH - len(row)) for row, _ in rows])
    logits = model({"token_ids": padded, "padding_mask": padded > 0}, training=False).numpy()
    best = (0.0, 0, 0)
    for (row, first), own in zip(rows, logits.astype("float64"), strict=True):
        place = row.index(1) + 1
        is_context = [place <= t < len(row) - 1 for t in range(LENGTH)]
        begin, end, score = best_by_loop(own, is_context, LONGEST)
        if score > best[0]:
            best = score, tokens[first + begin - place][1], tokens[first + end - place][2]
    score, begin, end = best
    return context.encode()[begin:end].decode(), score


@pytest.mark.parametrize("mixer", ["dynamic_conv", "mlp_mixer"])  # rows of any length, and of one
def test_answers_are_those_of_a_loop_over_windows(tokenizer, mixer):
    model = build(tokenizer, mixer, question_summary=mixer == "dynamic_conv")
    found = model.predict(QUESTIONS, CONTEXTS, batch_size=4)
    for question, context, answer in zip(QUESTIONS, CONTEXTS, found, strict=True):
        text, score = answer_by_loop(model, question, context)
        assert answer["answer"] == text == context[answer["start"] : answer["end"]]
        np.testing.assert_allclose(answer["score"], score, rtol=1e-4)  # float32
    assert [answer["answer"] == "" for answer in found] == [not text.strip() for text in CONTEXTS]
    assert found[1] == {"answer": "", "score": 0.0, "start": 0, "end": 0}


def test_more_windows_than_a_step_takes(model):
    context = "the old captain repairs the engine of the boat. " * 60
    (answer,), alone = model.predict([""], [context]), answer_by_loop(model, "", context)
    assert answer["answer"] == alone[0]
    np.testing.assert_allclose(answer["score"], alone[1], rtol=1e-4)


def test_a_row_for_each_example(model, tokenizer):
    preprocessor = model.preprocessor
    long = "the old river " * 20 + "follows the captain"
    begin = long.index("captain")
    x, y = preprocessor((["who", "who"], [long, "the river"]), y=[[begin, begin + 7], [0, 0]])
    ids = x["token_ids"].numpy()
    for row, (first, last), answer in zip(ids, y.numpy(), ["captain", None], strict=True):
        if answer:
            assert tokenizer.detokenize([row[first : last + 1]]) == [answer]
        else:
            assert first == last == row.tolist().index(1)  # the end of the question: not here
    single, several = (preprocessor(x, y=None)["token_ids"] for x in [("who", long), (["who"], [long])])
    assert single.shape == (LENGTH,)
    np.testing.assert_array_equal(single, several[0])
    alone = preprocessor(["the river"])["token_ids"][0].numpy()
    assert tokenizer.detokenize([alone]) == ["the river"]
    assert (alone == 1).sum() == 1


def marked(count, seed):
    """Contexts in which the answer stands behind a word that the question has."""
    rng, rows = random.Random(seed), []
    for _ in range(count):
        verbs, nouns = rng.sample(corpus.VERBS, 3), rng.sample(corpus.NOUNS, 3)
        context = " ".join(f"{verb} {noun}" for verb, noun in zip(verbs, nouns, strict=True))
        chosen = rng.randrange(3)
        rows.append((verbs[chosen], context, nouns[chosen]))
    return tuple(map(list, zip(*rows, strict=True)))


@pytest.mark.slow
def test_it_learns_the_word_behind_a_marker(tokenizer):
    keras.utils.set_random_seed(0)
    model = build(tokenizer, length=48, longest=8, stride=32, question_summary=True, dropout=0.0)
    questions, contexts, answers = marked(320, seed=1)
    model.compile(optimizer=keras.optimizers.Adam(5e-3))
    model.fit((questions, contexts), answers, batch_size=32, epochs=10, verbose=0)
    questions, contexts, answers = marked(100, seed=2)
    found = [answer["answer"] for answer in model.predict(questions, contexts)]
    assert np.mean([a == b for a, b in zip(found, answers, strict=True)]) > 0.9  # a guess has 1/3


@pytest.mark.parametrize("form", [list, tf.constant, lambda texts: np.array(texts, object)])
def test_answers_in_any_form_are_found_at_the_same_places(form):
    contexts = form(["the old river", "Gr\u00fc\u00dfe aus K\u00f6ln"])
    for answers in (["old", "K\u00f6ln"], [["none", "old"], ["K\u00f6ln"]]):
        answers = form(answers) if isinstance(answers[0], str) else answers
        spans = question_answerer._byte_spans((form(["what", "where"]), contexts), answers)
        assert spans.tolist() == [[4, 7], [12, 17]]


@pytest.mark.parametrize("answers", [["old", None], [["old"], []], ["old", float("nan")], [["old"], [None]]])
def test_an_example_without_an_answer_is_named(answers):
    x = (["what", "where"], ["the old river", "None nan"])
    with pytest.raises(ValueError, match=r"answers that stand in their context\. Received: .* of example 1$"):
        question_answerer._byte_spans(x, answers)


def test_it_has_what_keras_models_have(model, tokenizer):
    lines = []
    model.summary(print_fn=lambda line, **settings: lines.append(line))
    assert lines
    texts = (["who"], ["the old river"])
    assert model.predict(texts, verbose=0) == model.predict(*texts)


def test_answers_follow_new_layers_once_compiled(tokenizer):
    model = build(tokenizer)
    texts = (["who", "what"], ["the old river", "a lost day"])
    before = model.predict(*texts)
    for layer in model.backbone._flatten_layers():
        if hasattr(layer, "kernel") and layer.built:
            layer.kernel.assign(2 * layer.kernel)
    model._answer = lambda *texts: pytest.fail("a function of layers as they were")
    model.compile()
    assert model.predict(*texts) != before


@pytest.mark.slow
def test_fit_takes_what_keras_users_have(tokenizer):
    model = build(tokenizer)
    model.compile()
    texts = corpus.documents(8)
    x, y = (["who"] * 8, texts), [[text[:9], "none"] for text in texts]
    history = model.fit(x, y, validation_split=0.25, batch_size=4, verbose=0)
    assert np.isfinite([history.history["loss"], history.history["val_loss"]]).all()
    columns = tuple(np.array(column, object) for column in x)
    loss = model.evaluate(columns, np.array([text[:9] for text in texts]), verbose=0)
    assert loss == pytest.approx(model.evaluate(x, y, verbose=0), rel=1e-5)
    assert len(model.predict(*columns)) == 8
    assert model.predict([], []) == []
    spans = np.array([[0, 9]] * 8)
    data = tf.data.Dataset.from_tensor_slices((x, spans)).batch(4)
    assert model.evaluate(data, verbose=0) == pytest.approx(loss, rel=1e-5)
    with pytest.raises(
        ValueError, match=r"answers that stand in their context\. Received: \['none'\] of example 1"
    ):
        model.fit((["who"] * 2, texts[:2]), [texts[0][:4], "none"])
    with pytest.raises(ValueError, match="`x` must be a tuple of questions and contexts"):
        model.fit(texts, texts)
    with pytest.raises(
        ValueError, match=r"`contexts` must be as many as the questions\. Received: 1 contexts, 2"
    ):
        model.predict(["a", "b"], ["c"])


def test_a_preset_answers_the_same(tmp_path, model):
    model.save_to_preset(str(tmp_path / "preset"))
    again = QuestionAnswerer.from_preset(str(tmp_path / "preset"))
    assert again.predict(QUESTIONS, CONTEXTS) == model.predict(QUESTIONS, CONTEXTS)
    assert again.get_config()["question_summary"]
    assert again.preprocessor.stride == STRIDE
    with pytest.raises(ValueError, match="holds a QuestionAnswerer; expected a TextClassifier"):
        TextClassifier.from_preset(str(tmp_path / "preset"))


def test_arguments_out_of_their_range(tokenizer):
    for arguments, message in [
        ({"sequence_length": 5}, "`sequence_length` must be a whole number >= 6. Received: 5"),
        ({"stride": 0}, "`stride` must be a whole number >= 1. Received: 0"),
        (
            {"sequence_length": 64, "max_answer_length": 16},
            "`max_answer_length` must be at most a quarter .* max_answer_length=16, sequence_length=64",
        ),
        ({"strides": 3}, "`strides` is not an argument of .*; did you mean `stride`"),
    ]:
        with pytest.raises(ValueError, match=message):
            QuestionAnswererPreprocessor(tokenizer, **arguments)
    with pytest.raises(ValueError, match="`x` must be one text or a tuple of two"):
        QuestionAnswererPreprocessor(tokenizer)((["a"], ["b"], ["c"]), y=None)
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), 2, 2, 8, 16, num_decoder_layers=0, pool_size=[1, 2]
    )
    with pytest.raises(ValueError, match=r"`backbone` must not merge positions.*pool_size=\[1, 2\]"):
        QuestionAnswerer(backbone)
    with pytest.raises(ValueError, match="`question_summry` is not an argument of QuestionAnswerer"):
        build(tokenizer, question_summry=True)
    with pytest.raises(ValueError, match="`predict` needs a preprocessor"):
        QuestionAnswerer(build(tokenizer).backbone).predict(["a"], ["b"])
