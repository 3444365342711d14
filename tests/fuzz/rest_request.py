"""The reader of REST requests: the whole interface without sockets, on small models."""

import asyncio
import gzip
import json

from convnlp.serving.core.limits import Limits
from convnlp.serving.core.model_config import ModelConfig
from tests.fuzz.reader import Reader
from tests.serving.in_process import InProcess, request
from tests.serving.small_models import save_grammar

# 501: a verb or a type that is not implemented; 504: a request takes too long.
ALLOWED = {200, 400, 404, 413, 501, 504}
METHODS = ("predict", "classify", "regress")
_BODIES = {
    "predict": [
        {"instances": [1.0, -2.5e3]},
        {"signature_name": "pair", "inputs": {"a": [[1, 2]], "b": [3]}},
        {"signature_name": "two", "instances": [{"b64": "AAE="}, "text"]},
        {"signature_name": "int8", "instances": [1, -128]},
    ],
    "classify": [{"signature_name": "classify", "examples": [{"x": 1.0, "s": "a"}], "context": {"x": 2.0}}],
    "regress": [{"signature_name": "regress", "examples": [{"x": [1.0]}]}],
}


def small_models(folder):
    """The models that requests are for: `g`, with a signature for every kind of request."""
    save_grammar(folder / "g" / "1")
    limits = Limits(timeout_ms=2000, body_bytes=5000, decompressed_bytes=10_000, batch_size=8, text_bytes=100)
    return InProcess(folder, [ModelConfig("g", str(folder / "g"))], limits=limits), limits


class RestRequest(Reader):
    """The first byte chooses the method and whether the others, the body, are said to be gzip."""

    def __init__(self, folder):
        super().__init__(folder)
        self._models, _ = small_models(folder)
        self._loop = asyncio.new_event_loop()
        for i, method in enumerate(METHODS):
            for body in _BODIES[method]:
                written = json.dumps(body).encode()
                self.seeds += [bytes([i]) + written, bytes([i + len(METHODS)]) + gzip.compress(written)]

    def read(self, data):
        is_packed, method = divmod((data[0] if data else 0) % (2 * len(METHODS)), len(METHODS))
        headers = [("Content-Encoding", "gzip")] if is_packed else []
        asked = request(self._models.app, "POST", f"/v1/models/g:{METHODS[method]}", data[1:], headers)
        status, head, answer = self._loop.run_until_complete(asked)
        assert status in ALLOWED, (status, answer)
        assert int(head["content-length"]) == len(answer)
        if status != 200:
            assert json.loads(answer.decode("utf-8", "surrogateescape")).keys() == {"error"}
        assert self._models.app._gate.inside == 0
        return str(status)
