"""Sends one request over HTTP; returns JSON or raises a `RequestError`, whatever the other side does."""

import base64
import contextlib
import datetime
import email.utils
import http.client
import json
import math
import time
import urllib.error
import urllib.request

from convnlp.serving.client.address import check_timeout, is_loopback, parse_url
from convnlp.serving.client.errors import RequestError

_TRANSIENT = (429, 503)
_REFUSED = (400, 413)
_CHUNK_BYTES = 1 << 16


class HttpExchange:
    """Sends JSON to a server and reads JSON.

    Args:
        url: str. http://HOST:PORT or https://HOST:PORT.
        timeout_seconds: float in (0, 86400]. How long the other side may be silent, and how long the body of
            an answer may take.

    Attributes:
        url: str. The address without a trailing slash.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(self, url, timeout_seconds):
        parts = parse_url(url, ("http", "https"))
        check_timeout(timeout_seconds)
        self.url = url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        handlers = [_NoRedirect]
        if is_loopback(parts.hostname):
            handlers.append(urllib.request.ProxyHandler({}))  # ignores http_proxy and its kin
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, path, document=None):
        """Sends a GET, or a POST of a document.

        Args:
            path: str. The path below the server's address.
            document: dict or None. Bytes in it are sent as base64, arrays and their numbers as lists.

        Returns:
            dict, the answer, with base64 values decoded to bytes; strings that are not UTF-8 are bytes too.

        Raises:
            RequestError: if the document cannot be sent, if there is no answer, or if it is an error or not a
                JSON object.
        """
        body = None if document is None else _to_json(document)
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"})
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as response:
                content = self._read(response)
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from error
        except (OSError, http.client.HTTPException, ValueError, OverflowError) as error:
            raise self._failure(error) from error
        return self._parsed(content)

    def _read(self, response):
        """Reads the body; a server that sends a byte a minute does not hold the client forever."""
        deadline = time.monotonic() + self._timeout_seconds
        content = bytearray()
        while chunk := response.read1(_CHUNK_BYTES):
            content += chunk
            if time.monotonic() > deadline:
                raise TimeoutError
        if response.length:  # how much is missing; `read1` itself does not say
            raise http.client.IncompleteRead(bytes(content), response.length)
        return bytes(content)

    def _parsed(self, content):
        try:
            answer = _from_json(content)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"the answer of {self.url} is not JSON: {error}") from error
        if not isinstance(answer, dict):
            raise RequestError(f"the answer of {self.url} is not a JSON object")
        return answer

    def _refusal(self, error):
        """Returns an error with the server's words, or the status line if the body is not TF Serving's."""
        message = f"{error.code} {error.reason}".strip()
        if "Location" in error.headers:
            message += f", moved to {error.headers['Location']}"
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, RecursionError), error:
            answer = json.loads(self._read(error.fp))
            if isinstance(answer, dict) and isinstance(answer.get("error"), str):
                message = answer["error"] or message
        return RequestError(
            message,
            error.code,
            is_transient=error.code in _TRANSIENT,
            is_refused=error.code in _REFUSED,
            retry_after_seconds=retry_after(error.headers.get("Retry-After")),
        )

    def _failure(self, error):
        cause = getattr(error, "reason", None)
        cause = cause if isinstance(cause, Exception) else error
        if isinstance(cause, TimeoutError):
            return RequestError(f"no answer from {self.url} within {self._timeout_seconds:g} s")
        is_transient = isinstance(cause, (ConnectionError, http.client.IncompleteRead))
        if isinstance(cause, http.client.IncompleteRead):
            return RequestError(f"the answer of {self.url} breaks off", is_transient=True)
        if isinstance(cause, http.client.HTTPException) and not is_transient:
            what = f"{type(cause).__name__}: {str(cause)[:200]}"
            return RequestError(f"the answer of {self.url} is not HTTP ({what})")
        return RequestError(
            f"no answer from {self.url}: {str(cause) or type(cause).__name__}", is_transient=is_transient
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: a redirected POST would become a GET without its body, so fix the address."""

    def redirect_request(self, *_):
        return None


def retry_after(value):
    """Returns the seconds that a Retry-After header asks for, in either of its forms; None otherwise."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
            seconds = (moment - datetime.datetime.now(datetime.UTC)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _to_json(document):
    try:
        return json.dumps(document, default=_known_to_json).encode()
    except RecursionError as error:
        raise RequestError("an instance is nested too deeply for JSON", is_refused=True) from error
    except (TypeError, ValueError) as error:
        raise RequestError(str(error), is_refused=True) from error


def _known_to_json(value):
    """Returns lists and numbers for those of NumPy and the like, and the form of bytes."""
    return value.tolist() if hasattr(value, "tolist") else to_base64(value)


def _from_json(content):
    """Reads JSON; a server may write strings of TensorFlow that are not UTF-8 as they are."""
    text = content.decode("utf-8-sig", "surrogateescape")
    answer = json.loads(text, object_hook=from_base64)
    return answer if _is_utf8(text) else _with_bytes(answer)


def _is_utf8(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _with_bytes(value):
    """Returns JSON with bytes in place of the strings that "surrogateescape" could not decode."""
    if isinstance(value, list):
        return [_with_bytes(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_bytes(item) for name, item in value.items()}
    if not isinstance(value, str) or _is_utf8(value):
        return value
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair, which JSON can write as an escape
        return value


def to_base64(value):
    """Encodes bytes as in TF Serving's JSON.

    Raises:
        TypeError: if JSON has no form for the value.
    """
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    raise TypeError(f"an instance must be made of what JSON knows, or bytes, got {type(value).__name__}")


def from_base64(value):
    """Decodes what `to_base64` has encoded; other objects of JSON stay as they are.

    Raises:
        ValueError: if it is not base64.
    """
    if value.keys() == {"b64"} and isinstance(value["b64"], str):
        return base64.b64decode(value["b64"], validate=True)
    return value
