"""Workers load versions in step: one that all have loaded is served by all, and by none before."""

GO = {"verdict": "go"}
PUT_OFF = {"verdict": "put_off"}


class Pass:
    """One look of all workers at the models, as the supervisor sees it.

    Each worker goes through the models in the same order. Where it has loaded a version, or could not, it
    waits. Once none is on its way, all either waiting or through, it is decided for each version that
    somebody waits for:

    - those that could not load it go on with their error;
    - if every other worker waits for it too, or serves it already, it is served from now on; but
    - if one could not load it, it is an error for all that wait: a version is served by all or by none;
    - if one has not met it, since the directory changed between two looks at it, it is put off until the
      next pass, in which all will.

    So nobody waits for a worker that has gone past, and none can wait for each other.

    Args:
        served: dict of worker to set of (name, version). Who takes part, and what they serve at its start.
    """

    def __init__(self, served):
        self._served = {worker: set(keys) for worker, keys in served.items()}
        self._waiting = {}  # worker -> (key, its error or None)
        self._through = set()

    @property
    def is_over(self):
        """Whether all are through."""
        return self._through >= self._served.keys()

    def wait(self, worker, key, error=None):
        """A worker has loaded a version, or could not.

        Args:
            worker: of those that take part.
            key: (name, version).
            error: (code, message) or None.

        Returns:
            list of (worker, verdict), as of `_decide`.
        """
        self._waiting[worker] = key, error
        return self._decide()

    def end(self, worker):
        """A worker is through. Returns as `wait`."""
        self._through.add(worker)
        return self._decide()

    def leave(self, worker):
        """A worker has died. Returns as `wait`."""
        self._served.pop(worker, None)
        self._waiting.pop(worker, None)
        self._through.discard(worker)
        return self._decide()

    def _decide(self):
        """What each worker is told that waits, [] as long as one is on its way.

        A verdict is `GO`, `PUT_OFF`, or {"verdict": "error", "code", "message"}.
        """
        if not self._waiting or self._served.keys() - self._waiting.keys() - self._through:
            return []
        verdicts = []
        for worker, (key, error) in self._waiting.items():
            failed = {other: found for other, (its, found) in self._waiting.items() if its == key and found}
            if error:
                verdict = {"verdict": "error", "code": error[0], "message": error[1]}
            elif any(not self._has(other, key) for other in self._served):
                verdict = PUT_OFF
            elif failed:
                other, (code, message) = next(iter(failed.items()))
                verdict = {"verdict": "error", "code": code, "message": f"worker {other}: {message}"}
            else:
                verdict = GO
            verdicts.append((worker, verdict))
        for worker, verdict in verdicts:
            if verdict is GO:
                self._served[worker].add(self._waiting[worker][0])
        self._waiting = {}
        return verdicts

    def _has(self, worker, key):
        """Whether a worker serves a version, or waits with it."""
        return key in self._served[worker] or self._waiting.get(worker, (None,))[0] == key
