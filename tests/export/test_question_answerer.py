"""A question answerer is exported with its tokenizer and its windows inside, and to TFLite by its logits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import tasks
from convnlp.export.lite import conversion, tflite_files
from convnlp.export.saved_models import signatures, versions
from convnlp.export.verification import loaders
from convnlp.export.verification.graph import Graph
from convnlp.models import QuestionAnswerer, QuestionAnswererPreprocessor, Seq2SeqBackbone, Tokenizer
from convnlp.models.best_spans import LOWEST
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.servable import Servable
from tests import corpus

LENGTH, LONGEST = 96, 5
QUESTIONS = ["who paints the bridge", "\U0001f642?", "", "what is old"]
CONTEXTS = [
    "Grüße\u00a0aus Köln, \ufb01ne cafe\u0301: the old captain paints the bridge. " * 8,
    "No\u3000river (1999\u20132001)\u2026",
    "the river",
    " \n",
]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 2, 2, 16, 32, num_decoder_layers=0)
    preprocessor = QuestionAnswererPreprocessor(tokenizer, LENGTH, stride=64, max_answer_length=LONGEST)
    return QuestionAnswerer(backbone, preprocessor, question_summary=True)


@pytest.fixture(scope="module")
def preset(model, tmp_path_factory):
    directory = tmp_path_factory.mktemp("answerer") / "preset"
    model.save_to_preset(str(directory))
    return str(directory)


@pytest.mark.slow
def test_a_saved_model_answers_in_a_fresh_process(model, preset, tmp_path):
    version, ids, errors = versions.export(preset, str(tmp_path / "model"))
    assert {name for _, name, _ in errors} == {"serving_default", "pair", "ids", "embed"}
    inputs = {"question": np.array([text.encode() for text in QUESTIONS], object)}
    inputs["context"] = np.array([text.encode() for text in CONTEXTS], object)
    graphs = {str(version): Graph(str(version))}
    rows, _ = loaders.ask(graphs, {str(version): [("serving_default", inputs)]})
    assert {row[2] for row in rows} == set(loaders.LOADERS)
    expected = model.predict(QUESTIONS, CONTEXTS)
    for *_, outputs in rows:
        for i, (context, answer) in enumerate(zip(CONTEXTS, expected, strict=True)):
            found = {name: outputs[name][i] for name in answer}
            assert found["answer"].decode() == answer["answer"] == context[found["start"] : found["end"]]
            np.testing.assert_allclose(found["score"], answer["score"], rtol=1e-3)  # float32, other kernels
    assert "TFText>FastSentencepieceTokenize" not in Graph(str(ids)).op_names()


@pytest.mark.parametrize("name", ["serving_default", "ids"])
def test_a_score_that_is_no_number_is_an_error(model, name):
    answers = tasks.task_of(model).answers(model)
    served, rows = answers.signatures()
    request = answers.request(name, QUESTIONS[:2], rows)
    inputs = {spec.name: request[spec.name] for spec in served[name].input_signature}
    asked = {key: tf.constant(value) for key, value in inputs.items()}
    outputs = {key: value.numpy() for key, value in served[name](**asked).items()}
    reference = answers.reference()
    assert reference.error(name, inputs, outputs) < 1e-4
    outputs["score"][-1] = np.nan
    assert np.isnan(reference.error(name, inputs, outputs))


def test_texts_of_any_rank_in_a_session(model, tmp_path):
    """Which does not compare the shapes of what it is fed; a question without a list ended the process."""
    exported = signatures.servable(model)
    tf.saved_model.save(exported.module, str(tmp_path), signatures=exported.signatures)
    served = Servable("m", 1, str(tmp_path))
    for name in ("serving_default", "pair", "embed"):
        signature = served.signatures[name]
        texts = QUESTIONS[::3] if name == "embed" else CONTEXTS[:2]

        def ask(*shape, signature=signature, texts=texts):
            array = np.array([text.encode() for text in texts], object)
            array = array[0, ...] if not shape else array.reshape(shape)
            feeds = {info.name: array for info in signature.inputs.values()}
            return served.run(feeds, tuple(info.name for info in signature.outputs.values()))

        expected = ask(2)
        for found, first in ((ask(2, 1), expected), (ask(), [value[:1] for value in expected])):
            for value, other in zip(found, first, strict=True):
                assert value.shape == other.shape
                if value.dtype.kind == "f":
                    np.testing.assert_allclose(value, other, rtol=1e-5)
                else:
                    assert value.tolist() == other.tolist()
        with pytest.raises(ServingError, match=r"INVALID_ARGUMENT.*\n?.*one_text_per_example"):
            ask(1, 2)
    served.close()


def test_rows_of_ids_are_computed_in_groups_of_about_one_length(model):
    answers = tasks.task_of(model).answers(model)
    ids = answers.preprocess((tf.constant(QUESTIONS), tf.constant(CONTEXTS)))["token_ids"]
    plain, grouped = (signatures.servable(model, group_size=size).signatures["ids"] for size in (None, 2))
    for name, expected in plain(token_ids=ids).items():
        np.testing.assert_allclose(grouped(token_ids=ids)[name], expected, rtol=1e-4)
    kinds = [operation.type for operation in grouped.get_concrete_function().graph.get_operations()]
    assert {"While", "StatelessWhile"} & {*kinds}


@pytest.mark.slow
def test_tflite(model, preset, tmp_path):
    answers = tasks.task_of(model).answers(model)
    texts = tf.constant(QUESTIONS), tf.constant(CONTEXTS)
    token_ids = answers.preprocess(texts)["token_ids"].numpy()
    for mode in ("fp32", "fp16"):
        file = tmp_path / f"{mode}.tflite"
        tflite_files.export(preset, str(file), mode=mode)
        assert not conversion.custom_operations(file.read_bytes())
        found = tflite_files.runner(file.read_bytes())(token_ids)
        assert found.shape == (4, 2 * LENGTH)
        expected = answers.edge({"token_ids": token_ids, "padding_mask": token_ids != 0}).numpy()
        hidden = expected == np.float32(LOWEST)
        assert (found[hidden] < LOWEST / 2).all()
        assert np.abs(found - expected)[~hidden].max() < {"fp32": 1e-4, "fp16": 0.01}[mode]
        if mode == "fp32":
            compared = answers.compare(found, expected)
            assert compared["same_span"] == 1
            worse = np.where(hidden, expected, -expected)
            assert answers.compare(worse, expected)["same_span"] < 1


def test_a_text_alone_is_no_question(model):
    with pytest.raises(
        ValueError, match=r"`inputs` must be ids for a QuestionAnswerer.*question and context"
    ):
        signatures.edge(model, "text")
