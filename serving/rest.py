"""The REST interface: which path and verb means what, and the HTTP around it."""

import json
import logging
import re
import zlib
from urllib.parse import unquote

from google.protobuf import json_format
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from serving.errors import ServingError, invalid_argument
from serving.json_writer import write
from serving.predict import predict

# The methods of a POST, each called with (body, find_servable, timeout_ms).
METHODS = {"predict": predict}
MAX_BODY_BYTES = 256 * 2**20

_VERSION = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"/v1/models/(?P<name>[^/:]+){_VERSION}:(?P<method>{'|'.join(METHODS)})", re.I)
_GET = re.compile(rf"/v1/models(?:/(?P<name>[^/:]+))?{_VERSION}(?P<metadata>/metadata)?", re.I)
_VERBS = {"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}
_CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Content-Type",
}
_log = logging.getLogger("serving")


class RestApp:
    """The ASGI application.

    Args:
        manager: `ModelManager`. The models.
        timeout_ms: int. How long a model may take over a request; 0 for as long as it likes.
        cors: bool. Whether pages of other origins may read the answers.
        max_body_bytes: int. The largest request, before and after decompression.
    """

    def __init__(self, manager, timeout_ms=30_000, cors=False, max_body_bytes=MAX_BODY_BYTES):
        self._manager = manager
        self._timeout_ms = timeout_ms
        self._cors = cors
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope, receive, send):
        request = Request(scope, receive)
        response = await self._respond(request)
        if self._cors:
            response.headers.update(_CORS_HEADERS)
        await response(scope, receive, send)

    async def _respond(self, request):
        path = _path(request.scope)
        if request.scope["http_version"] not in ("1.0", "1.1"):
            return _html(400, "Bad Request")
        if request.method not in _VERBS:
            return _html(501, "Not Implemented")
        if not path.lower().startswith("/v1/"):
            return _html(404, "Not Found")
        if request.method == "OPTIONS":  # a browser's question before a request to another origin
            allowed = re.match("https?://", request.headers.get("origin", ""))
            return Response(status_code=200 if allowed else 400, media_type="text/html")
        try:
            body = await self._body(request)
            return _json(await run_in_threadpool(self._answer, request.method, path, body))
        except ServingError as error:
            return _error(error.message, error.http_status)
        except _TooLarge:
            return _error(f"Request body is larger than {self._max_body_bytes} bytes", 413)
        except Exception:
            _log.exception("%s %s", request.method, path)
            return _error("Internal error, see the server's log", 500)

    def _answer(self, verb, path, body):
        """Returns the document that answers a request."""
        grammar = {"POST": _POST, "GET": _GET}.get(verb)
        match = grammar.fullmatch(path) if grammar else None
        if not match:
            raise invalid_argument(f"Malformed request: {verb} {path}")
        name, version, label = match["name"], match["version"], match["label"]
        if version is not None and int(version) >= 2**63:
            raise invalid_argument(f"Failed to convert version: {version} to numeric.")
        if name is None:
            raise invalid_argument("Missing model name in request.")
        name = unquote(name)
        version = int(version) if version is not None else None
        label = unquote(label) if label is not None else None
        if verb == "POST":
            method = METHODS[match["method"].lower()]
            return method(body, lambda: self._manager.find(name, version, label), self._timeout_ms)
        if match["metadata"] == "/metadata":  # in capitals it passes the grammar, and asks for the status
            return metadata_json(self._manager.find(name, version, label))
        return status_json(self._manager.status(name, version))

    async def _body(self, request):
        """Reads the body, decompressed if it says it is gzip; what cannot be decompressed counts as empty."""
        pieces, size = [], 0
        async for piece in request.stream():
            size += len(piece)
            if size > self._max_body_bytes:
                raise _TooLarge
            pieces.append(piece)
        body = b"".join(pieces)
        if "gzip" not in request.headers.get("content-encoding", ""):
            return body
        unzip = zlib.decompressobj(wbits=31)
        try:
            body = unzip.decompress(body, self._max_body_bytes)
        except zlib.error:
            return b""
        if unzip.unconsumed_tail:
            raise _TooLarge
        return body if unzip.eof else b""


class _TooLarge(Exception):
    """A body over the limit."""


def status_json(states):
    """Writes the states of a model's versions."""
    versions = [
        {
            "version": str(version),
            "state": state.state,
            "status": {"error_code": state.error_code, "error_message": state.error_message},
        }
        for version, state in states.items()
    ]
    return json.dumps({"model_version_status": versions}, indent=1) + "\n"


def metadata_json(servable):
    """Writes name, version and signatures of a model."""
    spec = {"name": servable.name, "version": str(servable.version), "signature_name": ""}
    signatures = {
        name: json_format.MessageToDict(
            signature, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        for name, signature in servable.signatures.items()
    }
    metadata = {"signature_def": {"signature_def": signatures}}
    return json.dumps({"model_spec": spec, "metadata": metadata}, indent=1) + "\n"


def _path(scope):
    """The path as it was sent: not decoded, with its query, without the host of an absolute address."""
    path = scope["raw_path"].decode("ascii")
    path += "?" + scope["query_string"].decode("latin-1") if scope["query_string"] else ""
    return re.sub(r"^https?://[^/]*", "", path, flags=re.I)


def _json(document, status=200):
    return Response(document.encode("utf-8", "surrogateescape"), status, media_type="application/json")


def _error(message, status):
    return _json(write({"error": message.encode("utf-8", "surrogateescape")}), status)


def _html(status, title):
    page = f"<HTML><HEAD>\n<TITLE>{status} {title}</TITLE>\n</HEAD><BODY>\n<H1>{title}</H1>\n</BODY></HTML>\n"
    headers = {"Connection": "close"} if status == 501 else None
    return Response(page, status, media_type="text/html", headers=headers)
