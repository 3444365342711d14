"""The flags of the local server, and what they say."""

import os

from absl import flags

from convnlp.serving.core.batching_options import MAX_THREADS, BatchingOptions
from convnlp.serving.core.cores import num_cores
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.model_config import ModelConfig
from convnlp.serving.rest.hosts import allowed_hosts, check_names

# The largest values of TF Serving's flags; the system's clocks and TensorFlow take no larger ones either.
_INT32, _INT64 = 2**31 - 1, 2**63 - 1
REST_PORT = flags.DEFINE_integer("rest_api_port", 0, "Port of the REST interface. Required.", 0, 65535)
GRPC_PORT = flags.DEFINE_integer(
    "port", 8500, "Port of the gRPC interface; 0 for none. The default port may be in use.", 0, 65535
)
HOST = flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; not in tensorflow_model_server.")
_MODEL_NAME = flags.DEFINE_string("model_name", "default", "Name of the model, with --model_base_path.")
_MODEL_BASE_PATH = flags.DEFINE_string("model_base_path", None, "Directory of the model's versions.")
_MODEL_CONFIG_FILE = flags.DEFINE_string(
    "model_config_file", None, "ModelServerConfig in text format, instead of --model_base_path."
)
CONFIG_POLL = flags.DEFINE_integer(
    "model_config_file_poll_wait_seconds",
    0,
    "Seconds between two reads of that file; 0 reads it once.",
    0,
    _INT32,
)
_THREADS = flags.DEFINE_integer(
    "rest_api_num_threads",
    min(4 * num_cores(), MAX_THREADS),
    "How many requests run at the same time.",
    1,
    MAX_THREADS,
)
CORS = flags.DEFINE_boolean(
    "rest_api_enable_cors_support", False, "Let pages of other origins read the answers."
)
POLL = flags.DEFINE_integer(
    "file_system_poll_wait_seconds", 1, "Seconds between two looks for new versions; 0 looks once.", 0, _INT32
)
ANY_LABELS = flags.DEFINE_boolean(
    "allow_version_labels_for_unavailable_models", False, "Let new labels name versions that are not loaded."
)
MAX_RETRIES = flags.DEFINE_integer(
    "max_num_load_retries", 5, "How often to retry a version that does not load.", 0, _INT32
)
RETRY_MICROS = flags.DEFINE_integer(
    "load_retry_interval_micros", 60_000_000, "Microseconds to wait before each retry.", 0, _INT64
)
_WARMUP = flags.DEFINE_boolean("enable_model_warmup", True, "Send a new version its warm-up requests first.")
_WARMUP_ITERATIONS = flags.DEFINE_integer(
    "num_request_iterations_for_warmup", 1, "How often to send each warm-up request.", 1, _INT32
)
PREFER_TFLITE = flags.DEFINE_boolean(
    "prefer_tflite_model", False, "Answer with model.tflite if there is one beside saved_model.pb."
)
_MONITORING_CONFIG_FILE = flags.DEFINE_string(
    "monitoring_config_file", None, "MonitoringConfig in text format: whether and where Prometheus reads."
)
_BATCHING = flags.DEFINE_boolean("enable_batching", False, "Run the requests of several clients as one.")
_BATCHING_FILE = flags.DEFINE_string("batching_parameters_file", None, "BatchingParameters in text format.")
TIMEOUT = flags.DEFINE_integer("rest_api_timeout_in_ms", 30_000, "How long a request may take.", 1, _INT32)
# tensorflow_model_server does not have the following flags.
NUM_WORKERS = flags.DEFINE_integer("num_workers", 1, "How many processes serve, each with its own models.", 1)
PAGE = flags.DEFINE_boolean("page", True, "Show browsers a page at / to try the models.")
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


def check(arguments):
    """Raises ValueError for stray arguments, contradictory flags, or none that say what to serve."""
    if arguments:
        raise ValueError(
            "a value must follow its flag as --flag=value, in quotes if it contains spaces. "
            f"Received: {arguments[0]!r}, which belongs to no flag"
        )
    if not _MODEL_NAME.value:
        raise ValueError("--model_name must not be empty")
    if GRPC_PORT.value and GRPC_PORT.value == REST_PORT.value:
        raise ValueError(f"--port must differ from --rest_api_port. Received: {GRPC_PORT.value} twice")
    check_names(_ALLOWED_HOSTS.value or ())
    if not _MODEL_CONFIG_FILE.value and not _MODEL_BASE_PATH.value:
        raise ValueError("nothing to serve: give --model_base_path=DIR or --model_config_file=FILE")
    if "://" in (_MODEL_BASE_PATH.value or ""):
        raise ValueError(f"--model_base_path must be a local directory. Received: {_MODEL_BASE_PATH.value}")
    if CONFIG_POLL.value and not _MODEL_CONFIG_FILE.value:
        raise ValueError("--model_config_file_poll_wait_seconds needs --model_config_file")
    if _BATCHING_FILE.value and not _BATCHING.value:
        raise ValueError("--batching_parameters_file needs --enable_batching")


def warning():
    """Returns a line that names the flags that were given and are ignored, or None if there are none."""
    if not _MODEL_CONFIG_FILE.value:
        return None
    given = [f"--{flag.name}" for flag in (_MODEL_NAME, _MODEL_BASE_PATH) if is_given(flag)]
    if not given:
        return None
    are = "are" if len(given) > 1 else "is"
    return f"warning: {' and '.join(given)} {are} ignored: --model_config_file names the models"


def is_given(flag):
    """Whether a flag was set on the command line."""
    return flags.FLAGS[flag.name].present > 0


def model_configs():
    """Returns the models to serve, as a list of `ModelConfig`; reads --model_config_file, if there is one.

    Raises:
        ValueError: if there is something wrong with that file.
    """
    from convnlp.serving.core.config_files import read_model_configs

    if _MODEL_CONFIG_FILE.value:
        return _content(_MODEL_CONFIG_FILE, read_model_configs)
    return [ModelConfig(_MODEL_NAME.value, os.path.abspath(_path(_MODEL_BASE_PATH)))]


def batching_options():
    """Returns `BatchingOptions`, or None without batching.

    Raises:
        ValueError: if there is something wrong with --batching_parameters_file.
    """
    from convnlp.serving.core.config_files import read_batching_options

    if not _BATCHING.value:
        return None
    return _content(_BATCHING_FILE, read_batching_options) or BatchingOptions()


def metrics_path():
    """Returns the path under which Prometheus reads the metrics, or None for nowhere.

    Raises:
        ValueError: if there is something wrong with --monitoring_config_file.
    """
    from convnlp.serving.core.config_files import read_metrics_path

    return _content(_MONITORING_CONFIG_FILE, read_metrics_path)


def limits():
    """Returns the `Limits` of a request."""
    return Limits(timeout_ms=TIMEOUT.value, **{name: flag.value for name, flag in _LIMITS.items()})


def timeouts():
    """Returns the `Timeouts` of a connection."""
    from convnlp.serving.rest.http_protocol import Timeouts

    return Timeouts(*(flag.value / 1000 for flag in (_IDLE, _READ, _WRITE)))


def drain_seconds():
    """Returns how long requests under way may take after SIGTERM, in seconds."""
    return _DRAIN.value / 1000


def hosts(address):
    """Returns the `AllowedHosts` at the numeric address of --host, or None if a request may name any host."""
    return allowed_hosts(_ALLOWED_HOSTS.value, address)


def num_threads():
    """Returns how many requests run at the same time in this process, of --num_workers."""
    if NUM_WORKERS.value == 1 or is_given(_THREADS):
        return _THREADS.value
    return max(4, share(_THREADS.value))


def num_warmups():
    """Returns how often a new version gets each of its warm-up requests."""
    return _WARMUP.value * _WARMUP_ITERATIONS.value


def share(number):
    """Returns a worker's share of a number of threads, at least 1."""
    return max(1, number // NUM_WORKERS.value)


def _content(flag, read):
    """Returns what `read` finds in the file that a flag names, or None; an OSError becomes a ValueError."""
    if not flag.value:
        return None
    path = _path(flag)
    try:
        return read(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(
            f"--{flag.name} must be a file that can be read. Received: {path} ({reason})"
        ) from error


def _path(flag):
    """Returns the path that a flag names, or None; shells leave the ~ of --flag=~/PATH as it is."""
    return os.path.expanduser(flag.value) if flag.value else None
