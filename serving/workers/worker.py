"""A worker's side of the communication with the supervisor."""

import dataclasses
import itertools
import json
import os
import queue
import signal
import threading

from convnlp.serving.core.errors import ServingError, first_line
from convnlp.serving.core.model_config import ModelConfig
from convnlp.serving.core.retries import PutOffError
from convnlp.serving.workers.channel import written


class Worker:
    """This process, as one of the workers that serve.

    Args:
        number: int >= 1.
        connection: socket.socket. Leads to the supervisor; if its other end is closed, the process ends.
    """

    def __init__(self, number, connection):
        self.number = number
        self._socket = connection
        self._lock = threading.Lock()
        self._orders = queue.SimpleQueue()
        self._verdicts = queue.SimpleQueue()
        self._answers = {}
        self._questions = itertools.count()
        self._was_put_off = False
        self._metrics = None

    def start(self, metrics):
        """Starts a thread that listens to the supervisor.

        Args:
            metrics: `Metrics` of this process.
        """
        self._metrics = metrics
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()

    def in_step(self, load):
        """Wraps `load` of a `ModelManager` so that it returns when all workers have loaded the version.

        The function raises what `load` raises, `ServingError` if another worker cannot load the version, and
        `PutOffError` if another worker has not found it.
        """

        def load_in_step(name, version, path):
            servable = error = told = None
            try:
                servable = load(name, version, path)
            except Exception as found:  # raised below, after it has been reported
                error = found
                told = _told(error)
            self._send({"type": "wait", "key": [name, version], "error": told})
            decided = self._verdicts.get()
            if decided["verdict"] == "go":
                return servable
            if error:
                raise error
            servable.close()
            if decided["verdict"] == "put_off":
                self._was_put_off = True
                raise PutOffError("another worker has not found it yet")
            raise ServingError(decided["code"], decided["message"])

        return load_in_step

    def load(self, build):
        """Loads the models for the first time, when the supervisor says so.

        Args:
            build: Callable. Called with a list of `ModelConfig`, or None for those of the flags; returns the
                `ModelManager`.

        Returns:
            The `ModelManager`.

        Raises:
            ValueError: as for `ModelManager.load`.
        """
        manager = None
        while True:
            order = self._orders.get()
            manager = manager or build(_configs(order["configs"]))
            self._was_put_off = False
            try:
                manager.load([tuple(key) for key in order["kept"]])
            except ValueError:
                if not self._was_put_off:
                    raise
                self._send({"type": "done", "served": [], "error": None, "adopted": False, "put_off": True})
            else:
                return manager

    def follow(self, manager, read_configs):
        """Reports that this process serves, and from now on follows the supervisor's orders, in a thread.

        Args:
            manager: `ModelManager`.
            read_configs: Callable. Returns the current list of `ModelConfig` according to the flags.
        """

        def follow():
            error, adopted = None, False
            while True:
                done = {"served": manager.available(), "error": error, "adopted": adopted}
                self._send({"type": "done", **done})
                order, error, adopted = self._orders.get(), None, False
                if order["do"] == "reload":
                    configs = _configs(order["configs"])
                    try:
                        manager.reload(configs)
                    except Exception as found:
                        error = _told(found)
                    adopted = manager.has(configs)
                else:
                    if order["configs"]:
                        manager.look_at_configs(read_configs)
                    if order["versions"]:
                        manager.look()

        threading.Thread(target=follow, name="models", daemon=True).start()

    def failed(self, text):
        """Reports why this process cannot serve."""
        self._send({"type": "failed", "message": text})

    def reload(self, configs):
        """Calls `ModelManager.reload` in all workers.

        Args:
            configs: list of `ModelConfig`.

        Raises:
            ServingError: the first error of any worker.
        """
        answer = self._asked("ask_reload", configs=[dataclasses.asdict(config) for config in configs])
        if answer["error"]:
            raise ServingError(*answer["error"])

    def page(self):
        """Returns the merged page of metrics of all workers."""
        return self._asked("ask_page")["page"]

    def _asked(self, kind, **content):
        question, answer = next(self._questions), queue.SimpleQueue()
        self._answers[question] = answer
        self._send({"type": kind, "question": question, **content})
        return answer.get()

    def _send(self, message):
        try:
            with self._lock:
                self._socket.sendall(written(message))
        except (BrokenPipeError, ConnectionResetError):
            pass  # `_listen` ends the process

    def _listen(self):
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    self._receive(json.loads(line))
        except ConnectionResetError:
            pass
        os.kill(os.getpid(), signal.SIGTERM)  # nobody would start this process again, or end it

    def _receive(self, message):
        kind = message["do"]
        if kind == "page":
            self._send({"type": "page", "question": message["question"], "page": self._metrics.page()})
        elif kind == "answer":
            self._answers.pop(message["question"]).put(message)
        elif kind == "decided":
            self._verdicts.put(message)
        else:
            self._orders.put(message)


def _told(error):
    """Returns (code, message) of an error, as it is reported to others."""
    code = getattr(error, "code", "INVALID_ARGUMENT" if isinstance(error, ValueError) else "UNKNOWN")
    return code, first_line(error)


def _configs(found):
    """Returns the `ModelConfig`s of a message, or None if it has none."""
    if found is None:
        return None
    return [ModelConfig(**{**config, "versions": tuple(config["versions"])}) for config in found]
