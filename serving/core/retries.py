"""Loads versions, and decides when one that did not load is tried again."""

import logging
import time

from convnlp.serving.core.errors import first_line
from convnlp.serving.core.version_directories import fingerprint
from convnlp.serving.core.version_state import VersionState

_log = logging.getLogger("serving")


class PutOffError(Exception):
    """Raised for a version that is sound but not served yet; the next look at its directory reloads it."""


class Retries:
    """Tries to load versions, again and again.

    Args:
        load: Callable. Called with name, version and directory; returns a `Servable` that is ready for
            requests, or raises.
        max_retries: int. How often to retry a version that does not load.
        retry_seconds: float. How long to wait before each retry. If the directory has changed, for example
            because it was still being copied, loading is retried at once.
    """

    def __init__(self, load, max_retries, retry_seconds):
        self._load = load
        self._max_retries = max_retries
        self._retry_seconds = retry_seconds

    def is_due(self, known, path):
        """Whether to load a version: it is new, was served before, or may load by now.

        Args:
            known: `VersionState` or None. Its state so far.
            path: str. Its directory.
        """
        if known is None:
            return True
        if known.servable:
            return False
        if known.attempts == 0 or fingerprint(path) != known.fingerprint:
            return True
        rested = time.monotonic() >= known.tried_at + self._retry_seconds
        return rested and known.attempts <= self._max_retries

    def load(self, name, version, path, known=None):
        """Tries to load a version.

        Args:
            name: str. The model.
            version: int.
            path: str. The version's directory.
            known: `VersionState` or None. Its state so far.

        Returns:
            `VersionState`. AVAILABLE, or LOADING if it is to be tried again, or END.
        """
        attempts = known.attempts if known else 0
        _log.info("model %s version %d: loading %s", name, version, path)
        started, content = time.monotonic(), fingerprint(path)
        try:
            servable = self._load(name, version, path)
        except PutOffError as error:
            return VersionState("LOADING", error_message=str(error), attempts=attempts)
        except Exception as error:  # a broken directory fails in many ways, none of which may stop the server
            message = first_line(error)
            _log.error("model %s version %d does not load: %s", name, version, message)
            return VersionState(
                state="LOADING" if attempts < self._max_retries else "END",
                error_code=getattr(error, "code", "UNKNOWN"),
                error_message=message,
                attempts=attempts + 1,
                tried_at=started,
                fingerprint=content,
            )
        _log.info("model %s version %d loaded in %.1f s", name, version, time.monotonic() - started)
        return VersionState("AVAILABLE", servable=servable)
