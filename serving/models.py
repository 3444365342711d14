"""Which versions of which models are served: policies, labels, and the watch over the directories."""

import logging
import os
import re
import threading
import time
from dataclasses import dataclass, field

from serving.errors import ServingError, invalid_argument
from serving.servable import Servable

# A version that does not load may be one that is still being copied.
_RETRY_SECONDS = 60.0
_log = logging.getLogger("serving")


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
        """Returns the versions that the policy asks for, of those on disk: a dict of version to directory."""
        try:
            with os.scandir(self.base_path) as entries:
                names = [entry.name for entry in entries if entry.is_dir()]
        except OSError:
            return {}
        on_disk = {
            int(name): os.path.join(self.base_path, name) for name in names if re.fullmatch("[0-9]+", name)
        }
        chosen = self.versions or sorted(on_disk)[-self.num_latest if self.num_latest else None :]
        return {version: on_disk[version] for version in chosen if version in on_disk}


@dataclass
class VersionState:
    """The state of a version, in TF Serving's words, and the model itself while it is loaded."""

    state: str
    error_code: str = "OK"
    error_message: str = ""
    servable: Servable | None = None
    retry_at: float = 0.0


class ModelManager:
    """Loads, finds and unloads versions of models.

    A new version is loaded before the old one is dropped, requests under way keep the version they began
    with, and a model whose directory has been emptied keeps its last version.

    Args:
        configs: list of `ModelConfig`.

    Raises:
        ValueError: if two models have the same name.
    """

    def __init__(self, configs):
        self._configs = {config.name: config for config in configs}
        if len(self._configs) < len(configs):
            raise ValueError(f"models must have different names, got {[config.name for config in configs]}")
        self._states = {name: {} for name in self._configs}

    def load(self, allow_labels_for_unavailable=False):
        """Loads every model for the first time.

        Args:
            allow_labels_for_unavailable: bool. Whether a label may name a version that is not loaded.

        Raises:
            ValueError: naming the model that has no version, the version that does not load, or the bad
                label.
        """
        for name, config in self._configs.items():
            self._update(config)
            for version, state in self._states[name].items():
                if state.servable is None:
                    raise ValueError(
                        f"model {name}: {config.base_path}/{version} does not load: {state.error_message}"
                    )
            if not self._states[name]:
                wanted = (
                    f"versions {list(config.versions)}"
                    if config.versions
                    else "version directory (1, 2, ...)"
                )
                raise ValueError(f"model {name}: there is no {wanted} in {config.base_path}")
            for label, version in config.labels.items():
                if version not in self._states[name] and not allow_labels_for_unavailable:
                    raise ValueError(
                        f"model {name}: label {label} names version {version}, which is not loaded"
                    )

    def watch(self, interval_seconds):
        """Looks for new and removed versions at intervals, in a thread that ends with the process."""
        threading.Thread(target=self._watch, args=(interval_seconds,), daemon=True).start()

    def find(self, name, version=None, label=None):
        """Returns the loaded version that a request asks for, the newest if it asks for none.

        Args:
            name: str. The model.
            version: int or None.
            label: str or None.

        Returns:
            The `Servable`.

        Raises:
            ServingError: if there is no such model, version or label.
        """
        if label is not None and name in self._configs:
            if label not in self._configs[name].labels:
                raise invalid_argument(f"Unrecognized servable version label: {label}")
            version = self._configs[name].labels[label]
        states = self._states.get(name, {})
        loaded = {number: state.servable for number, state in states.items() if state.servable}
        chosen = version if version is not None else max(loaded, default=None)
        if chosen not in loaded:
            asked = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise ServingError("NOT_FOUND", f"Servable not found for request: {asked}")
        return loaded[chosen]

    def status(self, name, version=None):
        """Returns the states of a model's versions, newest first.

        Args:
            name: str. The model.
            version: int or None. Only this one.

        Returns:
            dict of int to `VersionState`.

        Raises:
            ServingError: if the model or the version has never been there.
        """
        states = self._states.get(name, {})
        if version is not None:
            states = {number: state for number, state in states.items() if number == version}
        if not states:
            asked = "any versions" if version is None else f"version {version}"
            raise ServingError("NOT_FOUND", f"Could not find {asked} of model {name}")
        return dict(sorted(states.items(), reverse=True))

    def available(self):
        """Returns (name, version) of everything that is loaded."""
        states = (
            (name, version, state)
            for name, versions in self._states.items()
            for version, state in versions.items()
        )
        return [(name, version) for name, version, state in states if state.servable]

    def _watch(self, interval_seconds):
        while True:
            time.sleep(interval_seconds)
            for config in self._configs.values():
                self._update(config)

    def _update(self, config):
        """Brings the loaded versions of one model in line with what its policy wants of the disk."""
        states = self._states[config.name]
        wanted = config.wanted()
        for version, path in wanted.items():
            known = states.get(version)
            if known is None or (known.servable is None and time.monotonic() >= known.retry_at):
                self._set(config.name, version, self._loaded(config.name, version, path))
        if any(self._states[config.name][version].servable for version in wanted):
            for version, state in states.items():
                if version not in wanted and state.servable:
                    _log.info("model %s version %d is no longer served", config.name, version)
                    self._set(config.name, version, VersionState("END"))

    def _set(self, name, version, state):
        """Replaces a model's states by a changed copy, so that other threads never see one change."""
        self._states[name] = {**self._states[name], version: state}

    def _loaded(self, name, version, path):
        started = time.monotonic()
        try:
            servable = Servable(name, version, path)
        except Exception as error:  # a broken directory fails in many ways, and must not stop the server
            message = str(error).strip().split("\n")[0]
            _log.error("model %s version %d does not load: %s", name, version, message)
            return VersionState("LOADING", "UNKNOWN", message, retry_at=time.monotonic() + _RETRY_SECONDS)
        _log.info("model %s version %d loaded in %.1f s", name, version, time.monotonic() - started)
        return VersionState("AVAILABLE", servable=servable)
