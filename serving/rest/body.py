"""Reads and decompresses the body of a request, exceeding no limit by more than one piece."""

import asyncio
import functools
import zlib

from convnlp.serving.core.errors import ServingError, too_large

# The most compressed and the most decompressed data to handle at a time.
_PIECE_BYTES = 2**20
# The beginning of every body is accepted, so that small requests get through beside large ones.
_FREE_BYTES = 2**16


class Body:
    """The body of one request, and the work on it. It is under way until it is closed and the work done.

    Args:
        limits: `Limits`.
        in_flight: `Gate`. Counts the bytes of all requests.
        aside: `Aside`. Does the work.
    """

    def __init__(self, limits, in_flight, aside):
        self._limits = limits
        self._in_flight = in_flight
        self._aside = aside
        self._size = 0
        self._work = None

    async def read(self, scope, receive):
        """Reads the body, and decompresses it if the request says gzip; broken gzip counts as an empty body.

        Args:
            scope: dict. The ASGI scope.
            receive: Callable. ASGI's `receive`.

        Returns:
            bytes.

        Raises:
            ServingError: if the body is larger than a limit, or the client disconnects.
        """
        limit = self._limits.body_bytes
        announced = header(scope, b"content-length")
        if announced.isdecimal() and int(announced[:20]) > limit:
            raise _larger_than(limit, "body")
        pieces, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ServingError("CANCELLED", "The client has gone")
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > limit:
                raise _larger_than(limit, "body")
            self._count(len(pieces[-1]))
            more = message.get("more_body", False)
        body = b"".join(pieces)
        if "gzip" not in header(scope, b"content-encoding"):
            return body
        return await self._unzipped(body)

    async def _unzipped(self, body):
        limit, flag = min(
            (self._limits.body_bytes, "body"), (self._limits.decompressed_bytes, "decompressed")
        )
        pieces, size, unzipped = [], 0, _unzip(body)
        try:
            while piece := await self.run(functools.partial(next, unzipped, None), len(body)):
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    raise _larger_than(limit, flag)
                self._count(len(piece))
        except zlib.error:
            return b""
        return b"".join(pieces)

    def _count(self, size):
        new = max(self._size + size - _FREE_BYTES, 0) - max(self._size - _FREE_BYTES, 0)
        if new:
            self._in_flight.enter(new)
        self._size += size

    async def run(self, function, size):
        """Calls a function in another thread.

        Args:
            function: Callable without arguments.
            size: int. How many bytes the function works on.

        Returns:
            The result of the function. If the wait is cancelled before its turn, the function is not called.
        """
        self._work = self._aside.submit(function, size)
        return await asyncio.wrap_future(self._work)

    def close(self):
        """Stops counting the body as soon as nothing works on it."""
        counted = max(self._size - _FREE_BYTES, 0)
        if counted:
            self.when_idle(lambda: self._in_flight.leave(counted))

    def when_idle(self, function):
        """Calls a function as soon as nothing works on the body; work may outlast its request."""
        if self._work:
            self._work.add_done_callback(lambda _: function())
        else:
            function()


def header(scope, name):
    """Returns the value of the first header of this name, or "" if there is none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _unzip(body):
    """Yields non-empty pieces of decompressed data; raises zlib.error if the end is missing."""
    unzip = zlib.decompressobj(wbits=31)
    for start in range(0, len(body), _PIECE_BYTES):
        rest, is_full = body[start : start + _PIECE_BYTES], True
        while (rest or is_full) and not unzip.eof:
            piece = unzip.decompress(rest, _PIECE_BYTES)
            rest, is_full = unzip.unconsumed_tail, len(piece) == _PIECE_BYTES
            if piece:
                yield piece
    if not unzip.eof:
        raise zlib.error("the end is missing")


def _larger_than(limit, flag):
    return too_large(f"Request body is larger than {limit} bytes (--max_{flag}_bytes)")
