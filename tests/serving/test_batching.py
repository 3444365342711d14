"""Dynamic batching, on a model that only remembers what it was asked."""

import gc
import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from convnlp.serving.core import batching, split_requests, stop_switch
from convnlp.serving.core.batching import Batcher
from convnlp.serving.core.batching_options import BatchingOptions
from convnlp.serving.core.errors import ServingError, timed_out
from convnlp.serving.core.metrics import Metrics


class Doubler:
    """Answers 2 x; a negative value is an error. `gate` holds it up."""

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()

    def run(self, feeds, fetches, cancellation):
        self.gate.wait(60)
        (x,) = feeds.values()
        self.batches.append(x.tolist())
        if (x < 0).any():
            raise ServingError("INVALID_ARGUMENT", f"negative: {x.min()}")
        return [2 * x for _ in fetches]


@pytest.fixture
def make():
    batchers = []

    def make(**options):
        batchers.append(Batcher(BatchingOptions(num_batch_threads=1, **options), Metrics()))
        return batchers[-1], Doubler()

    yield make
    for batcher in batchers:
        batcher.close()


def held(batcher, model, first=0):
    """Occupies the only thread, so that what follows is batched; returns the future of that."""
    model.gate.clear()
    future = batcher.submit(model, {"x": np.array([first])}, ("y",))
    while batcher._waiting:
        pass
    return future


def until_idle(batcher):
    """Waits until the only thread has nothing to do at the moment."""
    for _ in range(6000):
        if batcher._changed._waiters:
            break
        time.sleep(0.01)


def ask(batcher, model, *rows):
    return batcher.submit(model, {"x": np.array(rows)}, ("y",))


def value(future):
    (array,) = future.result(60)
    return array.tolist()


def test_a_batch_without_rows_is_not_padded(make):
    batcher, model = make(max_batch_size=8, allowed_batch_sizes=(4, 8))
    assert value(batcher.submit(model, {"x": np.zeros([0, 2])}, ("y",))) == []
    assert model.batches == [[]]


def test_requests_that_wait_run_as_one_and_each_gets_its_own_rows(make):
    batcher, model = make()
    futures = [
        held(batcher, model),
        ask(batcher, model, 1, 2),
        ask(batcher, model, 3),
        ask(batcher, model, 4, 5),
    ]
    model.gate.set()
    assert [value(future) for future in futures] == [[0], [2, 4], [6], [8, 10]]
    assert model.batches == [[0], [1, 2, 3, 4, 5]]


def test_a_full_batch_leaves_and_the_next_one_begins(make):
    batcher, model = make(max_batch_size=3)
    futures = [held(batcher, model), *(ask(batcher, model, 2 * i, 2 * i + 1) for i in range(1, 4))]
    model.gate.set()
    assert [value(future) for future in futures][1:] == [[4, 6], [8, 10], [12, 14]]
    assert model.batches == [[0], [2, 3], [4, 5], [6, 7]]


def test_a_batch_waits_for_others_up_to_the_timeout(make):
    batcher, model = make(max_batch_size=4, batch_timeout_micros=60_000_000)
    futures = [ask(batcher, model, i) for i in range(4)]  # the fourth fills it: nobody waits a minute
    assert [value(future) for future in futures] == [[0], [2], [4], [6]]
    assert model.batches == [[0, 1, 2, 3]]
    batcher, model = make(max_batch_size=4, batch_timeout_micros=1000)
    assert value(ask(batcher, model, 7)) == [14]


def test_a_batch_may_wait_for_others_without_end(make):
    batcher, model = make(max_batch_size=2, batch_timeout_micros=2**63 - 1)
    first = ask(batcher, model, 1)
    until_idle(batcher)
    second = ask(batcher, model, 2)
    assert value(first) + value(second) == [2, 4]


def test_batches_are_padded_with_their_last_requests_first_row(make):
    batcher, model = make(max_batch_size=8, allowed_batch_sizes=(2, 4, 8))
    futures = [held(batcher, model, 9), ask(batcher, model, 1), ask(batcher, model, 2, 3)]
    model.gate.set()
    assert [value(future) for future in futures] == [[18], [2], [4, 6]]
    assert model.batches == [[9, 9], [1, 2, 3, 2]]
    assert [batcher._metrics.padding_size.value(size) for size in ("2", "4")] == [1, 1]


def test_a_batch_of_an_allowed_size_is_not_padded(make):
    batcher, model = make(max_batch_size=8, allowed_batch_sizes=(4, 8))
    assert value(ask(batcher, model, 1, 2, 3, 4)) == [2, 4, 6, 8]
    assert model.batches == [[1, 2, 3, 4]]


def test_other_shapes_and_types_go_into_another_batch(make):
    batcher, model = make()
    futures = [
        held(batcher, model),
        ask(batcher, model, [1, 2]),
        ask(batcher, model, [3]),
        ask(batcher, model, [4.5]),
    ]
    futures.append(ask(batcher, model, [5, 6]))
    model.gate.set()
    assert [value(future) for future in futures] == [[0], [[2, 4]], [[6]], [[9.0]], [[10, 12]]]
    assert model.batches == [[0], [[1, 2], [5, 6]], [[3]], [[4.5]]]


def test_rows_are_padded_to_the_longest_on_demand(make):
    batcher, model = make(pad_variable_length_inputs=True)
    futures = [held(batcher, model), ask(batcher, model, [1, 2, 3]), ask(batcher, model, [7])]
    model.gate.set()
    assert value(futures[1]) == [[2, 4, 6]]
    assert value(futures[2]) == [[14, 14, 14]]
    assert model.batches[1] == [[1, 2, 3], [7, 7, 7]]


def test_only_the_request_to_blame_gets_the_error(make):
    batcher, model = make()
    futures = [held(batcher, model), ask(batcher, model, 1), ask(batcher, model, -2), ask(batcher, model, 3)]
    model.gate.set()
    assert value(futures[1]) == [2]
    assert value(futures[3]) == [6]
    with pytest.raises(ServingError, match="negative: -2"):
        value(futures[2])


def test_a_batch_that_timed_out_does_not_run_again(make):
    batcher, model = make()
    first, sizes = held(batcher, model), []

    def run(feeds, fetches, cancellation):
        sizes.append(len(feeds["x"]))
        raise timed_out()

    model.run = run
    futures = [ask(batcher, model, 1), ask(batcher, model, 2)]
    model.gate.set()
    assert value(first) == [0]
    assert [future.exception(60).code for future in futures] == ["DEADLINE_EXCEEDED"] * 2
    assert sizes == [2]


def test_what_waits_too_long_a_queue_is_refused(make):
    batcher, model = make(max_batch_size=1, max_enqueued_batches=2)
    futures = [held(batcher, model), ask(batcher, model, 1), ask(batcher, model, 2)]
    with pytest.raises(
        ServingError, match="currently 2 batches enqueued and max_enqueued_batches is 2"
    ) as error:
        ask(batcher, model, 3)
    assert error.value.http_status == 503
    futures.append(batcher.submit(model, {"x": np.array([4])}, ("other",)))  # whose queue is empty
    model.gate.set()
    assert [value(future) for future in futures] == [[0], [2], [4], [8]]


def test_a_cancelled_request_never_runs(make):
    batcher, model = make()
    held(batcher, model)
    assert ask(batcher, model, 1).cancel()
    last = ask(batcher, model, 2)
    model.gate.set()
    assert value(last) == [4]
    assert model.batches == [[0], [2]]


def test_a_cancelled_request_does_not_close_the_batch_behind_it(make):
    batcher, model = make(max_batch_size=4)
    held(batcher, model)
    full = ask(batcher, model, 1, 2, 3)
    futures = [ask(batcher, model, 4, 5)]  # no room
    assert full.cancel()
    futures.append(ask(batcher, model, 6))
    model.gate.set()
    assert [value(future) for future in futures] == [[8, 10], [12]]
    assert model.batches == [[0], [4, 5, 6]]


def test_a_cancelled_request_leaves_its_room_to_others(make):
    batcher, model = make(max_batch_size=4)
    held(batcher, model)
    futures = [ask(batcher, model, 1, 2)]
    assert ask(batcher, model, 3).cancel()
    futures.append(ask(batcher, model, 4, 5))
    model.gate.set()
    assert [value(future) for future in futures] == [[2, 4], [8, 10]]
    assert model.batches == [[0], [1, 2, 4, 5]]


def test_an_idle_thread_keeps_no_model_alive(make):
    batcher, model = make()
    value(ask(batcher, model, 1))
    until_idle(batcher)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_a_cancelled_request_that_waited_keeps_no_model_alive(make):
    batcher, model = make(batch_timeout_micros=2**63 - 1)
    future = ask(batcher, model, 1)
    until_idle(batcher)
    assert future.cancel()
    gone = weakref.ref(model)
    del model, future
    gc.collect()
    assert gone() is None


SPLITTING = {"max_batch_size": 8, "max_execution_batch_size": 3, "enable_large_batch_splitting": True}


def test_requests_larger_than_a_batch_are_refused_or_split(make):
    batcher, model = make(max_batch_size=3)
    with pytest.raises(ServingError, match="Task size 4 is larger than maximum input batch size 3"):
        ask(batcher, model, 1, 2, 3, 4)
    batcher, model = make(**SPLITTING)
    assert value(ask(batcher, model, 1, 2, 3, 4)) == [2, 4, 6, 8]
    assert sorted(model.batches) == [[1, 2, 3], [4]]
    with pytest.raises(ServingError, match="negative: -4"):
        value(ask(batcher, model, 1, 2, 3, -4))


def test_splitting_does_not_lift_the_limit_on_a_request(make):
    """In the real server max_batch_size limits what is sent, max_execution_batch_size what runs."""
    batcher, model = make(**SPLITTING)
    assert value(ask(batcher, model, *range(8))) == [2 * i for i in range(8)]
    with pytest.raises(ServingError, match="Task size 9 is larger than maximum input batch size 8") as error:
        ask(batcher, model, *range(9))
    assert error.value.http_status == 400
    assert batcher._waiting == []


def test_a_split_request_fills_the_open_batch_first(make):
    batcher, model = make(**SPLITTING)
    futures = [held(batcher, model), ask(batcher, model, 1, 2), ask(batcher, model, 3, 4, 5, 6, 7)]
    model.gate.set()
    assert [value(future) for future in futures] == [[0], [2, 4], [6, 8, 10, 12, 14]]
    assert model.batches == [[0], [1, 2, 3], [4, 5, 6], [7]]


def test_an_idle_server_takes_what_it_has_room_to_split(make):
    """One batch may wait, and the request is three: nobody else is there."""
    batcher, model = make(**SPLITTING, max_enqueued_batches=1)
    for _ in range(5):
        assert value(ask(batcher, model, *range(8))) == [2 * i for i in range(8)]


def test_what_an_idle_thread_can_take_leaves_room_and_is_done_before_the_end(make):
    batcher, model = make(batch_timeout_micros=10**9, max_enqueued_batches=1)
    futures = [ask(batcher, model, 1), ask(batcher, model, [2])]  # both wait for others of their shape
    batcher.close()
    assert [value(future) for future in futures] == [[2], [[4]]]


def test_a_refused_request_leaves_nothing_in_the_queue(make):
    batcher, model = make(**SPLITTING, max_enqueued_batches=2)
    futures = [held(batcher, model), ask(batcher, model, 1)]
    words = (
        r"task size is 8 but scheduling capacity is only 5 \(num_enqueued_batches=1, max_enqueued_batches=2"
    )
    with pytest.raises(ServingError, match=words) as error:
        ask(batcher, model, *range(10, 18))
    assert error.value.http_status == 503
    futures.append(ask(batcher, model, 2, 3, 4, 5, 6))  # the room that it said there was
    model.gate.set()
    assert [value(future) for future in futures] == [[0], [2], [4, 6, 8, 10, 12]]
    assert model.batches == [[0], [1, 2, 3], [4, 5, 6]]


def test_a_cancelled_split_request_takes_all_its_parts_away(make):
    batcher, model = make(**SPLITTING, max_enqueued_batches=3)
    first = held(batcher, model)
    large = ask(batcher, model, *range(10, 18))
    last = ask(batcher, model, 1)
    assert large.cancel()
    assert [batch.tasks for batch in batcher._waiting] != []
    refilled = ask(batcher, model, *range(20, 25))  # there is room again
    model.gate.set()
    assert (value(first), value(last)) == ([0], [2])
    assert value(refilled) == [2 * i for i in range(20, 25)]
    ran = [x for batch in model.batches for x in batch]
    assert sorted(ran) == [0, 1, *range(20, 25)]


def test_a_split_request_stops_after_the_part_that_runs_when_it_is_cancelled(make):
    batcher, model = make(**SPLITTING)
    model.gate.clear()
    large = ask(batcher, model, *range(8))
    while len(batcher._waiting) != 2:
        pass
    assert large.cancel()
    model.gate.set()
    assert value(ask(batcher, model, 9)) == [18]
    assert model.batches == [[0, 1, 2], [9]]


def test_a_part_that_fails_ends_its_request_at_once(make):
    batcher, model = make(**SPLITTING)
    held(batcher, model)
    large = ask(batcher, model, -1, *range(1, 8))
    model.gate.set()
    with pytest.raises(ServingError, match="negative: -1"):
        value(large)
    assert value(ask(batcher, model, 9)) == [18]
    assert model.batches == [[0], [-1, 1, 2], [9]]


def test_parts_that_cannot_be_joined_are_an_error_at_once(make):
    """The real server ends here; a client must not wait for the time-out either."""
    batcher, model = make(**SPLITTING)
    model.run = lambda feeds, fetches, cancellation: [np.zeros([len(x), max(x)]) for x in feeds.values()]
    with pytest.raises(ServingError, match=r"cannot be joined: an output .* shapes \[3\] and \[6\]") as error:
        ask(batcher, model, *range(1, 8)).result(60)
    assert error.value.http_status == 400


def test_whatever_goes_wrong_with_the_answers_reaches_the_client(make, monkeypatch):
    batcher, model = make(**SPLITTING)

    def out_of_memory(arrays):
        raise MemoryError("no room")

    monkeypatch.setattr(split_requests, "_concatenated", out_of_memory)
    with pytest.raises(MemoryError, match="no room"):
        ask(batcher, model, *range(8)).result(60)


def test_signatures_take_turns(make):
    """A queue full of slow requests leaves the others theirs."""
    batcher, model = make(max_batch_size=1)
    first = held(batcher, model)
    slow = [batcher.submit(model, {"x": np.array([i])}, ("slow",)) for i in (1, 2, 3)]
    fast = [batcher.submit(model, {"x": np.array([i])}, ("fast",)) for i in (4, 5)]
    model.gate.set()
    assert [value(future) for future in [first, *slow, *fast]] == [[0], [2], [4], [6], [8], [10]]
    assert model.batches == [[0], [1], [4], [2], [5], [3]]


def test_only_so_many_turns_are_remembered(make, monkeypatch):
    monkeypatch.setattr(batching, "_MAX_TURNS", 2)
    batcher, model = make()
    held(batcher, model)
    sizes, run = [], model.run

    def counted(*args):
        sizes.append(len(batcher._turns))
        return run(*args)

    model.run = counted
    futures = [batcher.submit(model, {"x": np.array([i])}, (f"y{i}",)) for i in range(9)]
    model.gate.set()
    assert [value(future) for future in futures] == [[2 * i] for i in range(9)]
    assert max(sizes) == 2


def test_inputs_without_rows_run_alone(make):
    batcher, model = make()
    futures = [held(batcher, model)]
    futures += [batcher.submit(model, {"x": np.array(rows, int)}, ("y",)) for rows in ([1], [], [2])]
    model.gate.set()
    assert [value(future) for future in futures] == [[0], [2], [], [4]]
    assert model.batches == [[0], [1, 2], []]
    with pytest.raises(ServingError, match="must have at least one dimension"):
        batcher.submit(model, {"x": np.array(1)}, ("y",))
    with pytest.raises(ServingError, match="must have equal 0th-dimension size"):
        batcher.submit(model, {"x": np.zeros(1), "z": np.zeros(2)}, ("y",))
    with pytest.raises(ServingError, match="must have at least one input tensor"):
        batcher.submit(model, {}, ("y",))


def test_outputs_need_the_batch_axis(make):
    batcher, model = make()
    model.run = lambda feeds, fetches, cancellation: [np.array(1.0)]
    with pytest.raises(ServingError, match="Batched output tensor has 0 dimensions"):
        value(ask(batcher, model, 1))
    model.run = lambda feeds, fetches, cancellation: [np.zeros(3)]
    with pytest.raises(ServingError, match="0th dimension does not equal the sum"):
        value(ask(batcher, model, 1))


def test_many_clients_each_get_their_own_answer():
    metrics, model = Metrics(), Doubler()
    batcher = Batcher(
        BatchingOptions(max_batch_size=16, max_enqueued_batches=1000, num_batch_threads=3), metrics
    )
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: value(ask(batcher, model, i)), range(400)))
    batcher.close()
    assert answers == [[2 * i] for i in range(400)]
    assert metrics.input_batch_size.value() == 400
    assert metrics.wrapped_runs.value() == metrics.processed_batch_size.value() == len(model.batches)


def test_as_many_batches_run_as_this_process_has_cores(monkeypatch):
    """It may have fewer than the machine."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 5, 9}, raising=False)
    assert BatchingOptions().num_batch_threads == 3
    (runs, stopped) = stop_switch.session_config(num_runs=4).session_inter_op_thread_pool
    assert (runs.num_threads, stopped.num_threads) == (0, 7)  # 0: TensorFlow's own number
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert BatchingOptions().num_batch_threads == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_batch_size": 0}, "`max_batch_size` must be positive. Received: max_batch_size=0"),
        ({"max_execution_batch_size": 0}, "`max_execution_batch_size` must be positive. Received: "),
        (
            {"num_batch_threads": 4097},
            "`num_batch_threads` must be at most 4096. Received: num_batch_threads=4097",
        ),
        ({"batch_timeout_micros": -1}, "`batch_timeout_micros` must not be negative"),
        (
            {"allowed_batch_sizes": (4, 8)},
            "`allowed_batch_sizes` must increase and end with the size of the largest batch",
        ),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        BatchingOptions(**options)
