"""The error of both clients."""


class RequestError(Exception):
    """The server refused a request or could not be reached; the message says which and why.

    Args:
        message: str.
        status: int, str or None. The HTTP status, the gRPC status by its name, or None if nobody answered.
    """

    def __init__(self, message: str, status: int | str | None = None):
        super().__init__(message)
        self.status = status
