"""Messages between the supervisor and a worker: one line of JSON each, over a pair of sockets."""

import contextlib
import json

_RECEIVE_BYTES = 2**16


class Channel:
    """The supervisor's end, which never waits.

    Args:
        connection: socket.socket. One end of a pair.
    """

    def __init__(self, connection):
        connection.setblocking(False)
        self._socket = connection
        self._to_send = b""
        self._received = b""

    @property
    def has_more_to_send(self):
        """Whether to call `flush` when the socket accepts more."""
        return bool(self._to_send)

    def fileno(self):
        """Returns the descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, message):
        """Sends a dict: as much as the socket accepts now, the rest with `flush`."""
        self._to_send += written(message)
        self.flush()

    def flush(self):
        """Sends what is left; does nothing if the other end is closed, which `receive` reports."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._to_send:
                self._to_send = self._to_send[self._socket.send(self._to_send) :]

    def receive(self):
        """Returns the messages that have arrived, as a list of dict; None if the other end is closed."""
        try:
            content = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            return None
        if not content:
            return None
        *lines, self._received = (self._received + content).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self):
        """Closes this end."""
        self._socket.close()


def written(message):
    r"""Returns a message in the form in which it is sent.

    Example:
    >>> written({"type": "done"})
    b'{"type": "done"}\n'
    """
    return json.dumps(message).encode() + b"\n"
