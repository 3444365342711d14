"""Serves the models of a configuration, and follows what changes in it and in their directories."""

import functools
import logging
import threading
import time

from convnlp.serving.core.errors import ServingError, invalid_argument
from convnlp.serving.core.missing_versions import missing_versions
from convnlp.serving.core.model_config import by_name
from convnlp.serving.core.retries import Retries
from convnlp.serving.core.served_versions import ServedVersions
from convnlp.serving.core.version_directories import version_directories
from convnlp.serving.core.version_state import VersionState

_log = logging.getLogger("serving")


class ModelManager:
    """Loads, finds and unloads versions of models.

    A new version is loaded before the old one is dropped. Requests under way keep the version with which they
    began. A model whose directory has been emptied keeps its last version.

    Args:
        configs: list of `ModelConfig`.
        load, max_retries, retry_seconds: as for `Retries`.
        any_labels: bool. Whether a new label may name a version that is not loaded.

    Raises:
        ValueError: if two models have the same name.
    """

    def __init__(self, configs, load, max_retries=5, retry_seconds=60.0, any_labels=False):
        self._configs = by_name(configs)
        self._retries = Retries(load, max_retries, retry_seconds)
        self._any_labels = any_labels
        self._versions = ServedVersions()
        self._update_lock = threading.RLock()  # one thread at a time loads, unloads and reloads

    def load(self, kept=()):
        """Loads every model for the first time.

        Args:
            kept: list of (name, version). What other processes serve. As long as the versions of the policy
                do not load, these are served here too if they are on disk.

        Raises:
            ValueError: if a model has no version, a version does not load, or a label is wrong; the message
                names it.
        """
        for name, config in self._configs.items():
            self._load_kept(config, {version for of, version in kept if of == name})
            self._update(config)
            while not self._versions.states(name):
                if missing := missing_versions(config):
                    raise ValueError(f"model {name}: {missing}")
                self._update(config)  # a version has come in the meantime
            states = self._versions.states(name)
            serves = any(state.servable for state in states.values())
            for version, state in states.items():
                if state.servable is None and not (kept and serves):
                    raise ValueError(
                        f"model {name}: {config.base_path}/{version} does not load: {state.error_message}"
                    )
            _warn_of_missing(config)
            if not self._any_labels:
                for label, version in config.labels.items():
                    if version not in states:
                        raise ValueError(
                            f"model {name}: label {label} names version {version}, which is not loaded"
                        )

    def reload(self, configs):
        """Serves other models from now on; versions that both configurations want stay loaded.

        Args:
            configs: list of `ModelConfig`.

        Raises:
            ServingError: if a label names a version that is not loaded, or a version does not load.
            ValueError: if two models have the same name.
        """
        configs = by_name(configs)
        with self._update_lock:
            self._check_labels(configs)
            before, self._configs = self._configs, configs
            dropped = before.keys() - configs.keys()
            for name, config in configs.items():
                if name in before and before[name].base_path != config.base_path:
                    self._warn_of_kept(before[name], config)
                self._update(config)
                _warn_of_missing(config)
            for name in dropped:
                for version in self._versions.states(name):
                    self._versions.retire(name, version)
            for name, config in configs.items():
                for version in config.wanted():  # others may have failed when they were wanted
                    state = self._versions.states(name).get(version)
                    if state and state.error_code != "OK":
                        raise ServingError(
                            state.error_code, f"model {name} version {version}: {state.error_message}"
                        )

    def _warn_of_kept(self, before, config):
        """Logs which versions of a new directory are not loaded: those loaded under their numbers stay."""
        states = self._versions.states(config.name)
        if kept := [version for version in config.wanted() if version in states and states[version].servable]:
            _log.warning(
                "model %s: versions %s stay those of %s; give those in %s new numbers to serve them",
                config.name,
                kept,
                before.base_path,
                config.base_path,
            )

    def _check_labels(self, configs):
        """Raises ServingError if a label names a version that does not serve yet.

        With `any_labels`, this is an error only of a label that now names another version: requests use it.
        """
        for name, config in configs.items():
            current = self._configs[name].labels if name in self._configs else {}
            for label, version in config.labels.items():
                if self._any_labels and current.get(label, version) == version:
                    continue
                state = self._versions.states(name).get(version)
                if not (state and state.servable):
                    raise ServingError(
                        "FAILED_PRECONDITION",
                        f"Request to assign label to version {version} of model {name}, which is not"
                        " currently available for inference",
                    )

    def watch(self, interval_seconds):
        """Looks regularly for new and removed versions, in a thread that ends with the process."""
        threading.Thread(target=_repeat, args=(self.look, interval_seconds), daemon=True).start()

    def watch_configs(self, read, interval_seconds):
        """Reads the configuration regularly, in a thread, and serves other models if it has changed.

        Args:
            read: Callable. Returns the list of `ModelConfig`.
            interval_seconds: float.
        """
        look = functools.partial(self.look_at_configs, read)
        threading.Thread(target=_repeat, args=(look, interval_seconds), daemon=True).start()

    def look(self):
        """Looks for new and removed versions of all models, once."""
        for config in list(self._configs.values()):
            try:
                self._update(config)
            except Exception:  # one model must not stop the updates of the others
                _log.exception("model %s could not be updated", config.name)

    def look_at_configs(self, read):
        """Reads the configuration once, and serves other models if it has changed."""
        configs = None
        try:
            configs = read()
            if not self.has(configs):
                self.reload(configs)
        except Exception as error:  # the next look may do better
            is_served = configs is not None and self.has(configs)  # but for a version that does not load
            how = "served, but not all of it" if is_served else "not served"
            is_known = isinstance(error, (ValueError, OSError, ServingError))
            _log.error("the new configuration is %s: %s", how, error, exc_info=not is_known)

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
        return self._versions.acquire(name, version)

    def release(self, servable):
        """Ends the use of a version; one that is out of service is unloaded after its last use."""
        self._versions.release(servable)

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
        states = self._versions.states(name)
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
        return self._versions.available()

    def _load_kept(self, config, versions):
        with self._update_lock:
            for version, path in version_directories(config.base_path).items():
                if version in versions:
                    self._load_if_due(config.name, version, path)

    def _update(self, config):
        """Loads and drops versions of one model according to its policy and the versions on disk."""
        with self._update_lock:
            if self._configs.get(config.name) is not config:  # a reload has replaced it in the meantime
                return
            wanted = config.wanted()
            for version, path in wanted.items():
                self._load_if_due(config.name, version, path)
            states = self._versions.states(config.name)
            if any(states[version].servable for version in wanted):
                for version, state in states.items():
                    if version not in wanted and state.state in ("AVAILABLE", "LOADING"):
                        self._versions.retire(config.name, version)

    def _load_if_due(self, name, version, path):
        known = self._versions.states(name).get(version)
        if self._retries.is_due(known, path):
            self._versions.put(name, version, VersionState("LOADING"))
            self._versions.put(name, version, self._retries.load(name, version, path, known))


def _repeat(look, interval_seconds):
    while True:
        time.sleep(interval_seconds)
        look()


def _warn_of_missing(config):
    """Logs what a configuration wants and does not find: it is served as soon as it is there."""
    if missing := missing_versions(config):
        _log.warning("model %s: %s", config.name, missing)
