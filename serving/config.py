"""Reads --model_config_file: TF Serving's ModelServerConfig in protobuf's text format."""

import os

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from serving.models import ModelConfig


def read_model_configs(path):
    """Reads the models of a configuration file.

    Args:
        path: str. The file.

    Returns:
        list of `ModelConfig`.

    Raises:
        ValueError: naming the file and what is wrong in it.
        OSError: if it cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    except text_format.ParseError as error:
        raise ValueError(f"{path}: {error}") from error
    models = config.model_config_list.config
    if not models:
        raise ValueError(f"{path}: model_config_list must hold at least one config")
    return [_model_config(path, model) for model in models]


def _model_config(path, model):
    where = f"{path}: model {model.name!r}"
    if not model.name:
        raise ValueError(f"{path}: every config must have a name")
    if not os.path.isabs(model.base_path):
        raise ValueError(f"{where}: base_path must be absolute, got {model.base_path!r}")
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
