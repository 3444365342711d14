"""Loading a version: its warm-up requests, and what is wrong with broken ones."""

import shutil

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.inference import CLASSIFY_METHOD, REGRESS_METHOD
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.loader import Loader
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.servable import Servable
from convnlp.serving.core.warmup import FILE_NAME


def write_requests(version, *logs):
    (version / "assets.extra").mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(version / FILE_NAME)) as writer:
        for log in logs:
            writer.write(log.SerializeToString())


def example(**features):
    return tf.train.Example(
        features=tf.train.Features(
            feature={
                name: tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                for name, value in features.items()
            }
        )
    )


def all_kinds():
    """A record of each kind for the model `g`."""
    predict = prediction_log_pb2.PredictionLog()
    predict.predict_log.request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0]))
    classify, regress, both = (prediction_log_pb2.PredictionLog() for _ in range(3))
    for request, name in (
        (classify.classify_log.request, "classify"),
        (regress.regress_log.request, "regress"),
    ):
        request.model_spec.signature_name = name
        request.input.example_list.examples.append(example(x=1.0))
    for method, name in ((CLASSIFY_METHOD, "classify"), (REGRESS_METHOD, "regress")):
        task = both.multi_inference_log.request.tasks.add(method_name=method)
        task.model_spec.signature_name = name
    both.multi_inference_log.request.input.example_list.examples.append(example(x=1.0))
    return predict, classify, regress, both


@pytest.fixture
def version(model_folder, tmp_path):
    return shutil.copytree(model_folder / "g" / "1", tmp_path / "1")


def test_every_request_is_asked_before_the_version_serves(version, monkeypatch):
    write_requests(version, *all_kinds())
    metrics, runs, run = Metrics(), [], Servable.run
    monkeypatch.setattr(Servable, "run", lambda *arguments: runs.append(0) or run(*arguments))
    Loader(metrics, num_iterations=3)("g", 1, str(version)).close()
    assert len(runs) == 3 * 4
    assert metrics.warmup_records.value(str(version), "OK") == 4
    assert metrics.warmup_latency.value(str(version), "OK") == 1
    assert metrics.load_attempts.value(str(version), "success") == 1
    Loader(metrics, num_iterations=0)("g", 1, str(version)).close()
    assert len(runs) == 3 * 4
    assert metrics.warmup_latency.value(str(version), "OK") == 1


def test_a_version_that_fails_its_warm_up_is_not_served(version):
    log = all_kinds()[0]
    log.predict_log.request.CopyFrom(predict_pb2.PredictRequest())
    write_requests(version, all_kinds()[0], log)
    metrics = Metrics()
    with pytest.raises(ServingError, match=r"warm-up request 2 of .*: .*input size does not match"):
        Loader(metrics)("g", 1, str(version))
    assert metrics.load_attempts.value(str(version), "fail") == 1
    assert metrics.warmup_records.value(str(version), "INVALID_ARGUMENT") == 2


def test_a_warm_up_request_that_cannot_be_read_is_the_one_named(version):
    write_requests(version, *all_kinds()[:2])
    content = (version / FILE_NAME).read_bytes()
    (version / FILE_NAME).write_bytes(content[:-1])
    with pytest.raises(ServingError, match=r"warm-up request 2 of .*: .*truncated record"):
        Loader(Metrics())("g", 1, str(version))
    (version / FILE_NAME).write_bytes(b"no record file")
    with pytest.raises(ServingError, match="warm-up request 1 of "):
        Loader(Metrics())("g", 1, str(version))


def use_an_unknown_op(version):
    model = saved_model_pb2.SavedModel.FromString((version / "saved_model.pb").read_bytes())
    model.meta_graphs[0].graph_def.node[0].op = "NoSuchOp"
    (version / "saved_model.pb").write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (use_an_unknown_op, "Op type not registered 'NoSuchOp'"),
        (shutil.rmtree, r"saved_model\.pb: no such file"),
    ],
)
def test_a_broken_version_is_an_error_with_a_reason(model_folder, tmp_path, breaks, words):
    version = shutil.copytree(model_folder / "affine" / "1", tmp_path / "1")
    breaks(version)
    metrics = Metrics()
    with pytest.raises(ServingError, match=words):
        Loader(metrics)("affine", 1, str(version))
    assert metrics.load_attempts.value(str(version), "fail") == 1


DATA = "variables/variables.data-00000-of-00001"


@pytest.mark.parametrize("kept", [0, 0.5, None])
@pytest.mark.parametrize("file", ["saved_model.pb", "variables/variables.index", DATA])
def test_a_truncated_or_missing_file_is_named(model_folder, tmp_path, file, kept):
    version = shutil.copytree(model_folder / "affine" / "1", tmp_path / "1")
    content = (version / file).read_bytes()
    (version / file).unlink()
    if kept is not None:
        (version / file).write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ServingError) as error:
        Loader(Metrics())("affine", 1, str(version))
    words = "it is empty" if (file, kept) == ("saved_model.pb", 0) else "truncated or damaged: "
    words = "" if kept is None else words
    assert error.value.message.startswith(f"{version / file}: ")
    assert words in error.value.message
    assert error.value.code == "DATA_LOSS"
    assert "\n" not in error.value.message


def test_warm_up_requests_have_limits_too(version, monkeypatch):
    log = prediction_log_pb2.PredictionLog()
    x = log.predict_log.request.inputs["x"]
    x.CopyFrom(tf.make_tensor_proto([1.0]))
    x.tensor_shape.dim[0].size = 2**40
    write_requests(version, log)
    monkeypatch.setattr(tf, "make_ndarray", None)
    with pytest.raises(ServingError, match=r"warm-up request 1 of .*: .*Batch of 1099511627776 is larger"):
        Loader(Metrics())("g", 1, str(version))


def test_a_version_loads_whose_warm_up_is_larger_than_clients_requests_may_be(version):
    """Exports of convnlp have requests of five examples."""
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0] * 5))
    write_requests(version, log)
    Loader(Metrics(), limits=Limits(batch_size=1, body_bytes=10))("g", 1, str(version)).close()


def test_a_version_loads_whose_warm_up_takes_longer_than_clients_requests_may(tmp_path):
    """The first run of a signature takes much longer than the later ones."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def count(x):
        return {"y": tf.while_loop(lambda i, _: i < 20_000, lambda i, y: (i + 1, y + 1.0), (0, x))[1]}

    version = tmp_path / "1"
    tf.saved_model.save(tf.Module(), str(version), {"serving_default": count})
    write_requests(version, all_kinds()[0])
    Loader(Metrics(), timeout_ms=1)("count", 1, str(version)).close()
