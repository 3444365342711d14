r"""The local server: SavedModels over REST, by the flags and the interface of tensorflow_model_server.

    python -m serving.server --rest_api_port=8501 --model_name=classifier --model_base_path=DIR

serves the newest version in DIR (DIR/1, DIR/2, ...) and takes over newer ones as they appear. It imports
nothing of
convnlp: it serves any SavedModel. It listens on this machine only, unless --host says otherwise.
docs/serving.md names the few differences from TF Serving, which is what to deploy.
"""

import logging
import os
import signal
import socket
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
import uvicorn
from absl import app, flags

from serving.config import read_model_configs
from serving.models import ModelConfig, ModelManager
from serving.rest import RestApp

_REST_PORT = flags.DEFINE_integer("rest_api_port", 0, "Port of the REST interface.", 0, 65535)
_HOST = flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; no flag of tensorflow_model_server.")
_MODEL_NAME = flags.DEFINE_string("model_name", "default", "Name of the model, without --model_config_file.")
_MODEL_BASE_PATH = flags.DEFINE_string("model_base_path", None, "Directory of the model's versions.")
_MODEL_CONFIG_FILE = flags.DEFINE_string(
    "model_config_file", None, "ModelServerConfig in text format; instead of --model_base_path."
)
_TIMEOUT = flags.DEFINE_integer(
    "rest_api_timeout_in_ms", 30_000, "How long a model may take over a request.", 1
)
_CORS = flags.DEFINE_boolean(
    "rest_api_enable_cors_support", False, "Let pages of other origins read answers."
)
_POLL = flags.DEFINE_integer(
    "file_system_poll_wait_seconds",
    1,
    "Seconds between two looks for new versions; 0 looks once.",
    lower_bound=0,
)
_ANY_LABELS = flags.DEFINE_boolean(
    "allow_version_labels_for_unavailable_models", False, "Let labels name versions that are not loaded."
)


def main(argv):
    """Loads the models and serves them until SIGTERM or Ctrl-C."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {argv[1:]}")
    tf.get_logger().setLevel(logging.ERROR)
    # Once it serves, uvicorn takes these signals, finishes the requests under way, and raises them again.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        listener = _listener(_HOST.value, _REST_PORT.value)
        manager = ModelManager(_model_configs())
        manager.load(_ANY_LABELS.value)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if _POLL.value:
        manager.watch(_POLL.value)
    rest = RestApp(manager, _TIMEOUT.value, _CORS.value)
    config = uvicorn.Config(
        rest,
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    for name, version in manager.available():
        print(f"serving {name} version {version}: http://{_address(listener)}/v1/models/{name}", flush=True)
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def _model_configs():
    if _MODEL_CONFIG_FILE.value:
        return read_model_configs(_MODEL_CONFIG_FILE.value)
    if not _MODEL_BASE_PATH.value:
        raise ValueError("nothing to serve: give --model_base_path=DIR or --model_config_file=FILE")
    return [ModelConfig(_MODEL_NAME.value, os.path.abspath(_MODEL_BASE_PATH.value))]


def _listener(host, port):
    """Takes the port before the models are loaded, so that a port in use is known at once."""
    if not port:
        raise ValueError("no interface to serve on: give --rest_api_port=PORT")
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror.lower()
        raise ValueError(f"cannot listen on {host} port {port} (--rest_api_port): {reason}") from error
    return listener


def _address(listener):
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


if __name__ == "__main__":
    app.run(main)
