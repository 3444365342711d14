"""How several processes take the connections of one port."""

import socket

_BACKLOG = 2048


class SharedListener(socket.socket):
    """A listening socket that other processes accept connections from as well.

    What waits in its queue belongs to none of them, so that nothing there is lost with a process. asyncio
    empties the queue whenever it looks, up to the length that it asks for; of one connection a look, a worker
    that is busy takes fewer. So asyncio is to ask for a length of 1, and does not get it.
    """

    def listen(self, backlog=_BACKLOG):
        """Listens, with a queue of a server's usual length whatever is asked for."""
        super().listen(max(backlog, _BACKLOG))


def shared(listener):
    """The `SharedListener` of a socket, which is of no use then."""
    return SharedListener(fileno=listener.detach())


def reserve(host, port):
    """Takes a port that workers are to bind with SO_REUSEPORT, as gRPC does, which takes no socket of ours.

    Args:
        host: str. An address.
        port: int. Another process may not listen on it, not even with SO_REUSEPORT.

    Returns:
        socket.socket, bound and not listening: the port is nobody else's as long as it is open.

    Raises:
        OSError: if it is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as alone:
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        alone.bind((host, port))
    reservation = socket.socket(family)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reservation.bind((host, port))
    return reservation
