"""Workers load versions in step: a version is served when all of them have loaded it, and not before."""

GO = {"verdict": "go"}
PUT_OFF = {"verdict": "put_off"}


class Pass:
    """One look of all workers at the models, from the supervisor's view.

    All workers go through the models in the same order. After each version that it has loaded, or failed to
    load, a worker waits. Once every worker is either waiting or through, each version with waiting workers is
    decided:

    - Workers that failed to load it continue with their error.
    - If all other workers wait for it too, or serve it already, it is served from now on.
    - But if one of them failed to load it, it is an error for all that wait: either all serve it or none.
    - If one has not met it, because the directory changed in between, it is put off until the next pass, in
      which all workers will meet it.

    So no worker waits for one that has gone past, and no two workers wait for each other.

    Args:
        served: dict of worker to set of (name, version). Who takes part, and what they serve at the start.
    """

    def __init__(self, served):
        self._served = {worker: set(keys) for worker, keys in served.items()}
        self._waiting = {}  # worker -> (key, its error or None)
        self._through = set()

    @property
    def is_over(self):
        """Whether all workers are through."""
        return self._through >= self._served.keys()

    def wait(self, worker, key, error=None):
        """Notes that a worker has loaded a version, or has failed to.

        Args:
            worker: one of those that take part.
            key: (name, version).
            error: (code, message) or None.

        Returns:
            list of (worker, verdict), as from `_decide`.
        """
        self._waiting[worker] = key, error
        return self._decide()

    def end(self, worker):
        """Notes that a worker is through. Returns the same as `wait`."""
        self._through.add(worker)
        return self._decide()

    def leave(self, worker):
        """Notes that a worker has died. Returns the same as `wait`."""
        self._served.pop(worker, None)
        self._waiting.pop(worker, None)
        self._through.discard(worker)
        return self._decide()

    def _decide(self):
        """Returns what to tell each waiting worker; [] as long as any worker is still busy.

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
        """Whether a worker serves a version, or waits for the decision on it."""
        return key in self._served[worker] or self._waiting.get(worker, (None,))[0] == key
