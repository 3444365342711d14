"""The REST interface: the meaning of paths and verbs, and the HTTP around it."""

import asyncio
import json
import logging
import re
import time
from urllib.parse import unquote_to_bytes

from convnlp.serving.core.errors import ServingError, invalid_argument, timed_out, too_large
from convnlp.serving.core.limits import Gate, Limits
from convnlp.serving.core.messages import model_status, to_dict
from convnlp.serving.core.metrics import microseconds
from convnlp.serving.rest import predict
from convnlp.serving.rest.aside import Aside
from convnlp.serving.rest.body import Body, header
from convnlp.serving.rest.examples import classify_json, regress_json
from convnlp.serving.rest.http_protocol import VERBS, html
from convnlp.serving.rest.inbox import Inbox
from convnlp.serving.rest.json_reader import UNREAD, count_nodes
from convnlp.serving.rest.json_writer import quote
from convnlp.serving.rest.predict import predict_json

# The methods of a POST, which are case-sensitive; each is called with (document, find_servable, limits).
METHODS = {"predict": predict_json, "classify": classify_json, "regress": regress_json}

_VERSION = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"(?i:/v1/models/(?P<name>[^/:]+){_VERSION}):(?P<method>{'|'.join(METHODS)})")
_GET = re.compile(rf"/v1/models(?:/(?P<name>[^/:]+))?{_VERSION}(?P<metadata>/metadata)?", re.I)
_CORS_HEADERS = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"POST, GET"),
    (b"access-control-allow-headers", b"Content-Type"),
]
_JSON = [(b"content-type", b"application/json")]
_CLOSE = [(b"connection", b"close")]
# Larger bodies and answers are read and written outside the event loop, so that other requests need not wait.
_LARGE_BODY_BYTES = 2**13
_LARGE_ANSWER_VALUES = 2**12
_BYTES_A_VALUE = 16
_log = logging.getLogger("serving")


class RestApp:
    """The ASGI application, for requests that have come through `Protocol`.

    Args:
        manager: `ModelManager`. The models.
        runner: `Runner` or `Batcher`. Runs the models.
        metrics: `Metrics`. Counts requests.
        limits: `Limits`.
        cors: bool. Whether pages of other origins may read the answers.
        site: Callable or None. The ASGI application for paths outside /v1/; if None, they all get 404.
        hosts: `AllowedHosts` or None. The names by which clients may call the server; any name if None.
    """

    def __init__(self, manager, runner, metrics, limits=None, cors=False, site=None, hosts=None):
        self._manager = manager
        self._runner = runner
        self._metrics = metrics
        self._limits = limits or Limits()
        self._cors_headers = _CORS_HEADERS if cors else []
        self._site = site
        self._hosts = hosts
        self._inbox = None
        self._gate = Gate(self._limits.concurrent_requests, "concurrent requests (--max_concurrent_requests)")
        in_flight = "bytes of requests under way (--max_bytes_in_flight)"
        self._in_flight = Gate(self._limits.bytes_in_flight, in_flight)
        self._aside = Aside()

    async def __call__(self, scope, receive, send):
        path = scope["target"]
        if self._hosts and (host := self._hosts.refused(scope["headers"])) is not None:
            text = error_json(f"The host {host} is not allowed (--allowed_hosts)")
            await _send(send, 403, text.encode("utf-8", "surrogateescape"), [*_JSON, *_CLOSE])
        elif path is None:
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
        if verb == "OPTIONS":  # a browser asks before a request to another origin
            status = 200 if re.search("https?://", header(scope, b"origin")) else 400
            headers = [(b"content-type", b"text/html; charset=ISO-8859-1"), *self._cors_headers]
            await _send(send, status, b"", headers)
            return
        started = time.monotonic()
        asked = _Asked()
        status, headers, code = 200, [*_JSON, *self._cors_headers], "OK"
        try:
            try:
                async with asyncio.timeout(self._limits.timeout_ms / 1000 or None):
                    text = await self._answer(verb, path, scope, receive, asked)
            except TimeoutError as error:
                raise timed_out() from error
        except ServingError as error:
            text = error_json(error.message)
            status, code = error.http_status, error.code
            if status == 413:
                headers += _CLOSE  # the rest of the body is not read
        except asyncio.CancelledError:  # the client has disconnected, so the protocol gives the request up
            self._metrics.request_count.add(self._known(asked.name), "CANCELLED")
            raise
        except Exception:
            _log.exception("%s %s", verb, path)
            text = error_json("Internal error, see the server's log")
            status, code = 500, "INTERNAL"
        name = self._known(asked.name)
        self._metrics.request_count.add(name, code)
        if status == 200:
            self._metrics.request_latency.observe(microseconds(started), name, asked.method, "REST")
        await _send(send, status, text.encode("utf-8", "surrogateescape"), headers)

    def _known(self, name):
        """Returns the name for the metrics: "" if there is no such model, as clients may send any name."""
        return name if name in self._manager.names() else ""

    async def _answer(self, verb, path, scope, receive, asked):
        """Returns the document that answers a request, and notes in `asked` what was requested."""
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
            self._gate.check()  # before the body is read
            body = Body(self._limits, self._in_flight, self._aside)
            try:
                content = await body.read(scope, receive)
                self._gate.enter()
                try:
                    return await self._run(body, content, asked.method, asked.name, version, label)
                finally:
                    self._gate.leave()
            finally:
                body.close()
        if match["metadata"] == "/metadata":  # in capitals, the grammar accepts it but it means the status
            servable = self._manager.acquire(asked.name, version, label)
            try:
                return metadata_json(servable)
            finally:
                self._manager.release(servable)
        return status_json(self._manager.status(asked.name, version))

    async def _run(self, body, content, method, *model):
        """Reads a request, runs it, and writes the answer."""
        used = []

        def find_servable():
            used.append(self._manager.acquire(*model))
            return used[0]

        def prepare(document):
            prepared = METHODS[method](document, find_servable, self._limits)
            self._limits.check_texts(prepared[1].feeds)
            return prepared

        def read_and_prepare():
            if count_nodes(content) > self._limits.json_nodes:
                most = self._limits.json_nodes
                raise too_large(
                    f"More than {most} arrays, objects and members in the body (--max_json_nodes)"
                )
            return prepare(predict.read_object(content))

        try:
            # No body has more nodes than bytes, so in a small one they need not be counted.
            is_large = len(content) > min(_LARGE_BODY_BYTES, self._limits.json_nodes)
            document = UNREAD if is_large else predict.read_object(content, True)
            if document is UNREAD:
                servable, computation, to_json = await body.run(read_and_prepare, len(content))
            else:
                servable, computation, to_json = prepare(document)
            started = time.monotonic()
            future = self._runner.submit(servable, computation.feeds, computation.fetches)
            values = await self._inbox_of(asyncio.get_running_loop()).result(future)
            self._metrics.runtime_latency.observe(
                microseconds(started), servable.name, method.capitalize(), "TF1"
            )
            if method != "predict":
                (examples,) = computation.feeds.values()
                self._metrics.example_counts.observe(len(examples), servable.name)
                self._metrics.example_total.add(servable.name, by=len(examples))
            size = sum(value.size for value in values)
            if size > _LARGE_ANSWER_VALUES:
                return await body.run(lambda: to_json(computation.finish(values)), size * _BYTES_A_VALUE)
            return to_json(computation.finish(values))
        finally:
            # After a time-out, reading may go on and still acquire a model.
            body.when_idle(lambda: [self._manager.release(servable) for servable in used])

    def _inbox_of(self, loop):
        if self._inbox is None or self._inbox.loop is not loop:
            self._inbox = Inbox(loop)
        return self._inbox


class _Asked:
    """What a request asks for, as far as is known, for the metrics."""

    name = ""
    method = ""


def status_json(states):
    """Writes the states of a model's versions."""
    return json.dumps(to_dict(model_status(states)), indent=1) + "\n"


def metadata_json(servable):
    """Writes name, version and signatures of a model in the layout of the real server."""
    signatures = {name: to_dict(signature) for name, signature in servable.signatures.items()}
    spec = {"name": servable.name, "version": str(servable.version), "signature_name": ""}
    signature_def = json.dumps({"signature_def": signatures}, indent=1)
    metadata = f'{{"signature_def": {signature_def}\n}}'
    return f'{{\n"model_spec":{json.dumps(spec, indent=1)}\n,\n"metadata": {metadata}\n}}\n'


def error_json(message):
    """Writes the document of an error."""
    return f'{{\n    "error": {quote(message.encode("utf-8", "surrogateescape"))}\n}}'


async def not_found(scope, receive, send):
    """The ASGI application for paths that do not exist."""
    await _send(send, 404, html(404), [(b"content-type", b"text/html"), *_CLOSE])


async def _send(send, status, body, headers):
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _decoded(text):
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")
