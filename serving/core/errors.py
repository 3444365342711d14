"""The errors of the server: an exception with a canonical status code, and the HTTP status of each code."""

HTTP_STATUS = {
    "OK": 200,
    "CANCELLED": 499,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "UNAUTHENTICATED": 401,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
}


class ServingError(Exception):
    """A request that cannot be answered.

    Args:
        code: str. A canonical status code, such as "NOT_FOUND".
        message: str. The message for the client.
        http_status: int or None. The HTTP status, if it differs from that of the code.
    """

    def __init__(self, code, message, http_status=None):
        super().__init__(message)
        self.code = code
        self.message = message
        # Anything that is not the client's fault is 500.
        self.http_status = http_status or HTTP_STATUS.get(code, 500)

    def __str__(self):
        return f"{self.code}: {self.message}"


def first_line(error):
    """Returns the first line of an exception's message, or the name of its class if it has no message.

    TensorFlow begins the messages of failed ops with a phrase that says nothing, which is left out.
    """
    message = str(getattr(error, "message", error)).replace("Graph execution error:", "")
    return next((line.strip() for line in message.splitlines() if line.strip()), type(error).__name__)


def invalid_argument(message):
    """Returns the error of an invalid request."""
    return ServingError("INVALID_ARGUMENT", message)


def too_large(message):
    """Returns the error of a request that is larger than a limit allows."""
    return ServingError("RESOURCE_EXHAUSTED", message, 413)


def timed_out():
    """Returns the error of a request that took too long."""
    return ServingError("DEADLINE_EXCEEDED", "Timed out waiting for notification")
