"""The client for gRPC, which needs grpcio and protobuf, but not TensorFlow."""

import re

import grpc
from google.protobuf.message import DecodeError

from convnlp.serving.client.address import check_timeout, is_loopback, parse_url
from convnlp.serving.client.arguments import check_model, listed
from convnlp.serving.client.errors import RequestError
from convnlp.serving.client.grpc_messages import MESSAGES
from convnlp.serving.client.grpc_tensors import fill, values
from convnlp.serving.client.retries import DEFAULT_RETRIES, Retries

_STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}
_TRANSIENT = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
# RESOURCE_EXHAUSTED may mean a full queue, or a request that is too large.
_TOO_LARGE = re.compile("(?:larger|longer) than")


class GrpcClient:
    """Talks to TF Serving's gRPC interface, as `convnlp.serving.client.Client` does to REST.

    Args:
        address: str. The server's host and port, such as "127.0.0.1:8500".
        timeout_seconds: float in (0, 86400]. How long to wait for an answer.
        retries: int >= 0. How often to repeat a request, after growing pauses, if it got UNAVAILABLE (as
            when a connection is lost) or RESOURCE_EXHAUSTED.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(self, address: str, timeout_seconds: float = 60.0, retries: int = DEFAULT_RETRIES):
        parts = parse_url(f"grpc://{address}", ("grpc",))
        check_timeout(timeout_seconds)
        options = [("grpc.max_receive_message_length", -1)]
        if is_loopback(parts.hostname):
            options.append(("grpc.enable_http_proxy", 0))
        self._retries = Retries(retries)
        self._channel = grpc.insecure_channel(address, options)
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._dtypes: dict = {}

    def predict(self, model, instances, signature_name=None, version=None, label=None) -> list:
        """Returns the predictions for a batch of examples.

        Arguments and errors are those of `convnlp.serving.client.Client.predict`.
        """
        instances = listed("instances", instances)
        spec = _spec(model, signature_name, version, label)
        key = _key(spec)
        known = self._dtypes.get(key)
        try:
            return self._predict(spec, instances)
        except RequestError as error:
            if known is None or version is not None or error.status != "INVALID_ARGUMENT":
                raise
            self._dtypes.pop(key, None)  # there may be a new version, with other inputs
            if self._input_types(spec) == known:
                raise
        return self._predict(spec, instances)

    def _predict(self, spec, instances):
        dtypes = self._input_types(spec)
        _check_rows(instances, dtypes)
        request = MESSAGES["PredictRequest"](model_spec=spec)
        for name, dtype in dtypes.items():
            try:
                column = [_of_input(row, name) if isinstance(row, dict) else row for row in instances]
                fill(request.inputs[name], dtype, column)
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                raise _misfit(f"input {name} does not fit: {error}") from error
        response = self._call("PredictionService/Predict", request, "PredictResponse")
        columns = {
            name: values(tensor, as_bytes=name.endswith("_bytes"))  # as REST marks them
            for name, tensor in sorted(response.outputs.items())
        }
        for name, column in columns.items():
            if not isinstance(column, list) or len(column) != len(instances):
                entries = len(column) if isinstance(column, list) else "no list"
                raise RequestError(
                    f"output {name} of {self._address} must have one entry per example. "
                    f"Received: {entries} for {len(instances)} examples"
                )
        if not columns:
            raise RequestError(f"the answer of {self._address} has no outputs")
        if len(columns) == 1:
            return next(iter(columns.values()))
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def status(self, model, version=None) -> list[dict]:
        """Returns the states of the model's versions: dicts with `version` and `state`, without `status`."""
        request = MESSAGES["StatusRequest"](model_spec=_spec(model, None, version))
        response = self._call("ModelService/GetModelStatus", request, "StatusResponse")
        return [
            {"version": str(item.version), "state": _STATES.get(item.state, str(item.state))}
            for item in response.model_version_status
        ]

    def close(self):
        """Ends the connection."""
        self._channel.close()

    def _input_types(self, spec):
        """Returns the types of the signature's inputs; asks the server unless they are known."""
        key = _key(spec)
        if key not in self._dtypes:
            request = MESSAGES["MetadataRequest"](model_spec=spec, metadata_field=["signature_def"])
            response = self._call("PredictionService/GetModelMetadata", request, "MetadataResponse")
            signatures = self._parsed("SignatureDefMap", response.metadata["signature_def"].value)
            name = spec.signature_name or "serving_default"
            if name not in signatures.signature_def:
                raise RequestError(f"the model has no signature {name}", "INVALID_ARGUMENT")
            inputs = signatures.signature_def[name].inputs
            self._dtypes[key] = {name: info.dtype for name, info in sorted(inputs.items())}
        return self._dtypes[key]

    def _call(self, method, request, response):
        # Parsed here, because grpcio logs a traceback if a deserializer of its own fails.
        call = self._channel.unary_unary(f"/tensorflow.serving.{method}")
        content = request.SerializeToString()

        def ask():
            try:
                return call(content, timeout=self._timeout_seconds)
            except grpc.RpcError as error:
                raise _refusal(error) from error

        return self._parsed(response, self._retries.run(ask))

    def _parsed(self, name, content):
        try:
            return MESSAGES[name].FromString(content)
        except DecodeError as error:
            raise RequestError(f"the answer of {self._address} is not TF Serving's: {error}") from error


def _refusal(error):
    status, details = error.code().name, error.details() or "no reason given"
    is_too_large = status == "RESOURCE_EXHAUSTED" and bool(_TOO_LARGE.search(details))
    return RequestError(
        details,
        status,
        is_transient=status in _TRANSIENT and not is_too_large,
        is_refused=status == "INVALID_ARGUMENT" or is_too_large,
        retry_after_seconds=_pushback(error.trailing_metadata()),
    )


def _pushback(metadata):
    """Returns the seconds that a server asks for by gRPC's own convention, instead of Retry-After."""
    for key, value in metadata or ():
        if key == "grpc-retry-pushback-ms" and str(value).isdecimal():
            return int(value) / 1000
    return None


def _check_rows(instances, names):
    """Raises RequestError for what the row format of REST refuses."""
    are_dicts = bool(instances) and isinstance(instances[0], dict)
    if instances and len(names) > 1 and not are_dicts:
        raise _misfit(f"the inputs are {', '.join(names)}, so each example must be a dict with all of them")
    for index, row in enumerate(instances):
        if isinstance(row, dict) != are_dicts:
            expected, got = ("a dict", "a value") if are_dicts else ("a value", "a dict")
            raise _misfit(f"expecting {expected} as before, but got {got} at item {index}")
        for name in row if are_dicts else ():
            if name not in names:
                raise _misfit(f"item {index}: there is no input {name!r}, only {', '.join(names)}")


def _misfit(message):
    return RequestError(message, "INVALID_ARGUMENT", is_refused=True)


def _key(spec):
    return spec.SerializeToString(deterministic=True)


def _of_input(row, name):
    if name not in row:
        raise ValueError(f"an example has no value for it, only for {', '.join(map(repr, row)) or 'nothing'}")
    return row[name]


def _spec(model, signature_name, version=None, label=None):
    check_model(model, version, label)
    spec = MESSAGES["ModelSpec"](name=model, signature_name=signature_name or "", version_label=label or "")
    if version is not None:
        spec.version.value = version
    return spec
