"""Where the local server's time goes: CPU time per request, by thread and by what the event loop does.

    python -m benchmarks.serve_profile --model=MODELS/NAME/1 [--clients=1,32] [--seconds=5]

The server runs in this process, with batching, so that its threads have names; the load generator runs in
another one. Counters around a few functions divide the work of the event loop; they take some microseconds
themselves. The program prints milliseconds of CPU per request. `idle` is the remaining time of the cores;
it includes other processes, if any.
"""

import contextlib
import os
import pathlib
import socket
import tempfile
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import uvicorn
from absl import flags

from benchmarks import machine, pages
from benchmarks.serving_load import run_load, write_request
from benchmarks.shared_flags import numbers
from convnlp import programs
from convnlp.serving.core.batching import Batcher
from convnlp.serving.core.config_files import read_batching_options
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.loader import Loader
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.model_config import ModelConfig
from convnlp.serving.core.models import ModelManager
from convnlp.serving.rest import predict
from convnlp.serving.rest.http_protocol import Protocol
from convnlp.serving.rest.interface import RestApp

_MODEL = flags.DEFINE_string("model", None, "Version directory of a classifier.", required=True)
_CLIENTS = flags.DEFINE_list("clients", ["1", "32"], "Numbers of clients.")
_SECONDS = flags.DEFINE_float("seconds", 5.0, "How long each load lasts.", 0.1)
_LENGTH = flags.DEFINE_integer("length", 128, "Tokens per text.", 8)
_BATCHING = pathlib.Path(__file__).resolve().parents[1] / "serving" / "batching.config"
# What the event loop does: the functions in `convnlp.serving.rest.predict` that are timed.
_STAGES = {
    "JSON read": ("read_object",),
    "tensors made": ("tensors_from_instances", "tensors_from_inputs"),
    "answer written": ("predictions_json", "outputs_json"),
}


class Counters:
    """CPU seconds by stage."""

    def __init__(self):
        self.seconds = dict.fromkeys(_STAGES, 0.0)

    def counted(self, stage, function):
        """Returns the function, with its time added to a stage."""

        def call(*args):
            started = time.thread_time()
            try:
                return function(*args)
            finally:
                self.seconds[stage] += time.thread_time() - started

        return call


def shares(before, after, requests):
    """Returns the CPU milliseconds per request between two readings.

    Args:
        before: dict of str to float, CPU seconds so far.
        after: dict of str to float, the same later.
        requests: int, number of requests answered in between.

    Returns:
        dict of str to float.
    """
    return {name: 1000 * (after[name] - before.get(name, 0.0)) / requests for name in after}


def _cpu_seconds(names):
    """Returns the CPU seconds of this process by thread name; threads without a name are TensorFlow's."""
    found = {}
    for thread in os.listdir("/proc/self/task"):
        with (
            contextlib.suppress(OSError),
            open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as file,
        ):
            name = names.get(int(thread), "TensorFlow's threads")
            found[name] = found.get(name, 0.0) + int(file.read().split()[0]) / 1e9
    return found


@contextlib.contextmanager
def _server(base_path):
    """Serves a model in this process; yields its port."""
    metrics = Metrics()
    manager = ModelManager([ModelConfig("default", str(base_path))], Loader(metrics, Limits.timeout_ms))
    manager.load()
    runner = Batcher(read_batching_options(_BATCHING), metrics)
    config = uvicorn.Config(
        RestApp(manager, runner, metrics), http=Protocol, ws="none", lifespan="off", log_level="warning"
    )
    server, listener = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],), name="event loop")
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def main(_):
    """Prints the table."""
    client_counts = numbers("clients", _CLIENTS.value, least=1)
    machine.use_threads(os.cpu_count())
    counters = Counters()
    for stage, names in _STAGES.items():
        for name in names:
            setattr(predict, name, counters.counted(stage, getattr(predict, name)))
    columns = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        _server(pathlib.Path(_MODEL.value).absolute().parent) as port,
    ):
        body = write_request("text", _LENGTH.value, folder)
        run_load(port, body, max(client_counts), 2.0)
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        for clients in client_counts:
            before, stages = _cpu_seconds(names), dict(counters.seconds)
            report = run_load(port, body, clients, _SECONDS.value)
            column = shares(before, _cpu_seconds(names), report["requests"])
            parts = shares(stages, counters.seconds, report["requests"])
            capacity = 1000 * os.cpu_count() / report["requests_per_second"]
            generator = 1000 * report["own_cpu_share"] / report["requests_per_second"]
            loop = column.get("event loop", 0.0)
            columns[f"{clients} clients"] = {
                "TensorFlow's threads": column["TensorFlow's threads"],
                "batching threads": sum(ms for name, ms in column.items() if name.startswith("batch-")),
                "event loop": loop,
                **{f"- {stage}": parts[stage] for stage in _STAGES},
                "- HTTP, asyncio, the rest": loop - sum(parts.values()),
                "load generator": generator,
                "idle": capacity - sum(column.values()) - generator,
                "all cores": capacity,
                "median latency": report["median_ms"],
            }
    rows = [
        [name, *(f"{column[name]:.2f}" for column in columns.values())]
        for name in next(iter(columns.values()))
    ]
    print(pages.table(["ms per request", *columns], rows))


if __name__ == "__main__":
    programs.run(main)
