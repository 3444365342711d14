"""Reads TF Serving's configuration files: messages in protobuf's text format."""

import os

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from convnlp.serving.core.batching_options import BatchingOptions
from convnlp.serving.core.metrics import METRICS_PATH
from convnlp.serving.core.model_config import ModelConfig, by_name
from convnlp.serving.protos import BatchingParameters, MonitoringConfig


def read_model_configs(path):
    """Reads the models of a configuration file.

    Args:
        path: str. The file.

    Returns:
        list of `ModelConfig`.

    Raises:
        ValueError: if the file is wrong; the message names the file and the error in it.
        OSError: if it cannot be read.
    """
    models = _read(path, model_server_config_pb2.ModelServerConfig()).model_config_list.config
    try:
        if not models:
            raise ValueError("model_config_list must hold at least one config")
        return model_configs(models)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_batching_options(path):
    """Reads a file of BatchingParameters as `BatchingOptions`; raises the errors of `read_model_configs`."""
    parameters = _read(path, BatchingParameters())
    options = {}
    for field, value in parameters.ListFields():
        if field.name != "thread_pool_name":
            options[field.name] = value.value if hasattr(value, "value") else value
    if "allowed_batch_sizes" in options:
        options["allowed_batch_sizes"] = tuple(parameters.allowed_batch_sizes)
    try:
        return BatchingOptions(**options)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_metrics_path(path):
    """Reads a file of MonitoringConfig; raises the errors of `read_model_configs`.

    Returns:
        str or None. The path at which Prometheus reads the metrics; None if there is none.
    """
    prometheus = _read(path, MonitoringConfig()).prometheus_config
    if prometheus.path and not prometheus.path.startswith("/"):
        raise ValueError(f"{path}: prometheus_config path must begin with /, got {prometheus.path!r}")
    return (prometheus.path or METRICS_PATH) if prometheus.enable else None


def _read(path, message):
    with open(path, "rb") as file:
        content = file.read()
    try:
        return text_format.Parse(content.decode("utf-8"), message)
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise ValueError(f"{path}: {error}") from error


def model_configs(models):
    """Converts a list of ModelConfig messages to `ModelConfig`.

    Raises:
        ValueError: if one is wrong, or two have the same name.
    """
    configs = [_model_config(model) for model in models]
    by_name(configs)
    return configs


def _model_config(model):
    where = f"model {model.name!r}"
    if not model.name:
        raise ValueError("every config must have a name")
    if not os.path.isabs(model.base_path):
        raise ValueError(f"{where}: base_path must be absolute, got {model.base_path!r}")
    if "\0" in model.base_path:  # which no directory of the system can have
        raise ValueError(f"{where}: base_path must not hold a NUL character, got {model.base_path!r}")
    if model.model_platform != "tensorflow":
        raise ValueError(f"{where}: model_platform must be 'tensorflow', got {model.model_platform!r}")
    policy = model.model_version_policy
    choice = policy.WhichOneof("policy_choice")
    if choice == "specific" and not policy.specific.versions:
        raise ValueError(f"{where}: model_version_policy specific must name its versions")
    return ModelConfig(
        name=model.name,
        base_path=model.base_path,
        num_latest=None if choice == "all" else policy.latest.num_versions or 1,
        versions=tuple(policy.specific.versions),
        labels=dict(model.version_labels),
    )
