"""HTTP as TF Serving speaks it, on uvicorn's parser.

The real server stands on libevent. A client sees the difference at the edges: which verbs there are, what
becomes of a path that is no path, and an answer with a body to HEAD. And an answer leaves in one piece here,
which saves a system call and a packet.
"""

import asyncio
import re

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

VERBS = {"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}
_REQUEST_LINE = re.compile(rb"([^ \r\n]+) [^ \r\n]+ HTTP/1\.[01]\r?\n")
# What may stand in an address, after the scheme and host of an absolute one.
_AUTHORITY = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#]*")
_MAX_HEAD_BYTES = 2**16
_PATH = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?#]|%[0-9A-Fa-f]{2})*")


def html(status):
    """Returns the page that libevent sends for errors below the REST interface."""
    title = STATUS_LINE[status].decode().split(" ", 2)[2].strip()
    return (
        f"<HTML><HEAD>\n<TITLE>{status} {title}</TITLE>\n</HEAD><BODY>\n<H1>{title}</H1>\n</BODY></HTML>\n"
    ).encode()


class Protocol(HttpToolsProtocol):
    """One connection.

    The application finds the path in the scope as it was sent, query included, under "target"; it is None
    where it is no path, or a request of HTTP 0.9.
    """

    _head_bytes = 0

    def data_received(self, data):
        self._received = data
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > _MAX_HEAD_BYTES:
            self.send_400_response("")

    def on_message_begin(self):
        self._head_bytes = len(self._received)
        super().on_message_begin()

    def on_body(self, body):
        self._head_bytes = 0
        super().on_body(body)

    def send_400_response(self, msg):
        """Refuses what is no request; behind one that is under way, it only ends the connection."""
        if self.cycle and not self.cycle.response_complete and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        line = _REQUEST_LINE.match(self._received)
        status = 501 if line and line[1].decode("latin-1") not in VERBS else 400
        page = html(status)
        head = [
            STATUS_LINE[status],
            b"Content-Type: text/html\r\nConnection: close\r\n",
            b"Content-Length: %d\r\n\r\n" % len(page),
        ]
        self.transport.write(b"".join([*head, page]))
        self.transport.close()

    def on_headers_complete(self):
        self._head_bytes = 0
        scope = self.scope
        scope["method"] = self.parser.get_method().decode("latin-1")
        scope["http_version"] = self.parser.get_http_version()
        target = self.url.decode("latin-1")
        if not target.startswith("/") or target.startswith("//"):
            target = _AUTHORITY.sub("", target, count=1) or "/"
        is_request = scope["http_version"] in ("1.0", "1.1") and _PATH.fullmatch(target)
        scope["target"] = target if is_request else None
        path, _, query = target.partition("?")
        scope["path"] = path
        scope["raw_path"], scope["query_string"] = path.encode("latin-1"), query.encode("latin-1")
        existing = self.cycle
        self.cycle = _Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=scope["http_version"] != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if existing is None or existing.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))


class _Cycle(RequestResponseCycle):
    """One request and its answer, which has to state its length."""

    _head = None

    async def receive(self):
        if not self.more_body:  # the body came with the head, unasked
            self.waiting_for_100_continue = False
        return await super().receive()

    async def send(self, message):
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self.response_started = True
            status = STATUS_LINE[message["status"]]
            head = [b"HTTP/1.0" + status[8:] if self.scope["http_version"] == "1.0" else status]
            for name, value in (*self.default_headers, *message["headers"]):
                if name == b"connection" and value == b"close":
                    self.keep_alive = False
                else:
                    head.append(b"%s: %s\r\n" % (name, value))
            if not self.keep_alive:
                head.append(b"connection: close\r\n")
            self._head = b"".join([*head, b"\r\n"])
            return
        self.transport.write(self._head + message["body"])
        self._head = b""
        if not message.get("more_body"):
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()
