"""HTTP, based on uvicorn's protocol for httptools, the parser of Node.js.

It differs in these points. An offer to switch to another protocol is declined, and the request answered. A
client that sends or reads too slowly is disconnected. If a client disconnects, its request is given up. An
answer is sent in one piece, which saves a system call and a packet. HEAD and unknown verbs are answered as by
TF Serving.
"""

import asyncio
import re
from dataclasses import dataclass

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

VERBS = {"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}
_REQUEST_LINE = re.compile(rb"[^ \r\n]+ [^ \r\n]+ HTTP/1\.[01]\r?\n")
_PATH = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?#]|%[0-9A-Fa-f]{2})*")
# The scheme and host in a request to a proxy.
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_MAX_HEAD_BYTES = 2**16
# How much a slow client must read within `Timeouts.write`, unless it reads everything.
_LEAST_PROGRESS_BYTES = 2**16
# How long an unwanted body may continue after its answer; if it were cut off, the answer would be lost.
_LINGER_SECONDS = 5.0


@dataclass(frozen=True)
class Timeouts:
    """How long a client may take, in seconds.

    Args:
        idle: float. Between the connection or an answer, and the next request.
        read: float. For the head of a request, and for each pause in its body.
        write: float. To read 64 KiB of an answer, or the rest of it.
    """

    idle: float = 60.0
    read: float = 30.0
    write: float = 30.0


DEFAULT_TIMEOUTS = Timeouts()


def html(status):
    """Returns the page that libevent sends for errors that do not reach the REST interface."""
    title = STATUS_LINE[status].decode().split(" ", 2)[2].strip()
    return (
        f"<HTML><HEAD>\n<TITLE>{status} {title}</TITLE>\n</HEAD><BODY>\n<H1>{title}</H1>\n</BODY></HTML>\n"
    ).encode()


class Protocol(HttpToolsProtocol):
    """One connection.

    The entry "target" of the scope is the path as it was sent, including the query; it is None if that is not
    a path, or for HTTP 0.9.

    Args:
        *args: as for uvicorn's protocol.
        timeouts: `Timeouts`.
        **kwargs: as for uvicorn's protocol.
    """

    def __init__(self, *args, timeouts=DEFAULT_TIMEOUTS, **kwargs):
        super().__init__(*args, **kwargs)
        self.timeout_keep_alive = timeouts.idle
        self._timeouts = timeouts
        self._head_bytes = 0  # received bytes that are not body, not counting those with the beginning
        self._head_since = None  # while a head is incomplete
        self._idle_since = 0.0
        self._declines_upgrade = False
        self._is_lingering = False
        self._running = None  # the cycle on which the application works, and its task
        self._task = None
        self._written = 0
        self._progress = 0
        self._write_timer = None

    def connection_made(self, transport):
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._close_after(self._timeouts.idle)

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if self._write_timer:
            self._write_timer.cancel()
        if self._task and not self._task.done():
            self._running.disconnected = True
            self._task.cancel()

    # Receiving.

    def data_received(self, data):
        if self._is_lingering:
            return
        self._unset_keepalive_if_required()
        self._head_bytes += len(data)
        try:
            self._feed(memoryview(data))
        except httptools.HttpParserError as error:
            is_verb = isinstance(error, httptools.HttpParserInvalidMethodError) and _REQUEST_LINE.match(data)
            self._reject(501 if is_verb else 400)
            return
        if self._head_bytes > _MAX_HEAD_BYTES:
            self._reject(400)
        elif not self.transport.is_closing():
            self._wait_for_more()

    def _feed(self, data):
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if not self._declines_upgrade:  # CONNECT: what follows is not HTTP
                    return
                # The parser would stop here, so another one reads the same request without the offer.
                data = data[upgrade.args[0] :]
                head = [b"%s %s HTTP/1.1\r\n" % (self.parser.get_method(), self.url)]
                head += [b"%s: %s\r\n" % pair for pair in self.headers if pair[0] != b"upgrade"]
                self._declines_upgrade = False
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
                self.parser.feed_data(b"".join([*head, b"\r\n"]))

    def on_message_begin(self):
        self._head_bytes = 0
        self._head_since = self.loop.time()
        super().on_message_begin()

    def on_headers_complete(self):
        method = self.parser.get_method().decode("latin-1")
        self._declines_upgrade = self.parser.should_upgrade() and method != "CONNECT"
        if self._declines_upgrade:
            return
        self._head_bytes = 0
        self._head_since = None
        scope = self.scope
        scope["method"] = method
        scope["http_version"] = self.parser.get_http_version()
        target = self.url.decode("latin-1")
        if not target.startswith("/"):
            target = _AUTHORITY.sub("", target, count=1) or "/"
        is_request = scope["http_version"] in ("1.0", "1.1") and _PATH.fullmatch(target)
        scope["target"] = target if is_request else None
        path, _, query = target.partition("?")
        scope["path"] = path
        scope["raw_path"], scope["query_string"] = path.encode("latin-1"), query.encode("latin-1")
        existing = self.cycle
        self.cycle = _Cycle(
            protocol=self,
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue and scope["http_version"] == "1.1",
            # The answer to a HEAD may have a body, after which a client would not find the next answer.
            keep_alive=scope["http_version"] != "1.0"
            and method != "HEAD"
            and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if existing is None or existing.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body):
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self):
        if not self._declines_upgrade:
            self._head_bytes = 0
            super().on_message_complete()
            if not self.pipeline:
                self.flow.resume_reading()  # so that the end of the connection is noticed

    def _start_asgi_task(self, cycle, app):
        self._running = cycle
        self._task = self.loop.create_task(cycle.run_asgi(app))
        self._task.add_done_callback(self.tasks.discard)
        self.tasks.add(self._task)

    # Slow clients.

    def _wait_for_more(self):
        """Sets a time limit for more data, if it is the client's turn."""
        if self.cycle is None or self.cycle.response_complete:
            # Does not start again now, or sending a byte at a time would keep the connection open for ever.
            since, seconds = self._idle_since, self._timeouts.idle
            if self._head_since is not None:
                since, seconds = self._head_since, self._timeouts.read
            self._close_after(since + seconds - self.loop.time())
        elif self.cycle.more_body:
            self._close_after(self._timeouts.read)

    def _close_after(self, seconds):
        self.timeout_keep_alive_task = self.loop.call_later(max(seconds, 0.0), self._time_is_up)

    def _time_is_up(self):
        is_idle = self.cycle is None or self.cycle.response_complete
        if self.transport.is_closing():
            return
        if not is_idle and self.flow.read_paused:  # the client cannot send now
            self._close_after(self._timeouts.read)
        elif is_idle and self._head_since is None:
            self.transport.close()
        else:
            self._reject(408)

    def on_response_complete(self):
        self._idle_since = self.loop.time()
        if self._is_lingering:
            self.server_state.total_requests += 1
        else:
            super().on_response_complete()
            self.wait_for_turns()

    def wait_for_turns(self):
        """Stops reading while requests wait for their turn; uvicorn would resume reading after every answer.

        Otherwise a client that keeps sending requests could fill the memory with them.
        """
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()

    # Sending.

    def write(self, data):
        """Sends bytes, and disconnects a client that does not read them."""
        self.transport.write(data)
        self._written += len(data)
        if self._write_timer is None and self.transport.get_write_buffer_size():
            self._watch_writing()

    def _watch_writing(self):
        self._progress = self._written - self.transport.get_write_buffer_size()
        self._write_timer = self.loop.call_later(self._timeouts.write, self._check_writing)

    def _check_writing(self):
        self._write_timer = None
        remaining = self.transport.get_write_buffer_size()
        if remaining and self._written - remaining < self._progress + _LEAST_PROGRESS_BYTES:
            self.transport.abort()
        elif remaining:
            self._watch_writing()

    def _reject(self, status):
        """Answers an invalid request; if another one is under way, only ends the connection after that."""
        if self.cycle and not self.cycle.response_complete and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        page = html(status)
        head = [
            STATUS_LINE[status],
            b"Content-Type: text/html\r\nConnection: close\r\n",
            b"Content-Length: %d\r\n\r\n" % len(page),
        ]
        self.write(b"".join([*head, page]))
        self.transport.close()

    def finish(self, has_more):
        """Ends the connection after an answer; for a while, what the client still sends is thrown away."""
        if not has_more or self.transport.is_closing():
            self.transport.close()
            return
        self._is_lingering = True
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(_LINGER_SECONDS, self.transport.close)
        self.flow.resume_reading()
        self.transport.write_eof()


class _Cycle(RequestResponseCycle):
    """One request and its answer, which must state its length."""

    _head = None

    def __init__(self, protocol, **kwargs):
        super().__init__(**kwargs)
        self._protocol = protocol

    async def run_asgi(self, app):
        async def until_cancelled(scope, receive, send):
            try:
                await app(scope, receive, send)
            except asyncio.CancelledError:  # the client has disconnected, or the server is stopping
                self.disconnected = True
                self.transport.close()

        await super().run_asgi(until_cancelled)

    async def receive(self):
        if not self.more_body:  # the client sent the body without waiting
            self.waiting_for_100_continue = False
        message = await super().receive()
        self._protocol.wait_for_turns()
        return message

    async def send(self, message):
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self.response_started = True
            if self.more_body:
                self.keep_alive = False
            head = [STATUS_LINE[message["status"]]]
            for name, value in (*self.default_headers, *message["headers"]):
                if name == b"connection" and value == b"close":
                    self.keep_alive = False
                else:
                    head.append(b"%s: %s\r\n" % (name, value))
            if not self.keep_alive:
                head.append(b"connection: close\r\n")
            self._head = b"".join([*head, b"\r\n"])
            return
        self._protocol.write(self._head + message["body"])
        self._head = b""
        if not message.get("more_body"):
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self._protocol.finish(self.more_body)
            self.on_response()
