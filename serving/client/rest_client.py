"""The client for REST, which needs only the standard library."""

import contextlib
import time
import urllib.parse

from convnlp.serving.client.arguments import check_model, listed
from convnlp.serving.client.errors import RequestError
from convnlp.serving.client.http_exchange import HttpExchange
from convnlp.serving.client.retries import DEFAULT_RETRIES, Retries


class Client:
    """Talks to TF Serving's REST interface: tensorflow_model_server or `convnlp.serving.server`.

    Args:
        url: str. The server's address, such as "http://127.0.0.1:8501".
        timeout_seconds: float in (0, 86400]. How long to wait for an answer.
        retries: int >= 0. How often to repeat a request, after growing pauses, if it got 429 or 503 or its
            connection was lost; the logger "serving.client" notes each time.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(self, url: str, timeout_seconds: float = 60.0, retries: int = DEFAULT_RETRIES):
        self._http = HttpExchange(url, timeout_seconds)
        self._retries = Retries(retries)

    def predict(
        self,
        model: str,
        instances: list,
        signature_name: str | None = None,
        version: int | None = None,
        label: str | None = None,
    ) -> list:
        """Returns the predictions for a batch of examples.

        Args:
            model: str. The model's name.
            instances: list with one element per example: the value of the only input, or a dict with a value
                for each input. Bytes are sent as base64; tuples and arrays of NumPy count as lists.
            signature_name: str or None. The signature; the model's default if None.
            version: int or None. The version; the newest if None.
            label: str or None. The label of a version, instead of its number.

        Returns:
            list with one prediction per example: the value of the only output, or a dict of them.

        Raises:
            RequestError: if an instance cannot be sent, if there is no answer, or if the answer is an error
                or has the wrong number of predictions.
            ValueError: if `instances` is a single one, `version` is out of range, or both a version and a
                label are given.
        """
        return self._each("predict", model, "instances", instances, signature_name, version, label)

    def classify(
        self,
        model: str,
        examples: list[dict],
        signature_name: str | None = None,
        version: int | None = None,
        label: str | None = None,
    ) -> list[list]:
        """Returns the classes of examples, for a signature that reads tf.train.Example messages.

        Args:
            model: str. The model's name.
            examples: list of dicts of features, each a value or a list of them; floats need a decimal point.
            signature_name: str or None. As for `predict`, like the following arguments.
            version: int or None.
            label: str or None.

        Returns:
            list with one list of [label, score] per example.

        Raises:
            RequestError, ValueError: as for `predict`.
        """
        return self._each("classify", model, "examples", examples, signature_name, version, label)

    def regress(
        self,
        model: str,
        examples: list[dict],
        signature_name: str | None = None,
        version: int | None = None,
        label: str | None = None,
    ) -> list[float]:
        """Returns a number for each example; see `classify` for the arguments."""
        return self._each("regress", model, "examples", examples, signature_name, version, label)

    def status(self, model: str, version: int | None = None) -> list[dict]:
        """Returns the states of the model's versions: dicts with `version`, `state` and `status`."""
        return self._part(self._ask(_path(model, version)), "model_version_status", list)

    def metadata(self, model: str, version: int | None = None, label: str | None = None) -> dict:
        """Returns the model's signatures: their names, with the types and shapes of inputs and outputs."""
        part = self._ask(_path(model, version, label) + "/metadata")
        for name in ("metadata", "signature_def", "signature_def"):
            part = self._part(part, name, dict)
        return part

    def wait(self, model, seconds, running=lambda: True):
        """Waits until the model is served.

        Args:
            model: str. The model's name.
            seconds: float. How long to wait at most.
            running: Callable. Whether the server can still be expected to answer.

        Raises:
            RequestError: if the model is not served in time.
        """
        deadline = time.monotonic() + seconds
        while running() and time.monotonic() < deadline:
            with contextlib.suppress(RequestError):
                self._http.ask(_path(model))
                return
            time.sleep(0.2)
        raise RequestError(f"{self._http.url} does not serve {model}")

    def close(self):
        """Does nothing, because each request has a connection of its own."""

    def _each(self, method, model, name, examples, signature_name, version, label):
        """Posts a list of examples, and returns a list of equally many answers."""
        request = {name: listed(name, examples)}
        if signature_name is not None:
            request["signature_name"] = signature_name
        answer = self._ask(f"{_path(model, version, label)}:{method}", request)
        results = self._part(answer, "predictions" if method == "predict" else "results", list)
        if len(results) != len(request[name]):
            raise RequestError(
                f"the answer of {self._http.url} must have one entry per example. "
                f"Received: {len(results)} for {len(request[name])} examples"
            )
        return results

    def _ask(self, path, document=None):
        return self._retries.run(lambda: self._http.ask(path, document))

    def _part(self, answer, name, kind):
        """Returns a part of an answer that every server of TF Serving's kind gives."""
        if not isinstance(answer.get(name), kind):
            raise RequestError(f"the answer of {self._http.url} is not TF Serving's: it has no {name!r}")
        return answer[name]


def _path(model, version=None, label=None):
    check_model(model, version, label)
    path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
    if version is not None:
        return f"{path}/versions/{version}"
    return path if label is None else f"{path}/labels/{urllib.parse.quote(label, safe='')}"
