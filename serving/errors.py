"""The errors of the server: an exception with a canonical status code, and what HTTP makes of each code."""

HTTP_STATUS = {
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
        message: str. What the client is told.
    """

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def http_status(self):
        """The HTTP status of the code; what is not the client's doing is 500."""
        return HTTP_STATUS.get(self.code, 500)

    def __str__(self):
        return f"{self.code}: {self.message}"


def invalid_argument(message):
    """Returns the error of a request that is wrong in itself."""
    return ServingError("INVALID_ARGUMENT", message)
