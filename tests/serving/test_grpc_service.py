"""The gRPC interface, asked through the stubs of tensorflow-serving-api."""

import queue
import threading
import time
from concurrent.futures import Future

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.inference import CLASSIFY_METHOD, REGRESS_METHOD
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.tensors import to_array
from convnlp.serving.grpc.service import build_grpc_server
from tests.serving.in_process import InProcess
from tests.serving.small_models import TYPES
from tests.serving.test_warmup import example


@pytest.fixture(scope="module")
def served(model_folder, model_configs):
    limits = Limits(timeout_ms=1000, body_bytes=10_000, text_bytes=1000)
    models = InProcess(model_folder, model_configs, limits=limits)
    server = build_grpc_server(models.manager, models.runner, models.metrics, limits, num_threads=2)
    models.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{models.port}") as channel:
        models.predictions = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        models.service = model_service_pb2_grpc.ModelServiceStub(channel)
        yield models
    server.stop(None)


def spec(message, name, signature="", version=None, label=None):
    """Fills in whom a request is for."""
    message.name, message.signature_name = name, signature
    if version is not None:
        message.version.value = version
    if label is not None:
        message.version_label = label


def predict(served, name, inputs, outputs=(), timeout=60, **which):
    request = predict_pb2.PredictRequest(output_filter=outputs)
    spec(request.model_spec, name, **which)
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    return served.predictions.Predict(request, timeout=timeout)


def test_predict(served):
    response = predict(served, "affine", {"x": np.float32([1, 2])})
    assert list(response.outputs["y"].float_val) == [2.5, 3.0]
    assert (response.model_spec.version.value, response.model_spec.signature_name) == (2, "serving_default")
    for which in ({"version": 1}, {"label": "stable"}):
        response = predict(served, "affine", {"x": np.float32([1])}, **which)
        assert list(response.outputs["y"].float_val) == [1.5]
        assert response.model_spec.version.value == 1
    inputs = {"text": np.array([b"ab", b"\xff\0"], object), "count": np.int32([2, 3])}
    response = predict(served, "affine", inputs, signature="repeat")
    assert tf.make_ndarray(response.outputs["length"]).tolist() == [4, 6]
    assert list(response.outputs["raw_bytes"].string_val) == [b"ab", b"\xff\0"]
    response = predict(served, "affine", inputs, signature="repeat", outputs=["length"])
    assert list(response.outputs) == ["length"]


@pytest.mark.parametrize("name", TYPES)
def test_every_type_comes_back_as_it_went(served, name):
    dtype = tf.as_dtype(name)
    values = [b"a", b""] if name == "string" else [0, 1]
    array = np.array(values, dtype.as_numpy_dtype)
    output = predict(served, "g", {"x": array}, signature=name).outputs["y"]
    assert output.dtype == dtype.as_datatype_enum
    assert tf.make_ndarray(output).tolist() == array.tolist()


def by_examples(message, signature, *examples):
    spec(message.model_spec, "g", signature)
    message.input.example_list.examples.extend(examples)
    return message


def test_classify_and_regress(served):
    request = by_examples(classification_pb2.ClassificationRequest(), "classify", example(x=1.5))
    response = served.predictions.Classify(request)
    (row,) = response.result.classifications
    assert [(item.label, item.score) for item in row.classes] == [("small", 1.5), ("large", 3.0)]
    assert response.model_spec.signature_name == "classify"

    request = by_examples(regression_pb2.RegressionRequest(), "regress", example(x=1.5), example(x=2.0))
    response = served.predictions.Regress(request)
    assert [item.value for item in response.result.regressions] == [0.75, 1.0]
    context = regression_pb2.RegressionRequest()
    spec(context.model_spec, "g", "regress")
    context.input.example_list_with_context.context.CopyFrom(example(x=4.0))
    context.input.example_list_with_context.examples.append(tf.train.Example())
    assert [item.value for item in served.predictions.Regress(context).result.regressions] == [2.0]


def test_multi_inference(served):
    request = inference_pb2.MultiInferenceRequest()
    request.input.example_list.examples.append(example(x=1.5))
    for method, signature in ((CLASSIFY_METHOD, "classify"), (REGRESS_METHOD, "regress")):
        spec(request.tasks.add(method_name=method).model_spec, "g", signature)
    classes, values = served.predictions.MultiInference(request).results
    assert classes.model_spec.signature_name == "classify"
    assert [item.score for item in classes.classification_result.classifications[0].classes] == [1.5, 3.0]
    assert [item.value for item in values.regression_result.regressions] == [0.75]
    request.tasks[1].model_spec.signature_name = "classify"
    assert_fails(
        lambda: served.predictions.MultiInference(request), "INVALID_ARGUMENT", "Duplicate evaluation"
    )
    request.tasks[1].model_spec.name = "affine"
    assert_fails(
        lambda: served.predictions.MultiInference(request), "INVALID_ARGUMENT", "the same model name"
    )


def test_metadata_and_status(served):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    spec(request.model_spec, "affine")
    response = served.predictions.GetModelMetadata(request)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    assert signatures.signature_def["serving_default"].inputs["x"].dtype == tf.float32.as_datatype_enum
    assert response.model_spec.version.value == 2
    request.metadata_field[0] = "other"
    assert_fails(
        lambda: served.predictions.GetModelMetadata(request), "INVALID_ARGUMENT", "other is not supported"
    )

    request = get_model_status_pb2.GetModelStatusRequest()
    spec(request.model_spec, "affine")
    states = served.service.GetModelStatus(request).model_version_status
    assert [(state.version, state.state) for state in states] == [(2, 30), (1, 30)]  # AVAILABLE
    request.model_spec.name = "none"
    assert_fails(lambda: served.service.GetModelStatus(request), "NOT_FOUND", "any versions of model none")


def assert_fails(call, code, words):
    with pytest.raises(grpc.RpcError) as error:
        call()
    assert error.value.code() == grpc.StatusCode[code]
    assert words in error.value.details()


def test_errors(served):
    x = {"x": np.float32([1])}
    for code, words, name, inputs, options in [
        ("NOT_FOUND", "Servable not found for request: Latest(none)", "none", x, {}),
        ("NOT_FOUND", "Specific(affine, 7)", "affine", x, {"version": 7}),
        ("INVALID_ARGUMENT", "Unrecognized servable version label: a", "affine", x, {"label": "a"}),
        ("INVALID_ARGUMENT", "ModelSpec has no name specified", "", x, {}),
        ("FAILED_PRECONDITION", 'Serving signature key "a" not found.', "affine", x, {"signature": "a"}),
        ("INVALID_ARGUMENT", "Sent extra: {}. Missing but required: {x}.", "affine", {}, {}),
        ("INVALID_ARGUMENT", "input tensor alias not found in signature: z", "affine", {"z": 1.0}, {}),
        (
            "INVALID_ARGUMENT",
            "output tensor alias not found in signature: z",
            "affine",
            x,
            {"outputs": ["z"]},
        ),
        ("INVALID_ARGUMENT", "duplicate output tensor alias: y", "affine", x, {"outputs": ["y", "y"]}),
        ("INVALID_ARGUMENT", "float", "affine", {"x": [b"text"]}, {}),
        (
            "INVALID_ARGUMENT",
            "value: '\N{REPLACEMENT CHARACTER}'",
            "g",
            {"inputs": [b"\xff"]},
            {"signature": "classify"},
        ),
        ("RESOURCE_EXHAUSTED", "longer than 1000", "g", {"x": [b"x" * 1001]}, {"signature": "string"}),
        ("RESOURCE_EXHAUSTED", "larger than max", "g", {"x": [b"x" * 20_000]}, {"signature": "string"}),
        ("DEADLINE_EXCEEDED", "", "affine", x, {"signature": "slow"}),
        ("DEADLINE_EXCEEDED", "", "affine", x, {"signature": "slow", "timeout": 0.2}),
    ]:
        assert_fails(lambda: predict(served, name, inputs, **options), code, words)  # noqa: B023
    broken = predict_pb2.PredictRequest()
    spec(broken.model_spec, "affine")
    broken.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0, 2.0]))
    broken.inputs["x"].tensor_content = b"abc"
    assert_fails(lambda: served.predictions.Predict(broken), "INVALID_ARGUMENT", "")
    assert predict(served, "affine", x).outputs["y"].float_val[0] == 2.5


def declares(*sizes, dtype=tf.float32, **values):
    """A TensorProto of a shape, whatever values it has."""
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum, **values)
    for size in sizes:
        proto.tensor_shape.dim.add(size=size)
    return proto


ONE = {"float_val": [1.0]}
UNMADE = [  # code, words, the tensor
    ("RESOURCE_EXHAUSTED", "Batch of 134217728 is larger than 4096", declares(2**27, **ONE)),
    ("RESOURCE_EXHAUSTED", "takes 536870912 bytes, more than 67108864", declares(1, 2**27, **ONE)),
    (
        "RESOURCE_EXHAUSTED",
        "takes 1361129467683753853558350524547720019984 bytes",
        declares(1, *[2**63 - 1] * 2, 4),
    ),
    ("RESOURCE_EXHAUSTED", "must hold all 2097152 values", declares(1, 2**21, **ONE)),
    ("RESOURCE_EXHAUSTED", "must hold all 2097152 values", declares(1, 2**21)),
    ("RESOURCE_EXHAUSTED", "takes 201326592 bytes", declares(8, 2**20, dtype=tf.string, string_val=[b"a"])),
    ("INVALID_ARGUMENT", "sizes of at least 0. Received: the shape [-2, -4]", declares(-2, -4, **ONE)),
    ("INVALID_ARGUMENT", "at most 254 dimensions. Received: 255 dimensions", declares(*[1] * 255, **ONE)),
    (
        "INVALID_ARGUMENT",
        "must have 8 bytes. Received: tensor_content of 3",
        declares(2, tensor_content=b"abc"),
    ),
    ("INVALID_ARGUMENT", "at most 1 values. Received: 3 values", declares(1, float_val=[1.0, 2.0, 3.0])),
    ("INVALID_ARGUMENT", "at most 0 values. Received: 1 values", declares(0, **ONE)),
    ("INVALID_ARGUMENT", "string_val, not tensor", declares(2, dtype=tf.string, tensor_content=b"abc")),
    ("INVALID_ARGUMENT", "Received: DT_INVALID", tensor_pb2.TensorProto()),
    ("INVALID_ARGUMENT", "Received: DT_VARIANT", declares(1, dtype=tf.variant)),
    ("INVALID_ARGUMENT", "Received: 999", tensor_pb2.TensorProto(dtype=999)),
]


@pytest.mark.parametrize(("code", "words", "proto"), UNMADE, ids=[words for _, words, _ in UNMADE])
def test_what_a_tensor_declares_is_checked_before_it_is_made(code, words, proto, monkeypatch):
    monkeypatch.setattr(tf, "make_ndarray", None)
    with pytest.raises(ServingError) as error:
        to_array(proto, Limits())
    assert error.value.code == code
    assert words in error.value.message


def test_tensors_whose_last_value_is_repeated():
    assert to_array(declares(2, 3, float_val=[1.0, 2.0]), Limits()).tolist() == [[1, 2, 2], [2, 2, 2]]
    assert to_array(declares(2), Limits()).tolist() == [0, 0]
    assert to_array(declares(3, dtype=tf.string, string_val=[b"a"]), Limits()).tolist() == [b"a"] * 3
    assert to_array(declares(0, 5, dtype=tf.int64), Limits()).shape == (0, 5)
    assert to_array(declares(), Limits()).shape == ()
    with pytest.raises(ServingError, match="a value that DT_UINT8 cannot hold"):
        to_array(declares(1, dtype=tf.uint8, int_val=[300]), Limits())


def test_limits_hold_for_requests_of_every_kind(served, monkeypatch):
    monkeypatch.setattr(tf, "make_ndarray", None)
    request = predict_pb2.PredictRequest()
    spec(request.model_spec, "affine")
    request.inputs["x"].CopyFrom(declares(2**27, **ONE))
    assert_fails(lambda: served.predictions.Predict(request), "RESOURCE_EXHAUSTED", "Batch of 134217728")
    request.inputs["unknown"].CopyFrom(declares(1, **ONE))  # which no signature asks for
    assert_fails(lambda: served.predictions.Predict(request), "INVALID_ARGUMENT", "size does not match")

    many = regression_pb2.RegressionRequest()
    spec(many.model_spec, "g", "regress")
    many.input.example_list.examples.extend([tf.train.Example()] * 4097)
    assert_fails(lambda: served.predictions.Regress(many), "RESOURCE_EXHAUSTED", "Batch of 4097")
    context = regression_pb2.RegressionRequest()
    spec(context.model_spec, "g", "regress")
    context.input.example_list_with_context.context.CopyFrom(example(x=4.0))
    context.input.example_list_with_context.examples.extend([tf.train.Example()] * 1000)
    words = "The context of all examples takes"
    assert_fails(lambda: served.predictions.Regress(context), "RESOURCE_EXHAUSTED", words)


def test_failures_leave_no_traceback_in_the_log(served, caplog):
    """Not of requests that are no messages either; the longest words of an error still reach the client."""
    x = {"x": np.float32([1])}
    assert_fails(lambda: predict(served, "none", x), "NOT_FOUND", "Latest(none)")
    assert_fails(lambda: predict(served, "n" * 9000, x), "NOT_FOUND", "Latest(nnn")
    for method in ("PredictionService/Predict", "ModelService/GetModelStatus"):
        with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            call = channel.unary_unary(f"/tensorflow.serving.{method}")
            assert_fails(lambda: call(b"\xff\xff"), "INVALID_ARGUMENT", "is not a message of this method")  # noqa: B023
    assert caplog.records == []


class Waiting:
    """A runner whose futures nobody finishes."""

    def __init__(self):
        self.futures = queue.Queue()

    def submit(self, servable, feeds, fetches):
        self.futures.put(Future())
        return self.futures.queue[-1]


@pytest.mark.parametrize("end", ["cancel", "deadline", "disconnect"])
def test_a_call_that_has_ended_cancels_its_computation(served, end):
    runner = Waiting()
    metrics = Metrics()
    server = build_grpc_server(served.manager, runner, metrics, num_threads=1)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        request = predict_pb2.PredictRequest()
        spec(request.model_spec, "affine")
        request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0]))
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        call = stub.Predict.future(request, timeout=0.5 if end == "deadline" else None)
        future = runner.futures.get(timeout=60)
        gone = threading.Event()
        future.add_done_callback(lambda _: gone.set())
        if end == "cancel":
            call.cancel()
        if end != "disconnect":
            assert gone.wait(60)
    assert gone.wait(60)
    assert future.cancelled()
    server.stop(None).wait()
    code = "DEADLINE_EXCEEDED" if end == "deadline" else "CANCELLED"
    deadline = time.monotonic() + 60
    while not metrics.request_count.value("affine", code) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert metrics.request_count.value("affine", code) == 1


def test_another_configuration_is_served(served, model_folder):
    def reload(*names):
        request = model_management_pb2.ReloadConfigRequest()
        for name in names:
            request.config.model_config_list.config.add(
                name=name, base_path=str(model_folder / "affine"), model_platform="tensorflow"
            )
        return served.service.HandleReloadConfigRequest(request)

    before = served.manager._configs
    assert reload("affine", "copy").status.error_code == 0
    assert predict(served, "copy", {"x": np.float32([0])}).outputs["y"].float_val[0] == 2.0
    assert_fails(lambda: predict(served, "g", {"x": np.float32([0])}), "NOT_FOUND", "Latest(g)")
    assert_fails(lambda: reload(""), "INVALID_ARGUMENT", "every config must have a name")
    assert_fails(lambda: reload("a", "a"), "INVALID_ARGUMENT", "models must have different names")
    served.manager.reload(before.values())


def test_a_limit_beyond_what_grpc_knows(served):
    limits = Limits(body_bytes=2**32)
    server = build_grpc_server(served.manager, served.runner, served.metrics, limits)
    assert server.add_insecure_port("127.0.0.1:0")
    server.stop(None)
