"""The reader of HTTP: what a client sends on a connection, in pieces, before the whole REST interface."""

import asyncio
import gzip
import re

import uvicorn
from uvicorn.server import ServerState

from convnlp.serving.rest.http_protocol import Protocol
from tests.fuzz.reader import Reader
from tests.fuzz.rest_request import small_models

# 100: go on; 408: too slow; 501: not implemented; 503: a queue is full; 504: a time-out.
ALLOWED = {100, 200, 400, 404, 408, 413, 501, 503, 504}
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]+")
_MOST_SECONDS = 10
_POST = b"POST /v1/models/g:predict HTTP/1.1\r\nHost: a\r\n"
_BODY = b'{"instances": [1.0]}'


def _whole(body):
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class _Transport(asyncio.Transport):
    """The end of a connection of which the other end reads at once."""

    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written, self.closed = bytearray(), False

    def write(self, data):
        self.written += data

    def close(self):
        self.closed = True

    abort = close

    def is_closing(self):
        return self.closed

    def get_write_buffer_size(self):
        return 0

    def write_eof(self):
        pass

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


def statuses(written):
    """The statuses of the answers in what a server has written; raises AssertionError where it is no HTTP."""
    found, rest = [], bytes(written)
    while rest:
        head, end, rest = rest.partition(b"\r\n\r\n")
        status = _STATUS.match(head)
        assert end, head[:100]
        assert status, head[:100]
        found.append(int(status[1]))
        if found[-1] != 100:
            (length,) = re.findall(rb"(?i)\r\ncontent-length: *(\d+)", head)
            assert len(rest) >= int(length), head
            rest = rest[int(length) :]
    return found


class HttpBytes(Reader):
    """The first byte says how long the pieces are, 0 for one piece; the others are what the client sends."""

    def __init__(self, folder):
        super().__init__(folder)
        models, _ = small_models(folder)
        self._config = uvicorn.Config(models.app, ws="none", lifespan="off", log_level="critical")
        self._config.load()
        self._gate = models.app._gate
        self._loop = asyncio.new_event_loop()
        self._errors = []
        self._loop.set_exception_handler(lambda loop, context: self._errors.append(context))
        whole, packed = _whole(_BODY), gzip.compress(_BODY, mtime=0)
        chunks = b"Transfer-Encoding: chunked\r\n\r\n4\r\n%s\r\n10\r\n%s\r\n0\r\n\r\n" % (
            _BODY[:4],
            _BODY[4:],
        )
        get = b"GET /v1/models/g/versions/1 HTTP/1.1\r\nHost: a\r\n"
        self.seeds = [
            b"\0" + _POST + whole,
            b"\7" + _POST + chunks,
            b"\0" + get + b"\r\n" + _POST + whole + get + b"Connection: close\r\n\r\n",
            b"\x20" + _POST + b"Expect: 100-continue\r\nContent-Encoding: gzip\r\n" + _whole(packed),
            b"\0GET http://a/v1/models/g/metadata HTTP/1.0\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        ]

    def read(self, data):
        size = (data[0] if data else 0) or max(len(data), 1)
        pieces = [data[start : start + size] for start in range(1, len(data), size)]
        transport = self._loop.run_until_complete(self._connection(pieces))
        assert self._errors == [], self._errors
        found = statuses(transport.written)
        assert {*found} <= ALLOWED, found
        assert self._gate.inside == 0
        return str(found[-1]) if found else "nothing"

    async def _connection(self, pieces):
        transport = _Transport()
        protocol = Protocol(self._config, ServerState(), {}, _loop=self._loop)
        protocol.connection_made(transport)
        for piece in pieces:
            if not transport.closed:
                protocol.data_received(piece)
                await asyncio.sleep(0)
        while (task := protocol._task) and not task.done() and not protocol._running.more_body:
            done, _ = await asyncio.wait([task], timeout=_MOST_SECONDS)
            assert done, "no answer"
            await asyncio.sleep(0)
        tasks = set(protocol.tasks)
        protocol.connection_lost(None)
        if tasks:  # those that wait for more, and are given up
            done, left = await asyncio.wait(tasks, timeout=_MOST_SECONDS)
            assert not left
        return transport
