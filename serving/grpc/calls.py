"""Handles what gRPC leaves to the server: calls that end early, and requests that are not messages."""

import threading

import grpc
from google.protobuf.message import DecodeError

from convnlp.serving.core.errors import ServingError, invalid_argument, timed_out

# A status message travels in an HTTP header. Clients accept 8 kB, and most bytes are encoded as three.
_MAX_DETAILS_BYTES = 2000


def fail(context, error):
    """Ends a call with the status of an error, without a traceback in the log.

    Args:
        context: grpc.ServicerContext.
        error: `ServingError`.

    Raises:
        Exception: always; gRPC expects it.
    """
    details = error.message.encode("utf-8", "replace")
    if len(details) > _MAX_DETAILS_BYTES:
        details = details[:_MAX_DETAILS_BYTES] + b"..."
    context.abort(grpc.StatusCode[error.code], details.decode("utf-8", "ignore"))


def wait(future, context, seconds):
    """Waits for a future, and cancels it if nobody waits for the call any more.

    Args:
        future: concurrent.futures.Future.
        context: grpc.ServicerContext. It ends at the client's deadline, or when the client cancels or
            disconnects.
        seconds: float or None. How long to wait.

    Returns:
        The future's result.

    Raises:
        ServingError: DEADLINE_EXCEEDED or CANCELLED, after cancelling the future.
        Exception: the exception of the future.
    """
    over = threading.Event()  # set when the future or the call is over
    future.add_done_callback(lambda _: over.set())
    if not context.add_callback(over.set):
        over.set()  # the call is over already
    over.wait(seconds)
    if future.done():
        return future.result()
    future.cancel()
    if context.is_active() or context.time_remaining() == 0:
        raise timed_out()
    raise ServingError("CANCELLED", "The client has gone")


class Careful:
    """Wraps a server for generated `add_..._to_server` functions; answers requests that are not messages.

    gRPC itself would log a traceback for each of them.

    Args:
        server: grpc.Server.
    """

    def __init__(self, server):
        self._server = server

    def add_generic_rpc_handlers(self, handlers):
        """Like `grpc.Server.add_generic_rpc_handlers`."""
        self._server.add_generic_rpc_handlers(tuple(map(_Handlers, handlers)))

    def add_registered_method_handlers(self, service_name, method_handlers):
        """For code from newer generators; does nothing, because the generic handlers serve all methods."""


class _Handlers(grpc.GenericRpcHandler):
    """The handlers of a service.

    Args:
        inner: grpc.GenericRpcHandler.
    """

    def __init__(self, inner):
        self._inner = inner
        self._known = {}

    def service(self, handler_call_details):
        """Returns the handler of a method, or None."""
        name = handler_call_details.method
        if name not in self._known:
            inner = self._inner.service(handler_call_details)
            if inner is None:
                return None
            self._known[name] = _careful(inner)
        return self._known[name]


def _careful(handler):
    def read(content):
        try:
            return handler.request_deserializer(content)
        except DecodeError as error:
            return error

    def answer(request, context):
        if isinstance(request, DecodeError):
            fail(context, invalid_argument(f"The request is not a message of this method: {request}"))
        return handler.unary_unary(request, context)

    return grpc.unary_unary_rpc_method_handler(answer, read, handler.response_serializer)
