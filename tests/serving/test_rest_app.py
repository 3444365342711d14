"""The application without a process around it: limits that a test had better not reach over a socket."""

import asyncio
import gzip
import json

import pytest

from serving.models import ModelConfig, ModelManager
from serving.rest import RestApp
from tests.serving.small_models import save_affine


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_affine(path / "1", 1)
    manager = ModelManager([ModelConfig("affine", str(path), labels={"next": 2})])
    manager.load(allow_labels_for_unavailable=True)
    return manager


def post(app, body, headers=()):
    """Sends one predict request to the application and returns status and document."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "raw_path": b"/v1/models/affine:predict",
        "query_string": b"",
        "headers": headers,
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_a_body_over_the_limit_is_refused_before_and_after_decompression(manager):
    app = RestApp(manager, max_body_bytes=128)
    assert post(app, b'{"instances": [1]}') == (200, {"predictions": [1.5]})
    too_large = (413, {"error": "Request body is larger than 128 bytes"})
    assert post(app, b'{"instances": [1]}' + b" " * 128) == too_large
    bomb = gzip.compress(b'{"instances": [1]}' + b" " * 10_000)
    assert len(bomb) < 128
    assert post(app, bomb, [(b"content-encoding", b"gzip")]) == too_large


def test_labels_need_the_versions_they_name(manager, tmp_path):
    save_affine(tmp_path / "1", 1)
    with pytest.raises(ValueError, match="label next names version 2, which is not loaded"):
        ModelManager([ModelConfig("affine", str(tmp_path), labels={"next": 2})]).load()
    assert manager.available() == [("affine", 1)]


def test_policies_choose_among_the_versions_on_disk(tmp_path):
    for name in ("1", "2", "0010", "notes", "-3", "²"):
        (tmp_path / name).mkdir()
    path = str(tmp_path)
    assert ModelConfig("m", path).wanted() == {10: f"{path}/0010"}
    assert ModelConfig("m", path, num_latest=2).wanted() == {2: f"{path}/2", 10: f"{path}/0010"}
    assert ModelConfig("m", path, num_latest=None).wanted().keys() == {1, 2, 10}
    assert ModelConfig("m", path, versions=(1, 7)).wanted() == {1: f"{path}/1"}
    assert ModelConfig("m", f"{path}/none").wanted() == {}
