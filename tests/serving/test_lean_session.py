"""Models in a Session that keeps no more of them than it needs."""

import gc
import weakref

import numpy as np
import pytest
from tensorflow.core.protobuf import config_pb2

from convnlp.serving.core import prepared_run
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.lean_session import LeanSession
from convnlp.serving.core.servable import Servable
from tests.serving.small_models import save_affine, save_upper


def test_a_model_without_variables_answers(tmp_path):
    save_upper(tmp_path / "1")
    servable = Servable("upper", 1, str(tmp_path / "1"))
    signature = servable.signatures["serving_default"]
    feeds = {signature.inputs["text"].name: np.array([b"a", "é".encode()], object)}
    for _ in range(2):
        (upper,) = servable.run(feeds, (signature.outputs["upper"].name,))
        assert upper.tolist() == [b"A", "é".encode()]
    servable.close()


def test_the_functions_are_kept_by_the_session_alone(tmp_path):
    save_affine(tmp_path / "1", 1)
    loaded = LeanSession(str(tmp_path / "1"), config_pb2.ConfigProto())
    assert loaded.session.graph._functions
    loaded.restore()
    assert not loaded.session.graph._functions
    assert not loaded.session.graph.as_graph_def().library.function
    signature = loaded.signatures["serving_default"]
    feeds = {signature.inputs["x"].name: [2.0]}
    assert loaded.session.run(signature.outputs["y"].name, feeds) == [2.0]
    loaded.session.close()


@pytest.mark.parametrize("can_be_ended", [False, True])
def test_an_unloaded_model_leaves_nothing_for_the_collector(tmp_path, monkeypatch, can_be_ended):
    """It comes seldom to a server, and sees the objects of a graph, not the memory behind them."""
    if can_be_ended:
        monkeypatch.setattr(prepared_run.PreparedRun, "_was_short", False)
        monkeypatch.setattr(prepared_run, "_SHORT_SECONDS", 0.0)
    save_affine(tmp_path / "1", 1)
    gc.collect()
    gc.disable()
    try:
        servable = Servable("affine", 1, str(tmp_path / "1"))
        signature = servable.signatures["serving_default"]
        run = {signature.inputs["x"].name: np.float32([2.0])}, (signature.outputs["y"].name,)
        for _ in range(2):
            assert servable.run(*run)[0].tolist() == [2.0]
        assert bool(servable._switches._free) >= can_be_ended
        session, operation = weakref.ref(servable._session), weakref.ref(_operation(servable))
        assert session() is not None
        assert operation() is not None
        servable.close()
        assert session() is None
        assert operation() is None
        servable.close()  # once more is no error
        with pytest.raises(ServingError, match="CANCELLED: affine version 1 has been unloaded"):
            servable.run(*run)
    finally:
        gc.enable()


def _operation(servable):
    return servable._session.graph.get_operations()[0]
