"""The error of both clients."""

_LONGEST_MESSAGE = 1000


class RequestError(Exception):
    """Raised if a request was refused or could not be sent; the message says which and why.

    Args:
        message: str.
        status: int, str or None. The HTTP status, the name of the gRPC status, or None if nobody answered.
        is_transient: bool. Whether the same request may succeed later.
        is_refused: bool. Whether the server refused the examples themselves, or their number, or they cannot
            be sent.
        retry_after_seconds: float or None. When the server wants to be asked again, if it has said so.
    """

    def __init__(
        self,
        message: str,
        status: int | str | None = None,
        is_transient: bool = False,
        is_refused: bool = False,
        retry_after_seconds: float | None = None,
    ):
        super().__init__(one_line(message))
        self.status = status
        self.is_transient = is_transient
        self.is_refused = is_refused
        self.retry_after_seconds = retry_after_seconds


def one_line(message):
    """Returns a message as one line of bounded length: servers may send anything, even escape sequences."""
    line = " ".join(message.split())
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)
    if len(line) <= _LONGEST_MESSAGE:
        return line
    half = _LONGEST_MESSAGE // 2
    return f"{line[:half]} ... {line[-half:]}"
