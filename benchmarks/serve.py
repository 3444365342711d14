"""Compares the local server under load, with batching, with the same SavedModel called in process.

    python -m benchmarks.serve --json=FILE [--model=MODELS/NAME/1] [--minutes=10] [--inputs=text,ids]

Without --model, an untrained classifier of size mini is exported, because the time does not depend on the
weights. All rows come from one run on one machine. The server and the load generator are processes of their
own, which share the cores with nothing else; in process, the model has all cores. A request is one text of
`length` tokens, or their ids. The server and the model in process take turns. There are rows for:
- the median latency of one client minus the median time of a call in process, at batch size 1;
- requests per second with 32 clients, and examples per second in process in batches of 32;
- the 99th percentile of the latency with 32 clients, and its median;
- the server's memory after `minutes` of full load, and before that.
If the model has a TFLite file, as the exported one does, a last row compares the median latency of one client
who sends text to the server with --prefer_tflite_model with a run of the file's interpreter on its ids.
"""

import contextlib
import dataclasses
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer ops of the model)
from absl import flags

from benchmarks import program
from benchmarks.exported import export_classifier
from benchmarks.goals import goal
from benchmarks.processes import resident
from benchmarks.rows import Row
from benchmarks.serving_load import SIGNATURES, example, run_load, write_request
from benchmarks.timing import interleaved
from convnlp.export.edge_model import EdgeModel

_MODEL = flags.DEFINE_string("model", None, "Version directory of a classifier, from `export.saved_model`.")
_MINUTES = flags.DEFINE_float(
    "minutes", None, "Duration of the last load. Default: 10; 0.05 with --short.", 0.01
)
_INPUTS = flags.DEFINE_list("inputs", list(SIGNATURES), f"Kinds of input, of {', '.join(SIGNATURES)}.")
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_BATCHING = flags.DEFINE_string(
    "batching_parameters_file",
    str(_ROOT / "serving" / "batching.config"),
    "How the server batches; same format as for tensorflow_model_server.",
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure.

    Args:
        length: int, tokens per example.
        clients: int.
        seconds: float, duration of each load except the last, and of all turns of one load together.
        minutes: float, duration of the last load.
        repeats: int, number of turns of the server and of the model in process.
        mixer: str, of the model that is exported without --model.
        size: str, name in `convnlp.models.SIZES`.
    """

    length: int = 128
    clients: int = 32
    seconds: float = 10.0
    minutes: float = 10.0
    repeats: int = 7
    mixer: str = "lightweight_conv"
    size: str = "mini"


FULL = Settings()
SHORT = Settings(length=32, seconds=1.0, minutes=0.05, repeats=3, size="tiny")


def rows(settings):
    """Yields four rows per kind of input, and one of LiteRT."""
    unknown = [name for name in _INPUTS.value if name not in SIGNATURES]
    if unknown or not _INPUTS.value:
        received = repr(unknown[0]) if unknown else "none"
        raise ValueError(f"`--inputs` must be among {', '.join(SIGNATURES)}. Received: {received}")
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(
            _MODEL.value
            or export_classifier(settings.mixer, settings.size, settings.length, folder, tflite=True)
        ).absolute()
        signatures = tf.saved_model.load(str(model)).signatures
        for name in _INPUTS.value:
            yield from _rows_of(settings, name, model, signatures[SIGNATURES[name]], folder)
        if (model / "model.tflite").exists():
            yield _lite_row(settings, model, folder)


def _setting(settings, name, model, clients):
    about = model.parent.name if _MODEL.value else f"{settings.mixer}, {settings.size}"
    return {"input": name, "length": settings.length, "clients": clients, "model": about}


def _rows_of(settings, name, model, signature, folder):
    setting = _setting(settings, name, model, settings.clients)
    instance = example(name, settings.length)
    single, batch = (_call(signature, instance, size) for size in (1, settings.clients))
    body = write_request(name, settings.length, folder)
    minutes = settings.minutes if _MINUTES.value is None else _MINUTES.value
    batching = ("--enable_batching", f"--batching_parameters_file={_BATCHING.value}")
    with _server(model.parent, folder, *batching) as (port, pid):
        run_load(port, body, settings.clients, settings.seconds)
        # In turns, so that whatever slows down the machine for a while affects both sides alike.
        rounds = [_round(settings, port, body, single, batch) for _ in range(settings.repeats)]
        full = run_load(port, body, settings.clients, settings.seconds)
        before = resident("VmRSS", pid)
        last = run_load(port, body, settings.clients, 60 * minutes)
        after = resident("VmRSS", pid)
    what = "serving, latency added at batch 1"
    added = statistics.median(turn["one_client_ms"] - turn["inprocess_ms"] for turn in rounds)
    yield Row(what, setting, added, None, "ms", "lower", goal(what, setting), {"rounds": rounds})
    what = "serving, throughput vs in process"
    rates = [
        statistics.median(turn[side] for turn in rounds) for side in ("requests_per_second", "inprocess_rate")
    ]
    yield Row(what, setting, *rates, "examples/s", "higher", goal(what, setting), {"rounds": rounds})
    what = "serving, p99 vs median latency"
    yield Row(
        what, setting, full["p99_ms"], full["median_ms"], "ms", "limit", goal(what, setting), {"load": full}
    )
    what = "serving, memory after the load vs before"
    setting = {**setting, "minutes": minutes}
    sizes = after / 2**20, before / 2**20
    yield Row(what, setting, *sizes, "MB", "limit", goal(what, setting), {"load": last})


def _lite_row(settings, model, folder):
    what, setting = "serving, LiteRT vs its interpreter alone", _setting(settings, "text", model, 1)
    edge = EdgeModel(str(model / "model.tflite"))
    ids = edge.token_ids([example("text", settings.length)])
    body, seconds = write_request("text", settings.length, folder), settings.seconds / settings.repeats
    rounds = []
    with _server(model.parent, folder, "--prefer_tflite_model") as (port, _):
        run_load(port, body, 1, seconds)
        for _ in range(settings.repeats):
            alone = interleaved({"run": lambda: edge.run(ids)}, 1, min_seconds=seconds, max_rounds=1)["run"]
            served = run_load(port, body, 1, seconds)["median_ms"]
            rounds.append({"served_ms": served, "interpreter_ms": 1000 * alone.median})
    served, alone = (statistics.median(turn[key] for turn in rounds) for key in rounds[0])
    return Row(what, setting, served, alone, "ms", "limit", goal(what, setting), {"rounds": rounds})


def _round(settings, port, body, single, batch):
    """Times the model in process, then the server."""
    seconds = settings.seconds / settings.repeats
    timing = {
        name: interleaved({name: call}, 1, min_seconds=seconds, max_rounds=1)[name].median
        for name, call in {"single": single, "batch": batch}.items()
    }
    alone = run_load(port, body, 1, seconds)
    many = run_load(port, body, settings.clients, seconds)
    return {
        "inprocess_ms": 1000 * timing["single"],
        "one_client_ms": alone["median_ms"],
        "inprocess_rate": settings.clients / timing["batch"],
        "requests_per_second": many["requests_per_second"],
    }


def _call(signature, instance, batch_size):
    ((name, spec),) = signature.structured_input_signature[1].items()
    batch = tf.constant([instance] * batch_size, spec.dtype)
    return lambda: [value.numpy() for value in signature(**{name: batch}).values()]


@contextlib.contextmanager
def _server(base_path, folder, *flags):
    """Runs the server; yields its port and process id when it is ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "serving.server", f"--rest_api_port={port}", "--port=0"]
    command += [f"--model_base_path={base_path}", *flags]
    with open(os.path.join(folder, "server.log"), "a+", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            while not _listens(port):
                if process.poll() is not None:
                    log.seek(0)
                    raise RuntimeError(f"the server ended: {log.read()[-2000:]}")
                time.sleep(0.2)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait()


def _listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"GET /v1/models/default HTTP/1.0\r\n\r\n")
        return b" 200 " in connection.recv(100)
    return False


if __name__ == "__main__":
    program.run(rows, full=FULL, short=SHORT)
