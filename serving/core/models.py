"""Decides which versions of which models are served, by policies and labels, and watches the directories."""

import logging
import os
import re
import threading
import time
from dataclasses import dataclass, field

from convnlp.serving.core.errors import ServingError, first_line, invalid_argument

_MAX_VERSION = 2**63 - 1  # in TF Serving, and in the messages that name versions
_log = logging.getLogger("serving")


class PutOffError(Exception):
    """Raised for a version that is sound but not served yet; the next look at its directory reloads it."""


@dataclass(frozen=True)
class ModelConfig:
    """What to serve of one model.

    Args:
        name: str. The model's name in requests.
        base_path: str. The directory that holds one directory per version.
        num_latest: int or None. How many of the newest versions to serve; None for all of them.
        versions: tuple of int. If not empty, serve exactly these.
        labels: dict of str to int. Names for versions.
    """

    name: str
    base_path: str
    num_latest: int | None = 1
    versions: tuple = ()
    labels: dict = field(default_factory=dict)

    def wanted(self):
        """Returns the versions on disk that the policy selects, as a dict of version to directory.

        Other files and directories are ignored. Of two names for the same version, such as 1 and 01, the
        shorter one counts.
        """
        on_disk = self.on_disk()
        chosen = self.versions or sorted(on_disk)[-self.num_latest if self.num_latest else None :]
        return {version: on_disk[version] for version in chosen if version in on_disk}

    def lacking(self):
        """Returns what the policy wants and is not on disk, and what to do, a str; "" if nothing lacks."""
        on_disk = self.on_disk()
        if absent := [version for version in self.versions if version not in on_disk]:
            return f"there is none of the versions {absent} in {self.base_path}"
        return "" if on_disk else self._why_empty()

    def _why_empty(self):
        path = self.base_path
        try:
            names = sorted(os.listdir(path))
        except FileNotFoundError:
            return f"there is no directory {path}"
        except NotADirectoryError:
            return f"{path} is a file, not a directory with versions"
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        none = f"there is no version directory (1, 2, ...) in {path}"
        if "saved_model.pb" in names:
            folder, name = os.path.split(os.path.normpath(path))
            if name.isdecimal():
                return f"{none}; it is a version itself: give {folder}"
            return f"{none}; it is a SavedModel itself: move it to {path}/1"
        if {"config.json", "model.weights.h5"}.issubset(names):
            return f"{none}; it is a preset: export it"
        others = (ModelConfig(self.name, os.path.join(path, name)) for name in names)
        there = next((other.base_path for other in others if other.on_disk()), None)
        return f"{none}; there is one in {there}" if there else none

    def on_disk(self):
        """Returns all versions on disk, as a dict of version to directory."""
        try:
            names = os.listdir(self.base_path)
        except OSError:
            return {}
        on_disk = {}
        for name in sorted(names, key=len, reverse=True):
            path = os.path.join(self.base_path, name)
            # isdir is false for what cannot be examined, such as a circular link.
            if re.fullmatch("[0-9]+", name) and int(name) <= _MAX_VERSION and os.path.isdir(path):
                on_disk[int(name)] = path
        return on_disk


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


class ModelManager:
    """Loads, finds and unloads versions of models.

    A new version is loaded before the old one is dropped. Requests under way keep the version with which they
    began. A model whose directory has been emptied keeps its last version.

    Args:
        configs: list of `ModelConfig`.
        load: Callable. Called with name, version and directory; returns a `Servable` that is ready for
            requests, or raises.
        max_retries: int. How often to retry a version that does not load.
        retry_seconds: float. How long to wait before each retry. If the directory has changed, for example
            because it was still being copied, loading is retried at once.

    Raises:
        ValueError: if two models have the same name.
    """

    def __init__(self, configs, load, max_retries=5, retry_seconds=60.0):
        self._configs = _by_name(configs)
        self._load = load
        self._max_retries = max_retries
        self._retry_seconds = retry_seconds
        self._lock = threading.Lock()  # over states and the users of servables
        self._update_lock = threading.RLock()  # one thread at a time loads, unloads and reloads
        self._states = {name: {} for name in self._configs}
        self._users = {}

    def load(self, allow_labels_for_unavailable=False, kept=()):
        """Loads every model for the first time.

        Args:
            allow_labels_for_unavailable: bool. Whether a label may name a version that is not loaded.
            kept: list of (name, version). What other processes serve. As long as the versions of the policy
                do not load, these are served here too if they are on disk.

        Raises:
            ValueError: if a model has no version, a version does not load, or a label is wrong; the message
                names it.
        """
        for name, config in self._configs.items():
            self._load_kept(config, {version for of, version in kept if of == name})
            self._update(config)
            while not self._states[name]:
                if lacking := config.lacking():
                    raise ValueError(f"model {name}: {lacking}")
                self._update(config)  # a version has come in the meantime
            serves = any(state.servable for state in self._states[name].values())
            for version, state in self._states[name].items():
                if state.servable is None and not (kept and serves):
                    raise ValueError(
                        f"model {name}: {config.base_path}/{version} does not load: {state.error_message}"
                    )
            _warn_of_lack(config)
            if not allow_labels_for_unavailable:
                for label, version in config.labels.items():
                    if version not in self._states[name]:
                        raise ValueError(
                            f"model {name}: label {label} names version {version}, which is not loaded"
                        )

    def reload(self, configs, allow_labels_for_unavailable=False):
        """Serves other models from now on; versions that both configurations want stay loaded.

        Args:
            configs: list of `ModelConfig`.
            allow_labels_for_unavailable: bool. As for `load`.

        Raises:
            ServingError: if a label names a version that is not loaded, or a version does not load.
            ValueError: if two models have the same name.
        """
        configs = _by_name(configs)
        with self._update_lock:
            self._check_labels(configs, allow_labels_for_unavailable)
            dropped = self._configs.keys() - configs.keys()
            self._configs = configs
            for config in configs.values():
                self._update(config)
                _warn_of_lack(config)
            for name in dropped:
                for version in self._states[name]:
                    self._retire(name, version)
            for name, config in configs.items():
                for version in config.wanted():  # others may have failed when they were wanted
                    state = self._states[name].get(version)
                    if state and state.error_code != "OK":
                        raise ServingError(
                            state.error_code, f"model {name} version {version}: {state.error_message}"
                        )

    def _check_labels(self, configs, allow_labels_for_unavailable):
        """Raises ServingError if a label names a version that does not serve yet."""
        for name, config in configs.items():
            for version in config.labels.values():
                state = self._states.get(name, {}).get(version)
                if not allow_labels_for_unavailable and not (state and state.servable):
                    raise ServingError(
                        "FAILED_PRECONDITION",
                        f"Request to assign label to version {version} of model {name}, which is not"
                        " currently available for inference",
                    )

    def watch(self, interval_seconds):
        """Looks regularly for new and removed versions, in a thread that ends with the process."""
        threading.Thread(target=self._watch, args=(interval_seconds,), daemon=True).start()

    def watch_configs(self, read, interval_seconds, allow_labels_for_unavailable=False):
        """Reads the configuration regularly, in a thread, and serves other models if it has changed.

        Args:
            read: Callable. Returns the list of `ModelConfig`.
            interval_seconds: float.
            allow_labels_for_unavailable: bool. As for `load`.
        """

        def watch():
            while True:
                time.sleep(interval_seconds)
                self.look_at_configs(read, allow_labels_for_unavailable)

        threading.Thread(target=watch, daemon=True).start()

    def look_at_configs(self, read, allow_labels_for_unavailable=False):
        """Reads the configuration once, and serves other models if it has changed."""
        try:
            configs = read()
            if not self.has(configs):
                self.reload(configs, allow_labels_for_unavailable)
        except (ValueError, OSError, ServingError) as error:
            _log.error("the new configuration is not served: %s", error)
        except Exception:  # the next look may do better
            _log.exception("the new configuration is not served")

    def has(self, configs):
        """Whether these are the configurations that are served."""
        same = {config.name: config for config in configs} == self._configs
        return same and len(configs) == len(self._configs)

    def acquire(self, name, version=None, label=None):
        """Returns the loaded version that a request asks for, or the newest if it names none.

        Args:
            name: str. The model.
            version: int or None.
            label: str or None.

        Returns:
            The `Servable`. It stays loaded until `release` is called with it.

        Raises:
            ServingError: if there is no such model, version or label.
        """
        if label is not None:
            config = self._configs.get(name)
            if config is None or label not in config.labels:
                raise invalid_argument(f"Unrecognized servable version label: {label}")
            version = config.labels[label]
        with self._lock:
            states = self._states.get(name, {})
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

    def status(self, name, version=None):
        """Returns the states of a model's versions, newest first.

        Args:
            name: str. The model.
            version: int or None. If given, only this version.

        Returns:
            dict of int to `VersionState`.

        Raises:
            ServingError: if the model or the version has never existed.
        """
        states = self._states.get(name, {})
        if version is not None:
            states = {number: state for number, state in states.items() if number == version}
        if not states:
            asked = "any versions" if version is None else f"version {version}"
            raise ServingError("NOT_FOUND", f"Could not find {asked} of model {name}")
        return dict(sorted(states.items(), reverse=True))

    def names(self):
        """Returns the names of the models."""
        return list(self._configs)

    def available(self):
        """Returns (name, version) of everything that is loaded."""
        with self._lock:
            return [
                (name, version)
                for name, versions in self._states.items()
                for version, state in versions.items()
                if state.servable
            ]

    def _watch(self, interval_seconds):
        while True:
            time.sleep(interval_seconds)
            self.look()

    def look(self):
        """Looks for new and removed versions of all models, once."""
        for config in list(self._configs.values()):
            try:
                self._update(config)
            except Exception:  # one model must not stop the updates of the others
                _log.exception("model %s could not be updated", config.name)

    def _load_kept(self, config, versions):
        with self._update_lock:
            for version, path in config.on_disk().items():
                if version in versions and self._is_due(self._states[config.name].get(version), path):
                    self._load_version(config.name, version, path)

    def _update(self, config):
        """Loads and drops versions of one model according to its policy and the versions on disk."""
        with self._update_lock:
            if self._configs.get(config.name) is not config:  # a reload has replaced it in the meantime
                return
            with self._lock:  # who lists all models must not see one come
                states = self._states.setdefault(config.name, {})
            wanted = config.wanted()
            for version, path in wanted.items():
                if self._is_due(states.get(version), path):
                    self._load_version(config.name, version, path)
            states = self._states[config.name]
            if any(states[version].servable for version in wanted):
                for version, state in states.items():
                    if version not in wanted and state.state in ("AVAILABLE", "LOADING"):
                        self._retire(config.name, version)

    def _is_due(self, known, path):
        """Whether to load a version: it is new, was served before, or may load by now."""
        if known is None:
            return True
        if known.servable:
            return False
        if known.attempts == 0 or _fingerprint(path) != known.fingerprint:
            return True
        rested = time.monotonic() >= known.tried_at + self._retry_seconds
        return rested and known.attempts <= self._max_retries

    def _load_version(self, name, version, path):
        attempts = getattr(self._states[name].get(version), "attempts", 0)
        started, fingerprint = time.monotonic(), _fingerprint(path)
        self._set(name, version, VersionState("LOADING"))
        try:
            servable = self._load(name, version, path)
        except PutOffError as error:
            state = VersionState("LOADING", error_message=str(error), attempts=attempts)
        except Exception as error:  # a broken directory fails in many ways, none of which may stop the server
            message = first_line(error)
            _log.error("model %s version %d does not load: %s", name, version, message)
            state = VersionState(
                state="LOADING" if attempts < self._max_retries else "END",
                error_code=getattr(error, "code", "UNKNOWN"),
                error_message=message,
                attempts=attempts + 1,
                tried_at=started,
                fingerprint=fingerprint,
            )
        else:
            _log.info("model %s version %d loaded in %.1f s", name, version, time.monotonic() - started)
            state = VersionState("AVAILABLE", servable=servable)
        self._set(name, version, state)

    def _retire(self, name, version):
        """Takes a version out of service; requests under way continue to use it."""
        with self._lock:
            known = self._states[name][version]
            if known.state == "UNLOADING":  # it ends with its last request
                return
            servable = known.servable
            in_use = servable in self._users
            state = VersionState("UNLOADING" if servable else "END")
            self._states[name] = {**self._states[name], version: state}
        if not servable:
            return
        _log.info("model %s version %d is no longer served", name, version)
        if not in_use:
            self._unload(servable)

    def _unload(self, servable):
        try:
            servable.close()
        except Exception:  # whoever retires a version has others to look after
            _log.exception("model %s version %d could not be freed", servable.name, servable.version)
        with self._lock:
            states = self._states[servable.name]
            if states[servable.version].state == "UNLOADING":  # else it has been loaded again meanwhile
                ended = {servable.version: VersionState("END")}
                self._states[servable.name] = {**states, **ended}

    def _set(self, name, version, state):
        """Replaces a model's states by a changed copy, because other threads may be reading them."""
        with self._lock:
            self._states[name] = {**self._states[name], version: state}


def _warn_of_lack(config):
    """Logs what a configuration wants and does not find: it is served as soon as it is there."""
    if lacking := config.lacking():
        _log.warning("model %s: %s", config.name, lacking)


def _by_name(configs):
    by_name = {config.name: config for config in configs}
    if len(by_name) < len(configs):
        raise ValueError(f"models must have different names, got {[config.name for config in configs]}")
    return by_name


def _fingerprint(path):
    """Returns the content of a version's directory: names, sizes and times of its files."""
    found = []
    for folder, _, names in os.walk(path):
        for name in sorted(names):
            try:
                stat = os.stat(os.path.join(folder, name))
            except OSError:
                continue
            found.append((folder, name, stat.st_size, stat.st_mtime_ns))
    return tuple(sorted(found))
