"""The versions of all models with their states, and which of them requests use at the moment."""

import logging
import threading

from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.version_state import VersionState

_log = logging.getLogger("serving")


class ServedVersions:
    """Finds versions for requests, and frees one that is out of service after its last request.

    Any thread may call any method. None of them waits for a model that is being loaded.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._states = {}  # name -> {version: `VersionState`}, which is replaced, as others may be reading it
        self._users = {}  # `Servable` -> how many requests use it

    def states(self, name):
        """Returns a model's versions, as a dict of int to `VersionState` that does not change any more."""
        return self._states.get(name, {})

    def put(self, name, version, state):
        """Notes the state of a version that is new or has changed."""
        with self._lock:
            self._put(name, version, state)

    def available(self):
        """Returns (name, version) of everything that is loaded."""
        with self._lock:
            return [
                (name, version)
                for name, versions in self._states.items()
                for version, state in versions.items()
                if state.servable
            ]

    def acquire(self, name, version=None):
        """Returns a loaded version, which is not freed until `release` is called with it.

        Args:
            name: str. The model.
            version: int or None. None for the newest.

        Returns:
            The `Servable`.

        Raises:
            ServingError: if there is no such model or version.
        """
        with self._lock:
            states = self.states(name)
            if version is None:
                version = max((v for v, state in states.items() if state.servable), default=None)
                asked = f"Latest({name})"
            else:
                asked = f"Specific({name}, {version})"
            state = states.get(version)
            if state is None or state.servable is None:
                raise ServingError("NOT_FOUND", f"Servable not found for request: {asked}")
            self._users[state.servable] = self._users.get(state.servable, 0) + 1
            return state.servable

    def release(self, servable):
        """Ends the use of a version; one that is out of service is unloaded after its last use."""
        with self._lock:
            self._users[servable] -= 1
            idle = self._users[servable] == 0
            if idle:
                del self._users[servable]
            unload = idle and self._states[servable.name][servable.version].servable is not servable
        if unload:
            # Not in the thread of a request, because it takes long.
            threading.Thread(target=self._unload, args=(servable,)).start()

    def retire(self, name, version):
        """Takes a version out of service; requests under way continue to use it."""
        with self._lock:
            known = self._states[name][version]
            if known.state == "UNLOADING":  # it ends with its last request
                return
            servable = known.servable
            in_use = servable in self._users
            self._put(name, version, VersionState("UNLOADING" if servable else "END"))
        if not servable:
            return
        _log.info("model %s version %d is no longer served", name, version)
        if not in_use:
            self._unload(servable)

    def _unload(self, servable):
        name, version = servable.name, servable.version
        try:
            servable.close()
        except Exception:  # whoever retires a version has others to look after
            _log.exception("model %s version %d could not be freed", name, version)
        with self._lock:
            if self._states[name][version].state == "UNLOADING":  # else it has been loaded again meanwhile
                self._put(name, version, VersionState("END"))

    def _put(self, name, version, state):
        self._states[name] = {**self.states(name), version: state}
