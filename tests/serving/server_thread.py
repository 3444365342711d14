"""Runs the REST application in a thread of this process, behind real sockets: TensorFlow is there already."""

import contextlib
import functools
import socket
import threading
import time

import uvicorn

from convnlp.serving.rest.http_protocol import DEFAULT_TIMEOUTS, Protocol


@contextlib.contextmanager
def serving(app, port=0, timeouts=DEFAULT_TIMEOUTS):
    """Serves an ASGI application until the block ends, and yields its port: the given one, or a free one."""
    listener = socket.create_server(("127.0.0.1", port))
    protocol = functools.partial(Protocol, timeouts=timeouts)
    config = uvicorn.Config(
        app, http=protocol, ws="none", lifespan="off", log_level="critical", server_header=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
