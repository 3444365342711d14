"""Chooses the client that talks to an address."""

from convnlp.serving.client.errors import RequestError
from convnlp.serving.client.rest_client import Client
from convnlp.serving.client.retries import DEFAULT_RETRIES


def connect(url: str, timeout_seconds: float = 60.0, retries: int = DEFAULT_RETRIES):
    """Returns the client for an address.

    Args:
        url: str. "http://HOST:PORT" or "https://HOST:PORT" for REST, "grpc://HOST:PORT" for gRPC.
        timeout_seconds: float in (0, 86400]. How long to wait for an answer.
        retries: int >= 0. How often to repeat a request if the server was too busy or the request was lost.

    Returns:
        `Client` or `convnlp.serving.client.grpc_client.GrpcClient`; both have `predict`,
        `status` and `close`.

    Raises:
        RequestError: if gRPC is asked for and grpcio is not installed.
        ValueError: if an argument is out of range.
    """
    if not url.startswith("grpc://"):
        return Client(url, timeout_seconds, retries)
    try:
        from convnlp.serving.client.grpc_client import GrpcClient
    except ImportError as error:
        raise RequestError(f"grpc:// needs grpcio and protobuf: {error}") from error
    return GrpcClient(url.removeprefix("grpc://"), timeout_seconds, retries)
