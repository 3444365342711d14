"""Runs that have begun end when nobody waits for them: what they have done by then is counted, not timed."""

import gc
import os
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from convnlp.serving.core import prepared_run
from convnlp.serving.core.batching import Batcher
from convnlp.serving.core.batching_options import BatchingOptions
from convnlp.serving.core.cancellation import CancellableFuture, Cancellation
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.runner import Runner
from convnlp.serving.core.servable import Servable
from convnlp.serving.grpc.service import build_grpc_server
from tests.serving import server_thread
from tests.serving.in_process import InProcess
from tests.serving.small_models import save_affine
from tests.serving.test_abandoned import send, until

ENDLESS = 10**15


def save_counting(path):
    """Writes a model whose default signature counts up to x one by one; "counted" tells how far it is."""
    module = tf.Module()
    module.counter = tf.Variable(0, dtype=tf.int64)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "x")])
    def count(x):
        for _ in tf.range(tf.reduce_max(x)):
            module.counter.assign_add(1)
        return {"y": 2 * x, "z": 3 * x}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "x")])
    def counted(x):
        return {"y": module.counter.read_value() + 0 * x}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "x")])
    def check(x):
        tf.debugging.assert_positive(x, "not positive")
        return {"y": x}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "x")])
    def dense(x):
        x = tf.sin(tf.cast(x, tf.float32)[:, None] + tf.range(64.0))
        y = tf.matmul(x, tf.reshape(tf.cos(tf.range(64.0 * 64)), [64, 64]))
        return {"y": tf.nn.relu(tf.nn.bias_add(y, tf.range(64.0)))}

    functions = {"serving_default": count, "counted": counted, "check": check, "dense": dense}
    tf.saved_model.save(module, str(path), functions)


@pytest.fixture(autouse=True)
def every_run_can_be_ended(request, monkeypatch):
    """None counts as short, nor the one before the first, but where that is what is tested."""
    if "short" not in request.node.name:
        monkeypatch.setattr(prepared_run, "_SHORT_SECONDS", 0.0)
        monkeypatch.setattr(prepared_run.PreparedRun, "_was_short", False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counting")
    save_counting(folder / "affine" / "1")
    return folder


@pytest.fixture(scope="module")
def servable(folder):
    servable = Servable("affine", 1, str(folder / "affine" / "1"))
    yield servable
    servable.close()


def tensors(servable, signature, x):
    signature = servable.signatures[signature]
    fetches = tuple(signature.outputs[name].name for name in sorted(signature.outputs))
    return {signature.inputs["x"].name: np.array(x)}, fetches


def counted(servable):
    """How far it is; read in this thread, as those of TensorFlow may all be counting."""
    feeds, fetches = tensors(servable, "counted", [0])
    here = config_pb2.RunOptions(inter_op_thread_pool=-1)
    (values,) = servable._session.run(fetches, dict(feeds), options=here)
    return int(values[0])


def assert_ended(servable):
    """Nothing counts any more."""

    def rests():
        before = counted(servable)
        time.sleep(0.02)
        return counted(servable) == before

    until(rests)
    assert counted(servable) < ENDLESS


@pytest.fixture(params=["runner", "batcher", "split"])
def runner(request):
    if request.param == "runner":
        runner = Runner(2, 8)
    else:
        split = {"enable_large_batch_splitting": True, "max_execution_batch_size": 2}
        options = BatchingOptions(num_batch_threads=2, **(split if request.param == "split" else {}))
        runner = Batcher(options, Metrics())
    yield runner
    runner.close()


def test_a_run_that_is_cancelled_ends(servable, runner):
    """All of its parts, so that the threads are free for others, and no answer changes after it."""
    for _ in range(3):
        before = counted(servable)
        future = runner.submit(servable, *tensors(servable, "serving_default", [ENDLESS] * 4))
        until(lambda: counted(servable) > before)  # noqa: B023
        future.cancel()
        futures = [runner.submit(servable, *tensors(servable, "serving_default", [i])) for i in (1, 2, 3)]
        answers = [[array.tolist() for array in each.result(60)] for each in futures]
        assert answers == [[[2 * i], [3 * i]] for i in (1, 2, 3)]
        assert_ended(servable)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("runs_per_core", [1, 32])
def test_loops_that_begin_together_all_end(tmp_path, runs_per_core):
    """They may take all threads that a Session has by default before what stops them has one."""
    save_affine(tmp_path / "1", 1)
    number = runs_per_core * os.cpu_count()
    runner = Runner(number, 2 * number)
    servable = Servable("affine", 1, str(tmp_path / "1"), num_runs=runner.num_runs)
    for _ in range(5):
        futures = [
            runner.submit(servable, *float_tensors(servable, "slow", [1.0])) for _ in range(2 * number)
        ]
        time.sleep(0.3)  # some of them run
        for future in futures:
            future.cancel()
        (y,) = runner.submit(servable, *float_tensors(servable, "serving_default", [2.0])).result(60)
        assert y.tolist() == [2.0]
    runner.close()
    servable.close()
    del servable
    gc.collect()  # what is left of a switch does not ask a Session that is closed


def float_tensors(servable, signature, x):
    feeds, fetches = tensors(servable, signature, x)
    return {name: values.astype(np.float32) for name, values in feeds.items()}, fetches


def test_a_batch_runs_until_nobody_waits_for_any_of_it(servable):
    options = BatchingOptions(num_batch_threads=1, max_batch_size=2, batch_timeout_micros=10**8)
    batcher = Batcher(options, Metrics())
    x = tensors(servable, "serving_default", [ENDLESS])
    first, second = (batcher.submit(servable, *x) for _ in range(2))
    before = counted(servable)
    until(lambda: counted(servable) > before)
    first.cancel()
    before = counted(servable)
    until(lambda: counted(servable) > before + 1000)
    assert not second.done()
    second.cancel()
    for future in (first, second):
        with pytest.raises(ServingError, match="CANCELLED: The client has gone"):
            future.result(60)
    assert_ended(servable)
    batcher.close()


def test_a_run_that_was_given_up_before_it_began_does_nothing(servable):
    future = CancellableFuture()
    future.set_running_or_notify_cancel()
    future.cancel()
    before = counted(servable)
    with pytest.raises(ServingError, match="CANCELLED"):
        servable.run(*tensors(servable, "serving_default", [ENDLESS]), Cancellation([future]))
    assert counted(servable) == before


def test_a_cancellation_hits_no_other_run(servable):
    """However late it comes: runs take each other's switches."""
    x = tensors(servable, "serving_default", [20])
    stop = threading.Event()
    errors = []

    def ask():
        while not stop.is_set():
            try:
                assert [each.tolist() for each in servable.run(*x)] == [[40], [60]]
            except Exception as error:
                errors.append(error)

    others = [threading.Thread(target=ask) for _ in range(2)]
    for each in others:
        each.start()
    ends = []
    for number in range(300):
        future = CancellableFuture()
        future.set_running_or_notify_cancel()
        timer = threading.Timer(number * 2e-6, future.cancel)
        timer.start()
        try:
            servable.run(*x, Cancellation([future]))
            ends.append("done")
        except ServingError as error:
            ends.append(error.code)
        timer.join()
    stop.set()
    for each in others:
        each.join()
    assert errors == []
    assert set(ends) <= {"done", "CANCELLED"}


def switches_used(servable, monkeypatch):
    """Counts the runs that can be ended."""
    used = []
    run = servable._switches.run

    def counting(*args):
        used.append(1)
        return run(*args)

    monkeypatch.setattr(servable._switches, "run", counting)
    return used


def run_until_short(servable, used, signature="serving_default"):
    """Runs until a run goes without a switch: the machine may be slow. Forgets how many went with one."""

    def went_without():
        before = len(used)
        servable.run(*tensors(servable, signature, [1, 1]))
        return len(used) == before

    until(went_without)
    used.clear()


def test_the_first_run_is_no_measure_of_what_is_short_but_the_second_is(servable, monkeypatch):
    monkeypatch.setattr(prepared_run, "_SHORT_SECONDS", 0.0)
    used = switches_used(servable, monkeypatch)
    servable._prepared_runs.clear()
    for expected in (0, 0, 1, 2):
        servable.run(*tensors(servable, "serving_default", [1, 1]))
        assert len(used) == expected


def test_a_first_run_that_was_too_long_is_no_reason_to_do_without_short_ones(folder, monkeypatch):
    """It may be the machine that was slow."""
    monkeypatch.setattr(prepared_run, "_MAX_TRIAL_MS", 100)
    servable = Servable("affine", 1, str(folder / "affine" / "1"), timeout_ms=10**7)
    used = switches_used(servable, monkeypatch)
    runner = Runner(1, 8)
    future = runner.submit(servable, *tensors(servable, "serving_default", [ENDLESS]))
    until(lambda: len(used) == 1)
    future.cancel()
    assert_ended(servable)
    run_until_short(servable, used)
    servable.close()


def test_a_long_run_after_a_short_one_is_begun_again_and_can_be_ended_ever_after(folder, runner, monkeypatch):
    """It costs one trial, whatever the requests are."""
    monkeypatch.setattr(prepared_run, "_MAX_TRIAL_MS", 100)
    servable = Servable("affine", 1, str(folder / "affine" / "1"), timeout_ms=10**7)
    used = switches_used(servable, monkeypatch)
    run_until_short(servable, used)
    short, endless = (tensors(servable, "serving_default", [x] * 2) for x in (1, ENDLESS))
    for number in (1, 2):
        future = runner.submit(servable, *endless)
        until(lambda: len(used) == number)  # noqa: B023
        future.cancel()
        assert_ended(servable)
    for number in (3, 4):
        assert servable.run(*short)[0].tolist() == [2, 2]
        assert len(used) == number
    servable.close()


def test_a_run_that_was_given_up_during_its_trial_is_not_begun_again_after_a_short_one(folder, monkeypatch):
    monkeypatch.setattr(prepared_run, "_MAX_TRIAL_MS", 300)
    servable = Servable("affine", 1, str(folder / "affine" / "1"), timeout_ms=10**7)
    used = switches_used(servable, monkeypatch)
    runner = Runner(1, 8)
    run_until_short(servable, used)
    before = counted(servable)
    future = runner.submit(servable, *tensors(servable, "serving_default", [ENDLESS]))
    until(lambda: counted(servable) > before)
    future.cancel()
    with pytest.raises(ServingError, match="CANCELLED"):
        future.result(60)
    assert_ended(servable)
    assert used == []
    servable.close()


@pytest.mark.parametrize("timeout_ms", [200, 400])
def test_a_time_out_after_a_short_run(folder, timeout_ms, monkeypatch):
    monkeypatch.setattr(prepared_run, "_MAX_TRIAL_MS", 300)
    servable = Servable("affine", 1, str(folder / "affine" / "1"), timeout_ms=timeout_ms)
    run_until_short(servable, switches_used(servable, monkeypatch))
    for _ in range(2):
        with pytest.raises(ServingError, match="DEADLINE_EXCEEDED: Timed out waiting for notification"):
            servable.run(*tensors(servable, "serving_default", [ENDLESS]))
    assert_ended(servable)
    servable.close()


def test_what_fails_after_a_short_run_says_so_as_the_real_server(servable, monkeypatch):
    used = switches_used(servable, monkeypatch)
    run_until_short(servable, used, "check")
    for _ in range(3):
        with pytest.raises(ServingError, match="not positive"):
            servable.run(*tensors(servable, "check", [-1]))
    assert used == []


def test_what_fails_or_takes_too_long_says_so_as_before(folder):
    servable = Servable("affine", 1, str(folder / "affine" / "1"), timeout_ms=200)
    for _ in range(2):
        with pytest.raises(ServingError, match="DEADLINE_EXCEEDED: Timed out waiting for notification"):
            servable.run(*tensors(servable, "serving_default", [ENDLESS]))
        for _ in range(20):
            with pytest.raises(ServingError, match="not positive"):
                servable.run(*tensors(servable, "check", [-1]))
        assert servable.run(*tensors(servable, "check", [7]))[0].tolist() == [7]
    servable.close()


def test_choices_of_outputs_do_not_let_the_graph_grow(servable):
    size = len(servable._session.graph.get_operations())
    feeds, (y, z) = tensors(servable, "serving_default", [1])
    for fetches in ((y,), (z,), (y, z)):
        servable.run(feeds, fetches)
    servable._prepared_runs.clear()  # as when there are too many
    for fetches in ((z, y), (y,), (y, y), (y, z), (z,)):
        expected = [[2 if name == y else 3] for name in fetches]
        assert [each.tolist() for each in servable.run(feeds, fetches)] == expected
    assert len(servable._session.graph.get_operations()) == size


def test_no_bit_of_an_answer_differs_from_a_run_that_cannot_be_stopped(servable):
    feeds, fetches = tensors(servable, "dense", range(50))
    (expected,) = servable._session.run(fetches, dict(feeds))
    assert expected.shape == (50, 64)
    assert servable.run(feeds, fetches)[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["none", "none:0", "", "PLACEHOLDER:7"])
def test_a_tensor_that_there_is_not_is_still_an_error_of_the_model(servable, name):
    feeds, _ = tensors(servable, "serving_default", [1])
    with pytest.raises(ServingError) as error:
        servable.run(feeds, (name,))
    assert error.value.http_status in (400, 404)


def test_two_rest_clients_that_go_leave_the_threads_to_others(folder):
    models = InProcess(folder, runner=Runner(2, 8), limits=Limits(timeout_ms=10**7))
    servable = models.manager.acquire("affine")
    with server_thread.serving(models.app) as port:
        before = counted(servable)
        gone = [send(port, [ENDLESS]) for _ in range(2)]
        until(lambda: counted(servable) > before)
        for connection in gone:
            connection.close()
        with send(port, [4]) as connection:
            assert b" 200 " in connection.recv(4096)
        assert_ended(servable)
    models.manager.release(servable)


@pytest.mark.parametrize("end", ["cancel", "deadline", "disconnect"])
def test_a_grpc_call_that_has_ended_ends_its_run(folder, end):
    runner = Runner(1, 8)
    models = InProcess(folder, runner=runner, limits=Limits(timeout_ms=10**7))
    servable = models.manager.acquire("affine")
    server = build_grpc_server(models.manager, runner, Metrics(), Limits(timeout_ms=10**7))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    before = counted(servable)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "affine"
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.array([ENDLESS])))
        for seconds in (1, 4, 16, 64):  # on a busy machine, a call may end before its run begins
            call = stub.Predict.future(request, timeout=seconds if end == "deadline" else None)
            until(lambda call=call: counted(servable) > before or call.done())
            if counted(servable) > before:
                break
        assert counted(servable) > before
        if end == "cancel":
            call.cancel()
        elif end == "deadline":
            until(call.done)
    assert runner.submit(servable, *tensors(servable, "serving_default", [1])).result(60)
    assert_ended(servable)
    server.stop(None).wait()
    models.manager.release(servable)
