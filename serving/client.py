r"""Asks a server for predictions: over REST with nothing but the standard library, or over gRPC.

    python -m serving.client --model=classifier --text="a gripping film" --text="dull"
    python -m serving.client --model=classifier --input=texts.txt --output=answers.jsonl
    python -m serving.client --url=grpc://127.0.0.1:8500 --model=classifier --text="dull"

gRPC needs grpcio and protobuf, but no TensorFlow (`serving.grpc_client`). A file holds one example a line:
plain text, or JSON where its name ends in .jsonl (an object with a value for every input, or the value itself
where there is one). Each line of the output is the prediction for that line of the input. In Python:

    >>> from serving.client import Client
    >>> client = Client("http://127.0.0.1:8501")
    >>> client.predict("classifier", ["a gripping film", "dull"])  # doctest: +SKIP
    [{'label': 'positive', 'scores': [0.03, 0.97]}, {'label': 'negative', 'scores': [0.91, 0.09]}]
"""

import argparse
import base64
import contextlib
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from serving.request_error import RequestError


def connect(url: str, timeout_seconds: float = 60.0):
    """Returns the client for an address.

    Args:
        url: str. "http://HOST:PORT" for REST, or "grpc://HOST:PORT".
        timeout_seconds: float. How long to wait for an answer.

    Returns:
        `Client` or `serving.grpc_client.GrpcClient`; both have `predict` and `status`.

    Raises:
        RequestError: if gRPC is asked for and grpcio is not installed.
    """
    if not url.startswith("grpc://"):
        return Client(url, timeout_seconds)
    try:
        from serving.grpc_client import GrpcClient
    except ImportError as error:
        raise RequestError(f"grpc:// needs grpcio and protobuf: {error}") from error
    return GrpcClient(url.removeprefix("grpc://"), timeout_seconds)


class Client:
    """Talks to TF Serving's REST interface: tensorflow_model_server or `serving.server`.

    Args:
        url: str. The server's address, such as "http://127.0.0.1:8501".
        timeout_seconds: float. How long to wait for an answer.
    """

    def __init__(self, url: str, timeout_seconds: float = 60.0):
        self._url = url.rstrip("/")
        self._timeout_seconds = timeout_seconds

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
            instances: list. One element an example: the value of the only input, or a dict with a value for
                each. Bytes are sent as base64.
            signature_name: str or None. The signature; the model's default one if None.
            version: int or None. The version; the newest if None.
            label: str or None. The version by its label instead.

        Returns:
            list with one prediction an example: the value of the only output, or a dict of them.

        Raises:
            RequestError: if there is no answer, or the answer is an error.
        """
        request = {"instances": list(instances)}
        return self._post("predict", model, request, signature_name, version, label)["predictions"]

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
            examples: list of dict. The features of each: a value or a list of them; floats need a point.
            signature_name: str or None. As for `predict`, like the arguments after it.
            version: int or None.
            label: str or None.

        Returns:
            list with a list of [label, score] an example.

        Raises:
            RequestError: as `predict`.
        """
        return self._post("classify", model, {"examples": examples}, signature_name, version, label)[
            "results"
        ]

    def regress(
        self,
        model: str,
        examples: list[dict],
        signature_name: str | None = None,
        version: int | None = None,
        label: str | None = None,
    ) -> list[float]:
        """Returns a number for each example; see `classify` for the arguments."""
        return self._post("regress", model, {"examples": examples}, signature_name, version, label)["results"]

    def status(self, model: str, version: int | None = None) -> list[dict]:
        """Returns the states of the model's versions: dicts with `version`, `state` and `status`."""
        return self._ask(_path(model, version))["model_version_status"]

    def metadata(self, model: str, version: int | None = None, label: str | None = None) -> dict:
        """Returns the model's signatures: name to inputs and outputs with their types and shapes."""
        answer = self._ask(_path(model, version, label) + "/metadata")
        return answer["metadata"]["signature_def"]["signature_def"]

    def wait(self, model, seconds, running=lambda: True):
        """Returns when the model is served.

        Args:
            model: str. The model's name.
            seconds: float. How long to wait at most.
            running: Callable. Whether the server can still be expected to answer.

        Raises:
            RequestError: if it is not served in time.
        """
        deadline = time.monotonic() + seconds
        while running() and time.monotonic() < deadline:
            with contextlib.suppress(RequestError):
                self.status(model)
                return
            time.sleep(0.2)
        raise RequestError(f"{self._url} does not serve {model}")

    def _post(self, method, model, request, signature_name, version, label):
        if signature_name is not None:
            request["signature_name"] = signature_name
        return self._ask(f"{_path(model, version, label)}:{method}", request)

    def _ask(self, path, document=None):
        """Sends a GET, or a POST of the document, and returns the JSON of the answer."""
        body = None if document is None else json.dumps(document, default=_to_base64).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_seconds) as response:
                return json.load(response, object_hook=_from_base64)
        except urllib.error.HTTPError as error:
            raise RequestError(_message(error), error.code) from error
        except OSError as error:
            raise RequestError(f"no answer from {self._url}: {getattr(error, 'reason', error)}") from error
        except ValueError as error:
            raise RequestError(f"the answer of {self._url} is not JSON: {error}") from error


def _path(model, version=None, label=None):
    path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
    if version is not None:
        return f"{path}/versions/{version}"
    return path if label is None else f"{path}/labels/{urllib.parse.quote(label, safe='')}"


def _message(error):
    """The server's own words, or the status line where the body is none of TF Serving's."""
    try:
        return json.load(error)["error"]
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"


def _to_base64(value):
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    raise TypeError(f"an instance must be made of what JSON knows, or bytes, got {type(value).__name__}")


def _from_base64(value):
    return base64.b64decode(value["b64"]) if value.keys() == {"b64"} else value


def read_examples(path):
    """Yields the examples of a file: lines of text, or of JSON where its name ends in .jsonl.

    Raises:
        ValueError: naming the file and the line that is not JSON or not UTF-8.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode().rstrip("\r\n")
                yield json.loads(text) if path.endswith(".jsonl") else text
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error


def batches(examples, size):
    """Yields lists of `size` examples, the last one perhaps shorter."""
    batch = []
    for example in examples:
        batch.append(example)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def main(arguments=None):
    """Asks for what the command line names and prints one JSON line an example."""
    flags = _flags().parse_args(arguments)
    try:
        client = connect(flags.url, flags.timeout_seconds)
        if flags.status:
            print(json.dumps(client.status(flags.model, flags.version)))
            return 0
        examples = read_examples(flags.input) if flags.input else flags.text
        with _writer(flags.output) as file:
            progress = _progress(flags)
            for batch in batches(examples, flags.batch_size):
                for prediction in client.predict(
                    flags.model, batch, flags.signature_name, flags.version, flags.label
                ):
                    print(json.dumps(prediction, ensure_ascii=False, default=_to_base64), file=file)
                progress.update(len(batch))
            progress.close()
    except (RequestError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


class _NoProgress:
    """Stands in for tqdm's bar where there is no tqdm, or nobody to look at it."""

    def update(self, count):
        """Counts examples."""

    def close(self):
        """Ends the bar."""


def _progress(flags):
    """A progress bar on a terminal, for a file that is written to another."""
    if not (flags.input and flags.output and sys.stderr.isatty()):
        return _NoProgress()
    try:
        from tqdm import tqdm
    except ImportError:
        return _NoProgress()
    with open(flags.input, "rb") as file:
        return tqdm(total=sum(1 for _ in file), unit=" examples")


@contextlib.contextmanager
def _writer(path):
    """Standard output, or the file, which appears under its name when it is complete."""
    if path is None:
        yield sys.stdout
        return
    part = f"{path}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            yield file
        os.replace(part, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(part)


def _flags():
    parser = argparse.ArgumentParser(prog="python -m serving.client", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--url", default="http://127.0.0.1:8501", help="the server, http:// or grpc:// (default: %(default)s)"
    )
    parser.add_argument("--model", required=True, help="the model's name")
    parser.add_argument("--signature_name", help="the signature (default: the model's own)")
    parser.add_argument("--version", type=int, help="the version (default: the newest)")
    parser.add_argument("--label", help="the version, by its label")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", action="append", help="a text; may be given several times")
    what.add_argument("--input", help="a file of examples, one a line")
    what.add_argument("--status", action="store_true", help="show the states of the model's versions")
    parser.add_argument("--output", help="the file to write (default: standard output)")
    parser.add_argument(
        "--batch_size", type=int, default=32, help="examples a request (default: %(default)s)"
    )
    parser.add_argument("--timeout_seconds", type=float, default=60.0, help="(default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
