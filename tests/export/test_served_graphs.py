"""What the local server does without to be lean: no other operations run, and no bit of an answer differs."""

import collections

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow_serving.apis import prediction_log_pb2

from convnlp.serving.core import messages, warmup
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.lean_session import LeanSession
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.servable import Servable


def warm_up_requests(servable):
    for record in tf.compat.v1.io.tf_record_iterator(f"{servable.path}/{warmup.FILE_NAME}"):
        log = prediction_log_pb2.PredictionLog.FromString(record)
        yield messages.predict(servable, log.predict_log.request, Limits())


def session(version, config=None):
    """The model as TensorFlow's own loader loads it."""
    with tf.Graph().as_default():
        loaded = tf.compat.v1.Session(config=config)
        tf.compat.v1.saved_model.load(loaded, [tf.saved_model.SERVING], str(version))
    return loaded


def asked(session, computation):
    """(values, {operation that runs, with what is fused into it: how many})."""
    options, metadata = config_pb2.RunOptions(output_partition_graphs=True), config_pb2.RunMetadata()
    values = session.run(list(computation.fetches), computation.feeds, options, metadata)
    operations = collections.Counter()
    for graph in metadata.partition_graphs:
        for node in [*graph.node, *(node for each in graph.library.function for node in each.node_def)]:
            fused = node.attr["fused_ops"].list.s if "fused_ops" in node.attr else ()
            operations[node.op, *fused] += 1
    return values, operations


@pytest.mark.parametrize(
    "kind", ["classifier", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("lm", "prefix_lm"))]
)
def test_the_same_operations_run_as_by_default_and_say_the_same(request, kind):
    version, *_ = request.getfixturevalue(f"exported_{kind}")
    config = config_pb2.ConfigProto()
    LeanSession(str(version), config).session.close()
    config.experimental.disable_output_partition_graphs = False  # to see them
    plain, lean, served = session(version), session(version, config), Servable("m", 1, str(version))
    seen = set()
    for computation in warm_up_requests(served):
        values, operations = asked(plain, computation)
        assert sum(operations.values()) > 20
        assert asked(lean, computation)[1] == operations
        found = served.run(computation.feeds, computation.fetches)
        for value, expected in zip(found, values, strict=True):
            assert value.dtype == expected.dtype
            assert value.shape == expected.shape
            assert value.tolist() == expected.tolist()
        seen.add(computation.fetches)
    assert len(seen) == len(served.signatures) - ("__saved_model_init_op" in served.signatures)
    for each in (plain, lean, served):
        each.close()


@pytest.mark.parametrize(
    "kind", ["classifier", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("lm", "prefix_lm"))]
)
def test_an_example_is_one_text(request, kind):
    """Alone in a list, as Keras' users send it, or not; two would be answered as two examples."""
    version, *_ = request.getfixturevalue(f"exported_{kind}")
    served = Servable("m", 1, str(version))
    for computation in warm_up_requests(served):
        (first, *_) = arrays = list(computation.feeds.values())
        if first.dtype != object or len(first) != 2:
            continue

        def ask(*shape, computation=computation, arrays=arrays):
            feeds = zip(computation.feeds, (array.reshape(shape) for array in arrays), strict=True)
            return served.run(dict(feeds), computation.fetches)

        for value, expected in zip(ask(2, 1), ask(2), strict=True):
            assert value.tolist() == expected.tolist()
        with pytest.raises(ServingError, match="one_text_per_example") as error:
            ask(1, 2)
        assert error.value.code == "INVALID_ARGUMENT"
    served.close()
