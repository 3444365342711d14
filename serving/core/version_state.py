"""The state of a version, as the server remembers it and as clients are told it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class VersionState:
    """The state of a version, in TF Serving's terms.

    Args:
        state: str. START, LOADING, AVAILABLE, UNLOADING or END.
        error_code: str. A canonical status code.
        error_message: str.
        servable: `Servable` or None. The model itself, while requests can use it.
        attempts: int. How often loading it has failed.
        tried_at: float. When loading was last tried, on the monotonic clock.
        fingerprint: tuple. The content of its directory at that time.
    """

    state: str
    error_code: str = "OK"
    error_message: str = ""
    servable: object = None
    attempts: int = 0
    tried_at: float = 0.0
    fingerprint: tuple = ()
