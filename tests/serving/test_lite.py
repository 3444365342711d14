"""`--prefer_tflite_model`: the answers of model.tflite are those of the SavedModel beside it."""

import os
import threading
import time

import numpy as np
import pytest

from convnlp import saved_model_sums
from convnlp.export.edge_model import EdgeModel
from convnlp.export.lite import tflite_files
from convnlp.export.saved_models import versions
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.lite import LiteServable
from convnlp.serving.core.loader import Loader
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.servable import Servable
from convnlp.serving.core.stop_switch import POOL
from tests.serving import server_process
from tests.small_classifier import small_classifier

LABELS = ["bad", "fair", "good"]
TEXTS = ["the river", "", "A dreadful film about the engine.", "Köln 🙂", "the old teacher " * 20]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The base directory of a classifier that is exported with its TFLite file."""
    folder = tmp_path_factory.mktemp("lite")
    classifier = small_classifier(["dynamic_conv", "self_attention"], 16, LABELS)
    kernel = classifier.head.kernel
    kernel.assign(np.random.default_rng(0).normal(size=kernel.shape))  # so that the answers differ
    classifier.save_to_preset(str(folder / "preset"))
    versions.export(str(folder / "preset"), str(folder / "model"), check=False, tflite=True)
    file = folder / "model" / "1" / "model.tflite"
    assert EdgeModel(str(file)).facts["mode"] == "dynamic"
    tflite_files.export(str(folder / "preset"), file, mode="fp32")  # whose answers are the same
    saved_model_sums.write(folder / "model" / "1")
    return folder / "model"


@pytest.fixture(scope="module")
def both(base):
    path = str(base / "1")
    lite = LiteServable("m", 1, f"{path}/model.tflite", path, num_interpreters=2)
    plain = Servable("m", 1, path)
    yield lite, plain
    for servable in (lite, plain):
        servable.close()


def ask(servable, signature, outputs=None, **columns):
    found = servable.signatures[signature]
    feeds = {found.inputs[name].name: value for name, value in columns.items()}
    outputs = outputs or sorted(found.outputs)
    values = servable.run(feeds, tuple(found.outputs[name].name for name in outputs))
    return dict(zip(outputs, values, strict=True))


def strings(texts):
    return np.array([text if isinstance(text, bytes) else text.encode() for text in texts], object)


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        if value.dtype == object:
            assert found[name].tolist() == value.tolist()
        else:
            np.testing.assert_allclose(found[name], value, atol=1e-5)


@pytest.fixture
def saved_model_runs(monkeypatch):
    """How often the SavedModel was asked by a `LiteServable`."""
    runs, run = [], Servable.run

    def counted(self, feeds, fetches, cancellation=None):
        if isinstance(self, LiteServable):
            runs.append(fetches)
        return run(self, feeds, fetches, cancellation)

    monkeypatch.setattr(Servable, "run", counted)
    return runs


@pytest.mark.parametrize(
    ("signature", "columns"),
    [
        ("serving_default", {"text": strings(TEXTS)}),
        ("pair", {"text": strings(TEXTS), "text_pair": strings(TEXTS[::-1])}),
        ("ids", {"token_ids": np.array([[5, 6, 1, 0], [7, 1, 0, 0]], np.int32)}),
    ],
)
def test_the_file_answers_as_the_saved_model(both, saved_model_runs, signature, columns):
    lite, plain = both
    expected = ask(plain, signature, **columns)
    assert_close(ask(lite, signature, **columns), expected)
    assert np.ptp(expected["scores"]) > 0.1
    found = ask(lite, signature, ["scores"], **columns)
    assert_close(found, {"scores": expected["scores"]})
    assert not saved_model_runs


@pytest.mark.parametrize(
    ("signature", "columns"),
    [
        ("explain", {"text": strings(TEXTS)}),
        ("explain_pair", {"text": strings(TEXTS), "text_pair": strings(TEXTS[::-1])}),
        ("embed", {"text": strings(TEXTS)}),
        ("serving_default", {"text": strings([b"\xff\xfe broken", "whole"])}),
        ("serving_default", {"text": strings([])}),
        ("ids", {"token_ids": np.zeros([2, 0], np.int32)}),
    ],
)
def test_the_saved_model_answers_the_rest(both, saved_model_runs, signature, columns):
    lite, plain = both
    assert_close(ask(lite, signature, **columns), ask(plain, signature, **columns))
    assert len(saved_model_runs) == 1


@pytest.mark.parametrize(
    ("signature", "columns"),
    [
        ("ids", {"token_ids": np.array([[5, 10**6, 1]], np.int32)}),
        ("ids", {"token_ids": np.array([[5, -1, 1]], np.int32)}),
        ("ids", {"token_ids": np.array([5, 1], np.int32)}),
        ("pair", {"text": strings(["a", "b"]), "text_pair": strings(["a"])}),
        ("serving_default", {"text": strings(["a"]).reshape(1, 1)}),
    ],
)
def test_what_is_wrong_has_the_saved_model_s_words(both, signature, columns):
    errors = []
    for servable in both:
        try:
            errors.append(ask(servable, signature, **columns))
        except ServingError as error:
            errors.append((error.code, error.message))
    if isinstance(errors[1], tuple):
        assert errors[0] == errors[1]
    else:
        assert_close(*errors)


def test_a_file_that_is_none_is_not_loaded(base, tmp_path):
    (tmp_path / "model.tflite").write_bytes(b"TFL3")
    with pytest.raises(ValueError, match=r"model.tflite is not a file of export\.tflite"):
        LiteServable("m", 1, str(tmp_path / "model.tflite"), str(base / "1"))


def test_a_run_that_waits_for_an_interpreter_ends_though_the_model_is_unloaded(base, monkeypatch):
    """Its request has timed out, so that nothing keeps the model; its thread would be lost to the server."""
    path, run, is_closed = str(base / "1"), EdgeModel.run, threading.Event()

    def slow(self, token_ids):
        assert is_closed.wait(60)
        return run(self, token_ids)

    monkeypatch.setattr(EdgeModel, "run", slow)
    lite = LiteServable("m", 1, f"{path}/model.tflite", path, num_interpreters=1)
    interpreters = lite._interpreters
    requests = [
        threading.Thread(
            target=ask, args=(lite, "serving_default"), kwargs={"text": strings(["a"])}, daemon=True
        )
        for _ in range(2)
    ]
    for request in requests:
        request.start()
    while not (interpreters.empty() and interpreters.not_empty._waiters):
        time.sleep(0.01)
    lite.close()
    is_closed.set()
    for request in requests:
        request.join(30)
    assert not any(request.is_alive() for request in requests)
    with pytest.raises(ServingError, match="m version 1 has been unloaded"):
        ask(lite, "serving_default", text=strings(["a"]))


@pytest.mark.parametrize("prefer_tflite", [False, True])
def test_the_saved_model_has_a_thread_for_each_run_that_there_may_be(base, prefer_tflite):
    """Otherwise loops that run in all of its threads could not be stopped."""
    num_runs = 5 * (os.cpu_count() or 1)
    servable = Loader(Metrics(), prefer_tflite=prefer_tflite, num_runs=num_runs)("m", 1, str(base / "1"))
    assert isinstance(servable, LiteServable) == prefer_tflite
    pools = servable._session._config.session_inter_op_thread_pool
    servable.close()
    assert pools[POOL].num_threads > num_runs


def test_the_server_prefers_it(base, both, tmp_path):
    expected = ask(both[1], "serving_default", text=strings(TEXTS))
    flags = ["--model_name=m", f"--model_base_path={base}", "--prefer_tflite_model"]
    with server_process.running(tmp_path / "log", "m", *flags) as client:
        answers = client.predict("m", TEXTS)
    assert [answer["label"].encode() for answer in answers] == expected["label"].tolist()
    np.testing.assert_allclose([answer["scores"] for answer in answers], expected["scores"], atol=1e-5)
