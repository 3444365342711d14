"""The REST interface: which path and verb means what, and the HTTP around it."""

import asyncio
import json
import logging
import re
import time
import zlib
from functools import partial
from urllib.parse import unquote_to_bytes

from serving.core.errors import ServingError, invalid_argument, timed_out, too_large
from serving.core.limits import Gate, Limits
from serving.core.messages import model_status, to_dict
from serving.rest.examples import classify_json, regress_json
from serving.rest.http_protocol import VERBS, html
from serving.rest.inbox import Inbox
from serving.rest.json_writer import quote
from serving.rest.predict import predict_json

# The methods of a POST, each called with (body, find_servable), and their names in the metrics.
METHODS = {"predict": predict_json, "classify": classify_json, "regress": regress_json}

_VERSION = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"/v1/models/(?P<name>[^/:]+){_VERSION}:(?P<method>{'|'.join(METHODS)})", re.I)
_GET = re.compile(rf"/v1/models(?:/(?P<name>[^/:]+))?{_VERSION}(?P<metadata>/metadata)?", re.I)
_CORS_HEADERS = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"POST, GET"),
    (b"access-control-allow-headers", b"Content-Type"),
]
_JSON = [(b"content-type", b"application/json")]
_CLOSE = [(b"connection", b"close")]
# Bodies and answers above these sizes are read and written outside the event loop, which others wait for.
_LARGE_BODY_BYTES = 2**16
_LARGE_ANSWER_VALUES = 2**12
_log = logging.getLogger("serving")


class RestApp:
    """The ASGI application.

    Args:
        manager: `ModelManager`. The models.
        runner: `Runner` or `Batcher`. Where they run.
        metrics: `Metrics`. What is counted.
        limits: `Limits`.
        cors: bool. Whether pages of other origins may read the answers.
        site: Callable or None. The ASGI application for paths outside /v1/; 404 for all of them if None.
    """

    def __init__(self, manager, runner, metrics, limits=None, cors=False, site=None):
        self._manager = manager
        self._runner = runner
        self._metrics = metrics
        self._limits = limits or Limits()
        self._cors_headers = _CORS_HEADERS if cors else []
        self._site = site
        self._inbox = None
        self._gate = Gate(self._limits.concurrent_requests, "concurrent requests (--max_concurrent_requests)")

    async def __call__(self, scope, receive, send):
        path = _target(scope)
        if path is None:
            await _send(send, 400, html(400), [(b"content-type", b"text/html"), *_CLOSE])
        elif scope["method"] not in VERBS:
            await _send(send, 501, html(501), [(b"content-type", b"text/html"), *_CLOSE])
        elif path[:4].lower() == "/v1/":
            await self._respond(scope, path, receive, send)
        elif self._site:
            await self._site(scope, receive, send)
        else:
            await not_found(scope, receive, send)

    async def _respond(self, scope, path, receive, send):
        verb = scope["method"]
        if verb == "OPTIONS":  # a browser's question before a request to another origin
            status = 200 if re.search("https?://", _header(scope, b"origin")) else 400
            headers = [(b"content-type", b"text/html; charset=ISO-8859-1"), *self._cors_headers]
            await _send(send, status, b"", headers)
            return
        started = time.monotonic()
        asked = _Asked()
        status, headers, code = 200, [*_JSON, *self._cors_headers], "OK"
        try:
            self._gate.enter()
            try:
                async with asyncio.timeout(self._limits.timeout_ms / 1000 or None):
                    text = await self._answer(verb, path, scope, receive, asked)
            except TimeoutError as error:
                raise timed_out() from error
            finally:
                self._gate.leave()
        except ServingError as error:
            text = error_json(error.message)
            status, code = error.http_status, error.code
            if status == 413:
                headers += _CLOSE  # the rest of the body is not read
        except Exception:
            _log.exception("%s %s", verb, path)
            text = error_json("Internal error, see the server's log")
            status, code = 500, "INTERNAL"
        # Names of no model are not kept: there is no end of them.
        name = asked.name if asked.name in self._manager.names() else ""
        self._metrics.request_count.add(name, code)
        if status == 200:
            self._metrics.request_latency.observe(_microseconds(started), name, asked.method, "REST")
        await _send(send, status, text.encode("utf-8", "surrogateescape"), headers)

    async def _answer(self, verb, path, scope, receive, asked):
        """Returns the document that answers a request, and fills in what it asked for."""
        grammar = {"POST": _POST, "GET": _GET}.get(verb)
        match = grammar.fullmatch(path) if grammar else None
        if not match:
            raise invalid_argument(f"Malformed request: {verb} {path}")
        asked.name = _decoded(match["name"] or "")
        version, label = match["version"], match["label"]
        if version is not None:
            digits = version.lstrip("0") or "0"
            if len(digits) > 19 or int(digits) >= 2**63:
                raise invalid_argument(f"Failed to convert version: {version} to numeric.")
            version = int(digits)
        label = _decoded(label) if label is not None else None
        if not asked.name:
            raise invalid_argument("Missing model name in request.")
        if verb == "POST":
            asked.method = match["method"]
            body = await self._body(scope, receive)
            return await self._run(body, asked.method.lower(), asked.name, version, label)
        if match["metadata"] == "/metadata":  # in capitals it passes the grammar, and asks for the status
            servable = self._manager.acquire(asked.name, version, label)
            try:
                return metadata_json(servable)
            finally:
                self._manager.release(servable)
        return status_json(self._manager.status(asked.name, version))

    async def _run(self, body, method, *model):
        """Reads a request, runs it, and writes the answer."""
        used = []

        def find_servable():
            used.append(self._manager.acquire(*model))
            return used[0]

        try:
            read = partial(METHODS[method], body, find_servable)
            servable, computation, to_json = await _aside(read, len(body) > _LARGE_BODY_BYTES)
            self._limits.check(computation.feeds)
            started = time.monotonic()
            future = self._runner.submit(servable, computation.feeds, computation.fetches)
            values = await self._inbox_of(asyncio.get_running_loop()).result(future)
            self._metrics.runtime_latency.observe(
                _microseconds(started), servable.name, method.capitalize(), "TF1"
            )
            if method != "predict":
                (examples,) = computation.feeds.values()
                self._metrics.example_counts.observe(len(examples), servable.name)
                self._metrics.example_total.add(servable.name, by=len(examples))
            is_large = sum(value.size for value in values) > _LARGE_ANSWER_VALUES
            return await _aside(lambda: to_json(computation.finish(values)), is_large)
        finally:
            for servable in used:
                self._manager.release(servable)

    def _inbox_of(self, loop):
        if self._inbox is None or self._inbox.loop is not loop:
            self._inbox = Inbox(loop)
        return self._inbox

    async def _body(self, scope, receive):
        """Reads the body, decompressed if it says it is gzip; what cannot be decompressed counts as empty."""
        limit = self._limits.body_bytes
        announced = _header(scope, b"content-length")
        if announced.isdigit() and int(announced) > limit:
            raise _body_too_large(limit)
        more, pieces = True, []
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ServingError("CANCELLED", "The client has gone")
            pieces.append(message.get("body", b""))
            limit -= len(pieces[-1])
            if limit < 0:
                raise _body_too_large(self._limits.body_bytes)
            more = message.get("more_body", False)
        body = b"".join(pieces)
        if "gzip" not in _header(scope, b"content-encoding"):
            return body
        return await _aside(partial(_unzipped, body, self._limits.body_bytes), len(body) > 2**12)


class _Asked:
    """What a request asks for, as far as it is known; for the metrics."""

    name = ""
    method = ""


async def _aside(function, is_large):
    """Calls a function, in another thread if it may take long."""
    if is_large:
        return await asyncio.get_running_loop().run_in_executor(None, function)
    return function()


def _unzipped(body, max_bytes):
    unzip = zlib.decompressobj(wbits=31)
    try:
        body = unzip.decompress(body, max_bytes)
    except zlib.error:
        return b""
    if unzip.unconsumed_tail:
        raise _body_too_large(max_bytes)
    return body if unzip.eof else b""


def _body_too_large(limit):
    return too_large(f"Request body is larger than {limit} bytes (--max_body_bytes)")


def status_json(states):
    """Writes the states of a model's versions."""
    return json.dumps(to_dict(model_status(states)), indent=1) + "\n"


def metadata_json(servable):
    """Writes name, version and signatures of a model, laid out as the real server lays them out."""
    signatures = {name: to_dict(signature) for name, signature in servable.signatures.items()}
    spec = {"name": servable.name, "version": str(servable.version), "signature_name": ""}
    signature_def = json.dumps({"signature_def": signatures}, indent=1)
    metadata = f'{{"signature_def": {signature_def}\n}}'
    return f'{{\n"model_spec":{json.dumps(spec, indent=1)}\n,\n"metadata": {metadata}\n}}\n'


def error_json(message):
    """Writes the document of an error."""
    return f'{{\n    "error": {quote(message.encode("utf-8", "surrogateescape"))}\n}}'


async def not_found(scope, receive, send):
    """The ASGI application for paths that there are not."""
    await _send(send, 404, html(404), [(b"content-type", b"text/html"), *_CLOSE])


async def _send(send, status, body, headers):
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _target(scope):
    """The path as it was sent: not decoded, with its query. None where it is no path."""
    if "target" in scope:
        return scope["target"]
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    return (scope["raw_path"] + query).decode("latin-1")


def _header(scope, name):
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _decoded(text):
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def _microseconds(since):
    return (time.monotonic() - since) * 1e6
