r"""The local server: SavedModels over REST and gRPC, like tensorflow_model_server.

    convnlp serve --rest_api_port=8501 --model_name=classifier --model_base_path=DIR

This serves the newest version in DIR (DIR/1, DIR/2, ...), and newer versions as they appear. The server has
the original's flags and interfaces, and serves any SavedModel, not only those of convnlp. It listens only on
this machine, unless --host says otherwise. TF Serving is what to deploy; docs/serving.md lists the few
differences.
"""

import functools
import gc
import importlib
import logging
import os
import signal
import socket
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app, flags

from convnlp.serving.core.batching import MAX_THREADS, Batcher, BatchingOptions
from convnlp.serving.core.drain import SIGNALS, drain
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.models import ModelConfig, ModelManager
from convnlp.serving.core.runner import Runner
from convnlp.serving.core.without_keras import import_tensorflow
from convnlp.serving.rest.hosts import allowed_hosts

_SWITCH_SECONDS = 0.0005
_BACKLOG = 2048  # uvicorn's
# The largest values of TF Serving's flags; the system's clocks and TensorFlow take no larger ones either.
_INT32, _INT64 = 2**31 - 1, 2**63 - 1
# How many new objects there must be before Python collects garbage: each request under way has a few hundred.
_COLLECTOR_THRESHOLD = 20_000
_REST_PORT = flags.DEFINE_integer("rest_api_port", 0, "Port of the REST interface; 0 for none.", 0, 65535)
_GRPC_PORT = flags.DEFINE_integer(
    "port", 8500, "Port of the gRPC interface; 0 for none. The default port may be in use.", 0, 65535
)
_HOST = flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; not in tensorflow_model_server.")
_MODEL_NAME = flags.DEFINE_string("model_name", "default", "Name of the model, with --model_base_path.")
_MODEL_BASE_PATH = flags.DEFINE_string("model_base_path", None, "Directory of the model's versions.")
_MODEL_CONFIG_FILE = flags.DEFINE_string(
    "model_config_file", None, "ModelServerConfig in text format, instead of --model_base_path."
)
_CONFIG_POLL = flags.DEFINE_integer(
    "model_config_file_poll_wait_seconds",
    0,
    "Seconds between two reads of that file; 0 reads it once.",
    0,
    _INT32,
)
_THREADS = flags.DEFINE_integer(
    "rest_api_num_threads",
    min(4 * (os.cpu_count() or 1), MAX_THREADS),
    "How many requests run at the same time.",
    1,
    MAX_THREADS,
)
_CORS = flags.DEFINE_boolean(
    "rest_api_enable_cors_support", False, "Let pages of other origins read the answers."
)
_POLL = flags.DEFINE_integer(
    "file_system_poll_wait_seconds", 1, "Seconds between two looks for new versions; 0 looks once.", 0, _INT32
)
_ANY_LABELS = flags.DEFINE_boolean(
    "allow_version_labels_for_unavailable_models", False, "Let labels name versions that are not loaded."
)
_MAX_RETRIES = flags.DEFINE_integer(
    "max_num_load_retries", 5, "How often to retry a version that does not load.", 0, _INT32
)
_RETRY_MICROS = flags.DEFINE_integer(
    "load_retry_interval_micros", 60_000_000, "Microseconds to wait before each retry.", 0, _INT64
)
_WARMUP = flags.DEFINE_boolean("enable_model_warmup", True, "Send a new version its warm-up requests first.")
_WARMUP_ITERATIONS = flags.DEFINE_integer(
    "num_request_iterations_for_warmup", 1, "How often to send each warm-up request.", 1, _INT32
)
_PREFER_TFLITE = flags.DEFINE_boolean(
    "prefer_tflite_model", False, "Answer with model.tflite if there is one beside saved_model.pb."
)
_MONITORING_CONFIG_FILE = flags.DEFINE_string(
    "monitoring_config_file", None, "MonitoringConfig in text format: whether and where Prometheus reads."
)
_BATCHING = flags.DEFINE_boolean("enable_batching", False, "Run the requests of several clients as one.")
_BATCHING_FILE = flags.DEFINE_string("batching_parameters_file", None, "BatchingParameters in text format.")
_TIMEOUT = flags.DEFINE_integer("rest_api_timeout_in_ms", 30_000, "How long a request may take.", 1, _INT32)
# tensorflow_model_server does not have the following flags.
_NUM_WORKERS = flags.DEFINE_integer(
    "num_workers", 1, "How many processes serve, each with its own models.", 1
)
_PAGE = flags.DEFINE_boolean("page", True, "Show browsers a page at / to try the models.")
_ALLOWED_HOSTS = flags.DEFINE_list(
    "allowed_hosts",
    None,
    "Names by which HTTP clients may call the server, against DNS rebinding: a.example, .example for all"
    " names that end in it, or * for any. Addresses and names without a dot are always allowed. Default: any"
    " name, or no further name if --host is a loopback address.",
)
_IDLE = flags.DEFINE_integer(
    "rest_api_idle_timeout_in_ms",
    60_000,
    "How long an HTTP connection may wait for its next request.",
    1,
    _INT32,
)
_READ = flags.DEFINE_integer(
    "rest_api_read_timeout_in_ms",
    30_000,
    "How long a request's head, or a pause in its body, may take.",
    1,
    _INT32,
)
_WRITE = flags.DEFINE_integer(
    "rest_api_write_timeout_in_ms",
    30_000,
    "How long a client may take to read 64 KiB of an answer.",
    1,
    _INT32,
)
_DRAIN = flags.DEFINE_integer(
    "drain_timeout_in_ms",
    10_000,
    "How long requests under way may take after SIGTERM before they are cut off.",
    1,
    _INT32,
)
_LIMITS = {
    name: flags.DEFINE_integer(f"max_{name}", getattr(Limits, name), description, 1, _INT64)
    for name, description in {
        "body_bytes": "The largest request, in bytes.",
        "decompressed_bytes": "The largest request after decompression, in bytes.",
        "bytes_in_flight": "The most bytes of all requests under way; the first 64 KiB of each are free.",
        "json_nodes": "The most arrays, objects and members of objects in a JSON request.",
        "batch_size": "The most examples per request.",
        "text_bytes": "The longest string, in bytes.",
        "queue_length": "The most requests waiting for a model.",
        "concurrent_requests": "The most requests under way.",
    }.items()
}


def main(argv):
    """Loads the models and serves them until SIGTERM or Ctrl-C."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {argv[1:]}")
    # The default is 5 ms: too long for a thread that has run a batch to wait for the event loop.
    sys.setswitchinterval(_SWITCH_SECONDS)
    _end_on_signals()
    grpc_servers = []  # holds the server as soon as it has started

    def drain_this_process():
        drain(_DRAIN.value / 1000, lambda: [each.stop(_DRAIN.value / 1000) for each in grpc_servers])

    worker = None
    if _NUM_WORKERS.value == 1:
        drain_this_process()  # this starts threads, which a supervisor must not have
    try:
        _check_flags()
        listener = _listener(_HOST.value, _REST_PORT.value)
        grpc_port = _GRPC_PORT.value
        if _NUM_WORKERS.value > 1:
            worker, listener, grpc_port = _supervise(listener)
            if isinstance(worker, int):
                return worker
            _end_on_signals()
            drain_this_process()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        server, grpc_server = _start(listener, grpc_port, worker)
    except (ValueError, OSError) as error:
        _die_of_signals()
        if worker:
            worker.failed(str(error))
        else:
            print(f"error: {error}", file=sys.stderr)
        return 1
    grpc_servers.append(grpc_server)
    try:
        server.run(sockets=[listener])  # raises the signal that ends it
    finally:
        grpc_server.stop(_DRAIN.value / 1000).wait()
        _die_of_signals()
    return 0


def _end_on_signals():
    # Once it is serving, uvicorn handles these signals: it finishes the requests under way and raises them
    # again.
    for number in SIGNALS:
        signal.signal(number, lambda *_: sys.exit(0))


def _die_of_signals():
    # The process is ending anyway, and an exception in what still runs at its exit would print a traceback.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _check_flags():
    if not _MODEL_NAME.value:
        raise ValueError("--model_name must not be empty")
    if _GRPC_PORT.value and _GRPC_PORT.value == _REST_PORT.value:
        raise ValueError(f"--port must differ from --rest_api_port. Received: {_GRPC_PORT.value} twice")
    allowed_hosts(_ALLOWED_HOSTS.value, _HOST.value)
    if not _MODEL_CONFIG_FILE.value and not _MODEL_BASE_PATH.value:
        raise ValueError("nothing to serve: give --model_base_path=DIR or --model_config_file=FILE")
    if "://" in (_MODEL_BASE_PATH.value or ""):
        raise ValueError(f"--model_base_path must be a local directory. Received: {_MODEL_BASE_PATH.value}")
    if _BATCHING_FILE.value and not _BATCHING.value:
        raise ValueError("--batching_parameters_file needs --enable_batching")


def _supervise(listener):
    """Forks the workers.

    Returns:
        In each worker: its `Worker`, the shared listener, and the gRPC port, or 0 for none. In this process,
        once all workers have ended: (exit code, None, 0).
    """
    from convnlp.serving.workers.sockets import shared
    from convnlp.serving.workers.supervisor import Supervisor

    reservation, grpc_port = _reserve_grpc(_HOST.value, _GRPC_PORT.value)
    address, listener = _address(listener), shared(listener)
    import_tensorflow()
    _model_configs()  # so that an error in the file is reported only once
    for module in ("warmup", "lite") if _PREFER_TFLITE.value else ("warmup",):
        importlib.import_module(f"convnlp.serving.core.{module}")
    for name in ("uvicorn", "convnlp.serving.grpc.service", "convnlp.serving.rest.interface"):
        importlib.import_module(name)  # once for all workers: imported modules take more memory than a model
    supervisor = Supervisor(
        _NUM_WORKERS.value,
        [listener, reservation] if reservation else [listener],
        _DRAIN.value / 1000,
        _POLL.value,
        _CONFIG_POLL.value if _MODEL_CONFIG_FILE.value else 0,
        lambda served: _announce(served, address, grpc_port),
    )
    worker = supervisor.run()
    if isinstance(worker, int):
        return worker, None, 0
    if reservation:
        reservation.close()
    cores = len(os.sched_getaffinity(0))
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(name, str(_share(cores)))
    return worker, listener, grpc_port


def _share(number):
    """Returns a worker's share of a number of threads, at least 1."""
    return max(1, number // _NUM_WORKERS.value)


def _announce(served, address, grpc_port):
    """Prints what is served, and where."""
    for name, version in served:
        print(f"serving {name} version {version}: http://{address}/v1/models/{name}", flush=True)
    if _PAGE.value:
        print(f"page to try them: http://{address}/", flush=True)
    if grpc_port:
        print(f"gRPC on port {grpc_port}", flush=True)


def _start(listener, grpc_port, worker=None):
    """Loads the models, and returns the HTTP server, yet to be started, and the running gRPC server.

    Args:
        listener: socket.
        grpc_port: int. 0 for none.
        worker: `Worker` or None. None if there is only one process.
    """
    # TensorFlow takes seconds to load and writes to stderr, so flags are checked before that.
    import_tensorflow()
    import tensorflow as tf
    import uvicorn

    from convnlp.serving.core.warmup import Loader
    from convnlp.serving.grpc.service import build_grpc_server
    from convnlp.serving.rest.http_protocol import Protocol, Timeouts
    from convnlp.serving.rest.interface import RestApp

    tf.get_logger().setLevel(logging.ERROR)
    gc.set_threshold(_COLLECTOR_THRESHOLD)
    gc.freeze()  # modules are never freed
    metrics = Metrics()
    limits = Limits(timeout_ms=_TIMEOUT.value, **{name: flag.value for name, flag in _LIMITS.items()})
    num_threads = _THREADS.value if _is_given(_THREADS) or not worker else max(4, _share(_THREADS.value))
    runner = _runner(metrics, num_threads)
    num_warmups = _WARMUP.value * _WARMUP_ITERATIONS.value
    num_interpreters = _share(os.cpu_count() or 1) if worker else None
    loader = Loader(
        metrics,
        _TIMEOUT.value,
        num_warmups,
        limits,
        _PREFER_TFLITE.value,
        num_interpreters,
        runner.num_runs,
    )

    def build_manager(configs=None):
        load = worker.in_step(loader) if worker else loader
        return ModelManager(configs or _model_configs(), load, _MAX_RETRIES.value, _RETRY_MICROS.value / 1e6)

    def build_grpc(manager, reload=None):
        return build_grpc_server(
            manager, runner, metrics, limits, num_threads, _ANY_LABELS.value, reload, worker is not None
        )

    if worker:
        worker.start(metrics)
        manager = worker.load(build_manager, _ANY_LABELS.value)
        site = _site(worker, manager)
        # Its port is taken last: requests that arrive before it answers would have to wait.
        grpc_server = build_grpc(manager, worker.reload)
        _bind_grpc(grpc_server, _HOST.value, grpc_port)
        _listen(listener)
    else:
        manager = build_manager()
        site = _site(metrics, manager)
        grpc_server = build_grpc(manager)
        grpc_port = _bind_grpc(grpc_server, _HOST.value, grpc_port)
        manager.load(_ANY_LABELS.value)
        _listen(listener)
        if _POLL.value:
            manager.watch(_POLL.value)
        if _CONFIG_POLL.value and _MODEL_CONFIG_FILE.value:
            manager.watch_configs(_model_configs, _CONFIG_POLL.value, _ANY_LABELS.value)
    grpc_server.start()
    hosts = allowed_hosts(_ALLOWED_HOSTS.value, _HOST.value)
    timeouts = Timeouts(*(flag.value / 1000 for flag in (_IDLE, _READ, _WRITE)))
    config = uvicorn.Config(
        RestApp(manager, runner, metrics, limits, _CORS.value, site, hosts),
        http=functools.partial(Protocol, timeouts=timeouts),
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        **({"backlog": 1} if worker else {}),  # see `SharedListener`
    )
    if worker:
        worker.follow(manager, _model_configs, _ANY_LABELS.value)
    else:
        _announce(manager.available(), _address(listener), grpc_port)
    return uvicorn.Server(config), grpc_server


def _model_configs():
    from convnlp.serving.core.config import read_model_configs

    if _MODEL_CONFIG_FILE.value:
        return read_model_configs(_path(_MODEL_CONFIG_FILE))
    return [ModelConfig(_MODEL_NAME.value, os.path.abspath(_path(_MODEL_BASE_PATH)))]


def _path(flag):
    """Returns the path that a flag names, or None; shells leave the ~ of --flag=~/PATH as it is."""
    return os.path.expanduser(flag.value) if flag.value else None


def _runner(metrics, num_threads):
    from convnlp.serving.core.config import read_batching_options

    if not _BATCHING.value:
        return Runner(num_threads, _LIMITS["queue_length"].value)
    file = _path(_BATCHING_FILE)
    return Batcher(read_batching_options(file) if file else BatchingOptions(), metrics)


def _site(metrics, manager):
    from convnlp.serving.core.config import read_metrics_path
    from convnlp.serving.page.site import page_routes
    from convnlp.serving.rest.site import build_site

    file = _path(_MONITORING_CONFIG_FILE)
    path = read_metrics_path(file) if file else None
    return build_site(metrics if path else None, path, page_routes(manager.names) if _PAGE.value else ())


def _listener(host, port):
    """Binds the port before the models are loaded, so that a port in use is reported at once."""
    if not port:
        raise ValueError("no REST port: give --rest_api_port=PORT")
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _cannot_listen(host, port, error) from error
    return listener


def _listen(listener):
    """Begins to accept connections, which would have to wait while the models are being loaded.

    Raises:
        ValueError: if another process listens by now that has bound the port at the same time.
    """
    try:
        listener.listen(_BACKLOG)
    except OSError as error:
        raise _cannot_listen(*listener.getsockname()[:2], error) from error


def _cannot_listen(host, port, error):
    reason = (error.strerror or str(error)).lower()
    return ValueError(f"cannot listen on {host} port {port} (--rest_api_port): {reason}")


def _bind_grpc(server, host, port):
    """Binds the gRPC port and returns it; returns 0 for none, or if the default port is in use."""
    if not port:
        return 0
    try:
        return server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError as error:
        return _no_grpc(host, port, error)


def _reserve_grpc(host, port):
    """Reserves the gRPC port, which the workers bind: (socket that holds it or None, port or 0)."""
    from convnlp.serving.workers.sockets import reserve

    if not port:
        return None, 0
    try:
        return reserve(host, port), port
    except OSError as error:
        return None, _no_grpc(host, port, error)


def _no_grpc(host, port, error):
    """Returns 0, or raises ValueError if the user has chosen the port."""
    if _is_given(_GRPC_PORT):
        raise ValueError(f"cannot listen on {host} port {port} (--port): in use?") from error
    print(f"no gRPC: port {port} is in use, choose another one with --port", file=sys.stderr)
    return 0


def _is_given(flag):
    """Whether a flag was set on the command line."""
    return flags.FLAGS[flag.name].present > 0


def _address(listener):
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


if __name__ == "__main__":
    app.run(main)
