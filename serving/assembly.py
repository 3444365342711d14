"""Puts together what serves in one process, according to the flags: models, REST and gRPC.

Whoever imports this calls `import_tensorflow` of `convnlp.serving.core.without_keras` first.
"""

import functools
import gc
import logging
from urllib.parse import quote

import tensorflow as tf
import uvicorn

from convnlp.serving import ports, server_flags
from convnlp.serving.core.batching import Batcher
from convnlp.serving.core.cores import num_cores
from convnlp.serving.core.loader import Loader
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.models import ModelManager
from convnlp.serving.core.runner import Runner
from convnlp.serving.grpc.service import build_grpc_server
from convnlp.serving.page.site import page_routes
from convnlp.serving.rest.http_protocol import Protocol
from convnlp.serving.rest.interface import RestApp
from convnlp.serving.rest.site import build_site

# How many new objects there must be before Python collects garbage: each request under way has a few hundred.
_COLLECTOR_THRESHOLD = 20_000


def start(listener, grpc_port, worker=None):
    """Loads the models, and returns the HTTP server, yet to be started, and the running gRPC server.

    Args:
        listener: socket.socket. What `ports.listener` returned; a `SharedListener` in a worker.
        grpc_port: int. 0 for none.
        worker: `Worker` or None. None if there is only one process.

    Raises:
        ValueError: if a model does not load, a configuration file is wrong, or a port is in use.
    """
    tf.get_logger().setLevel(logging.ERROR)
    gc.set_threshold(_COLLECTOR_THRESHOLD)
    gc.freeze()  # modules are never freed
    metrics, limits = Metrics(), server_flags.limits()
    runner = _runner(metrics, limits)
    loader = _loader(metrics, limits, runner)
    if worker:
        worker.start(metrics)
        manager = worker.load(functools.partial(_manager, worker.in_step(loader)))
    else:
        manager = _manager(loader)
    site = _site(worker or metrics, manager)
    grpc_server = build_grpc_server(
        manager,
        runner,
        metrics,
        limits,
        server_flags.num_threads(),
        reload=worker.reload if worker else manager.reload,
        shares_port=worker is not None,
    )
    # A worker takes its port last: requests that arrive before it answers would have to wait.
    grpc_port = ports.bind_grpc(grpc_server, server_flags.HOST.value, grpc_port)
    if not worker:
        manager.load()
    ports.listen(listener)
    grpc_server.start()
    http_server = _http_server(listener, manager, runner, metrics, limits, site, worker)
    if worker:
        worker.follow(manager, server_flags.model_configs)
    else:
        if server_flags.POLL.value:
            manager.watch(server_flags.POLL.value)
        if server_flags.CONFIG_POLL.value:
            manager.watch_configs(server_flags.model_configs, server_flags.CONFIG_POLL.value)
        announce(manager.available(), ports.address(listener), grpc_port)
    return http_server, grpc_server


def announce(served, address, grpc_port):
    """Prints what is served, and where.

    Args:
        served: list of (name, version).
        address: str. Of the REST interface, as "HOST:PORT".
        grpc_port: int. 0 for none.
    """
    for name, version in served:
        url = f"http://{address}/v1/models/{quote(name, safe='')}"
        print(f"serving {name} version {version}: {url}", flush=True)
    if server_flags.PAGE.value:
        print(f"page to try them: http://{address}/", flush=True)
    if grpc_port:
        print(f"gRPC on port {grpc_port}", flush=True)


def _manager(load, configs=None):
    """Returns the `ModelManager` of a list of `ModelConfig`, which may be empty, or of those of the flags."""
    return ModelManager(
        server_flags.model_configs() if configs is None else configs,
        load,
        server_flags.MAX_RETRIES.value,
        server_flags.RETRY_MICROS.value / 1e6,
        server_flags.ANY_LABELS.value,
    )


def _runner(metrics, limits):
    options = server_flags.batching_options()
    if options is None:
        return Runner(server_flags.num_threads(), limits.queue_length)
    return Batcher(options, metrics)


def _loader(metrics, limits, runner):
    return Loader(
        metrics,
        server_flags.TIMEOUT.value,
        server_flags.num_warmups(),
        limits,
        server_flags.PREFER_TFLITE.value,
        server_flags.share(num_cores()),
        runner.num_runs,
    )


def _site(metrics, manager):
    path = server_flags.metrics_path()
    pages = page_routes(manager.names) if server_flags.PAGE.value else ()
    return build_site(metrics if path else None, path, pages)


def _http_server(listener, manager, runner, metrics, limits, site, worker):
    hosts = server_flags.hosts(listener.getsockname()[0])
    config = uvicorn.Config(
        RestApp(manager, runner, metrics, limits, server_flags.CORS.value, site, hosts),
        http=functools.partial(Protocol, timeouts=server_flags.timeouts()),
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        **({"backlog": 1} if worker else {}),  # see `SharedListener`
    )
    return uvicorn.Server(config)
