"""Sockets with which several processes accept the connections of one port."""

import socket

_BACKLOG = 2048


class SharedListener(socket.socket):
    """A listening socket from which other processes accept connections as well.

    The connections in its queue belong to none of the processes, so none is lost if a process dies. Whenever
    asyncio looks at the queue, it accepts as many connections as the backlog that it asked for. If it accepts
    only one at a time, a busy worker takes fewer. So asyncio should ask for a backlog of 1, which `listen`
    ignores.
    """

    def listen(self, backlog=_BACKLOG):
        """Listens with a queue of at least a server's usual length, however small the requested one."""
        super().listen(max(backlog, _BACKLOG))


def shared(listener):
    """Returns the `SharedListener` of a socket; the socket itself can no longer be used."""
    return SharedListener(fileno=listener.detach())


def reserve(host, port):
    """Reserves a port for workers, which bind it with SO_REUSEPORT; gRPC does that, and accepts no socket.

    Args:
        host: str. An address.
        port: int. No other process may be listening on it, not even with SO_REUSEPORT.

    Returns:
        socket.socket, bound but not listening. As long as it is open, the port stays reserved.

    Raises:
        OSError: if the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as alone:
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        alone.bind((host, port))
    reservation = socket.socket(family)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reservation.bind((host, port))
    return reservation
