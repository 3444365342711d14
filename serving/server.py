r"""The local server: SavedModels over REST and gRPC, like tensorflow_model_server.

    convnlp serve --rest_api_port=8501 --model_name=classifier --model_base_path=DIR

This serves the newest version in DIR (DIR/1, DIR/2, ...), and newer versions as they appear. The server has
the original's flags and interfaces, and serves any SavedModel, not only those of convnlp. It listens only on
this machine, unless --host says otherwise. TF Serving is what to deploy; docs/serving.md lists the few
differences.
"""

import importlib
import logging
import os
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app, flags

from convnlp.serving import ports, server_flags
from convnlp.serving.core.cores import num_cores
from convnlp.serving.core.drain import SIGNALS, drain
from convnlp.serving.core.without_keras import import_tensorflow

_SWITCH_SECONDS = 0.0005


def main(argv):
    """Loads the models and serves them until SIGTERM or Ctrl-C."""
    # The default is 5 ms: too long for a thread that has run a batch to wait for the event loop.
    sys.setswitchinterval(_SWITCH_SECONDS)
    if not flags.FLAGS["verbosity"].present:  # absl's default hides which versions are loaded and retired
        logging.getLogger("serving").setLevel(logging.INFO)
    _end_on_signals()
    grpc_servers = []  # holds the server as soon as it has started

    def drain_this_process():
        seconds = server_flags.drain_seconds()
        drain(seconds, lambda: [each.stop(seconds) for each in grpc_servers])

    worker = None
    if server_flags.NUM_WORKERS.value == 1:
        drain_this_process()  # this starts threads, which a supervisor must not have
    try:
        server_flags.check(argv[1:])
        if warning := server_flags.warning():
            print(warning, file=sys.stderr)
        listener = ports.listener(server_flags.HOST.value, server_flags.REST_PORT.value)
        grpc_port = server_flags.GRPC_PORT.value
        if server_flags.NUM_WORKERS.value > 1:
            worker, listener, grpc_port = _supervise(listener)
            _end_on_signals()
            drain_this_process()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        server, grpc_server = _assembly().start(listener, grpc_port, worker)
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
        grpc_server.stop(server_flags.drain_seconds()).wait()
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


def _supervise(listener):
    """Forks the workers; this process ends after them, by SystemExit.

    Returns:
        In each worker: its `Worker`, the shared listener, and the gRPC port, or 0 for none.
    """
    from convnlp.serving.workers.sockets import shared
    from convnlp.serving.workers.supervisor import Supervisor

    reservation, grpc_port = ports.reserve_grpc(server_flags.HOST.value, server_flags.GRPC_PORT.value)
    address, listener = ports.address(listener), shared(listener)
    assembly = _assembly()  # once for all workers: imported modules take more memory than a model
    if server_flags.PREFER_TFLITE.value:
        importlib.import_module("convnlp.serving.core.lite")
    server_flags.model_configs()  # so that an error in the file is reported only once
    supervisor = Supervisor(
        server_flags.NUM_WORKERS.value,
        [listener, reservation] if reservation else [listener],
        server_flags.drain_seconds(),
        server_flags.POLL.value,
        server_flags.CONFIG_POLL.value,
        lambda served: assembly.announce(served, address, grpc_port),
    )
    worker = supervisor.run()
    if reservation:
        reservation.close()
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(name, str(server_flags.share(num_cores())))
    return worker, listener, grpc_port


def _assembly():
    """Imports what needs TensorFlow, which takes seconds and writes to stderr: flags are checked before."""
    import_tensorflow()
    return importlib.import_module("convnlp.serving.assembly")


if __name__ == "__main__":
    flags.adopt_module_key_flags(server_flags)
    app.run(main)
