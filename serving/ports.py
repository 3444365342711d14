"""Takes the ports of the server, and says in one clear line that one cannot be had."""

import errno
import socket
import sys

from convnlp.serving import server_flags

_BACKLOG = 2048  # uvicorn's


def listener(host, port):
    """Binds the REST port before the models are loaded, so that a port in use is reported at once.

    Args:
        host: str. An address.
        port: int. 0 is refused: without REST there is no server.

    Returns:
        socket.socket, bound but not listening; see `listen`.

    Raises:
        ValueError: if there is no port, or it is in use.
    """
    if not port:
        raise ValueError("no REST port: give --rest_api_port=PORT")
    try:
        found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:  # a system without IPv6
        raise _cannot_listen(host, port, error) from error
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise _cannot_listen(host, port, error) from error
    return found


def listen(listener):
    """Begins to accept connections, which would have to wait while the models are being loaded.

    Args:
        listener: socket.socket. What `listener` returned.

    Raises:
        ValueError: if another process listens by now that has bound the port at the same time.
    """
    try:
        listener.listen(_BACKLOG)
    except OSError as error:
        raise _cannot_listen(*listener.getsockname()[:2], error) from error


def address(listener):
    """Returns where a socket listens, as "HOST:PORT"."""
    return _joined(*listener.getsockname()[:2])


def bind_grpc(server, host, port):
    """Binds the gRPC port.

    Args:
        server: grpc.Server, not yet started.
        host: str. An address.
        port: int. 0 for none.

    Returns:
        int. The port; 0 for none, or if the default port is in use.

    Raises:
        ValueError: if the port is in use, and the user has chosen it.
    """
    if not port:
        return 0
    try:
        return server.add_insecure_port(_joined(host, port))
    except RuntimeError as error:
        return _no_grpc(host, port, error)


def reserve_grpc(host, port):
    """Reserves the gRPC port, which the workers bind.

    Args:
        host: str. An address.
        port: int. 0 for none.

    Returns:
        (socket.socket that holds the port, or None; the port as from `bind_grpc`).

    Raises:
        ValueError: as for `bind_grpc`.
    """
    from convnlp.serving.workers.sockets import reserve

    if not port:
        return None, 0
    try:
        return reserve(host, port), port
    except OSError as error:
        return None, _no_grpc(host, port, error)


def _cannot_listen(host, port, error):
    reason = (error.strerror or str(error)).lower()
    is_host = isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    flag = "--host" if is_host else "--rest_api_port"
    return ValueError(f"cannot listen on {host} port {port} ({flag}): {reason}")


def _no_grpc(host, port, error):
    """Returns 0, or raises ValueError if the user has chosen the port."""
    if server_flags.is_given(server_flags.GRPC_PORT):
        raise ValueError(f"cannot listen on {host} port {port} (--port): in use?") from error
    print(f"no gRPC: port {port} is in use, choose another one with --port", file=sys.stderr)
    return 0


def _joined(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
