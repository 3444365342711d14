"""Repeats requests when a server was too busy or a connection was lost, each time after a longer pause."""

import logging
import random
from time import sleep

from convnlp.serving.client.errors import RequestError

DEFAULT_RETRIES = 5
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
# A server that asks for a longer pause than this is not asked again; the error says so.
_LONGEST_RETRY_AFTER_SECONDS = 300.0

_log = logging.getLogger("serving.client")


class Retries:
    """Repeats requests that failed only temporarily.

    The n-th pause is drawn from [p/2, p] with p = 0.5 s * 2^n, at most 30 s, so that clients that failed
    together do not come back together. It is never shorter than the server asked for.

    Args:
        count: int >= 0. How often to repeat a request at most.

    Raises:
        ValueError: if `count` is out of range.
    """

    def __init__(self, count):
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"`retries` must be an integer of at least 0. Received: {count}")
        self._count = count

    def run(self, ask):
        """Calls `ask()` until it succeeds, and returns its result.

        Raises:
            RequestError: the error of the last try.
        """
        for attempt in range(self._count):
            try:
                return ask()
            except RequestError as error:
                if not error.is_transient:
                    raise
                pause = _pause(attempt, error)
                _log.warning("%s; trying again in %.1f s (%d of %d)", error, pause, attempt + 1, self._count)
            sleep(pause)
        try:
            return ask()
        except RequestError as error:
            if error.is_transient and self._count:
                error.args = (f"{error} (asked {self._count + 1} times)",)
            raise


def _pause(attempt, error):
    after = error.retry_after_seconds or 0.0
    if after > _LONGEST_RETRY_AFTER_SECONDS:
        error.args = (f"{error} (it asks to be left alone for {after:.0f} s)",)
        raise error
    longest = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(attempt, 30), _LONGEST_PAUSE_SECONDS)
    jitter = random.uniform(longest / 2, longest)
    # Some jitter is added to what the server asked for, because it asked the same of all its clients.
    return max(jitter, after + jitter / 4) if after else jitter
