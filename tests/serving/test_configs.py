"""The committed configuration of TF Serving, read by its own messages, and how the server reads it."""

from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from convnlp.serving.core.batching_options import BatchingOptions
from convnlp.serving.core.config_files import read_batching_options, read_metrics_path, read_model_configs
from convnlp.serving.core.metrics import METRICS_PATH
from convnlp.serving.core.model_config import ModelConfig
from convnlp.serving.protos import BatchingParameters, MonitoringConfig

FOLDER = Path(__file__).resolve().parents[2] / "serving"


def parse(name, message):
    return text_format.Parse((FOLDER / name).read_text(), message())


def test_models_config():
    config = parse("models.config", model_server_config_pb2.ModelServerConfig)
    names = [model.name for model in config.model_config_list.config]
    assert names == ["classifier", "language_model"]
    assert read_model_configs(str(FOLDER / "models.config")) == [
        ModelConfig("classifier", "/models/classifier", num_latest=2),
        ModelConfig("language_model", "/models/language_model"),
    ]


def test_batching_config():
    parse("batching.config", BatchingParameters)
    assert read_batching_options(str(FOLDER / "batching.config")) == BatchingOptions(
        max_batch_size=64,
        batch_timeout_micros=0,
        max_enqueued_batches=100,
        num_batch_threads=2,
        enable_large_batch_splitting=True,
        max_execution_batch_size=16,
    )


def test_every_batching_parameter_is_taken_over(tmp_path):
    path = tmp_path / "batching.config"
    path.write_text(
        "max_batch_size { value: 8 } batch_timeout_micros { value: 5 } max_enqueued_batches { value: 3 }"
        " num_batch_threads { value: 2 } allowed_batch_sizes: 2 allowed_batch_sizes: 4"
        ' pad_variable_length_inputs: true thread_pool_name { value: "a" }'
        " enable_large_batch_splitting { value: true } max_execution_batch_size { value: 4 }"
    )
    assert read_batching_options(str(path)) == BatchingOptions(8, 5, 3, 2, (2, 4), True, True, 4)
    path.write_text("max_batch_size { value: 8 } allowed_batch_sizes: 2")
    with pytest.raises(ValueError, match=r"batching\.config: `allowed_batch_sizes` must increase and"):
        read_batching_options(str(path))
    path.write_text("max_batch_size: 8")
    with pytest.raises(ValueError, match=r"batching\.config: "):
        read_batching_options(str(path))


def test_monitoring_config():
    config = parse("monitoring.config", MonitoringConfig)
    assert config.prometheus_config.enable
    assert config.prometheus_config.path == "/monitoring/prometheus/metrics"
    assert read_metrics_path(str(FOLDER / "monitoring.config")) == METRICS_PATH


def test_metrics_are_where_the_configuration_says(tmp_path):
    path = tmp_path / "monitoring.config"
    for text, expected in {
        "": None,
        "prometheus_config { enable: true }": METRICS_PATH,
        'prometheus_config { enable: true path: "/metrics" }': "/metrics",
        'prometheus_config { path: "/metrics" }': None,
    }.items():
        path.write_text(text)
        assert read_metrics_path(str(path)) == expected


def test_metrics_must_be_at_a_path(tmp_path):
    path = tmp_path / "monitoring.config"
    path.write_text('prometheus_config { enable: true path: "metrics" }')
    with pytest.raises(ValueError, match=r"monitoring\.config: .* path must begin with /, got 'metrics'"):
        read_metrics_path(str(path))


@pytest.mark.parametrize("read", [read_model_configs, read_batching_options, read_metrics_path])
def test_a_file_that_is_no_text_is_named(tmp_path, read):
    path = tmp_path / "a.config"
    path.write_bytes(b"# caf\xe9\n")
    with pytest.raises(ValueError, match=r"a\.config: 'utf-8' codec can't decode byte 0xe9"):
        read(str(path))


@pytest.mark.parametrize("message", [BatchingParameters, MonitoringConfig])
def test_the_messages_know_their_fields_only(message):
    with pytest.raises(text_format.ParseError, match="no field named"):
        text_format.Parse("unheard_of: 1", message())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('name: "m" base_path: "m" model_platform: "tensorflow"', "base_path must be absolute, got 'm'"),
        ('name: "m" base_path: "/m" model_platform: "jax"', "model_platform must be 'tensorflow', got 'jax'"),
        (
            r'name: "m" base_path: "/m\000n" model_platform: "tensorflow"',
            r"model 'm': base_path must not hold a NUL character, got '/m\x00n'",
        ),
        ('base_path: "/m" model_platform: "tensorflow"', "every config must have a name"),
        (
            'name: "m" base_path: "/m" model_platform: "tensorflow" } config { name: "m" base_path: "/n"'
            ' model_platform: "tensorflow"',
            "models must have different names, got ['m', 'm']",
        ),
        ('nam: "m"', 'no field named "nam"'),
    ],
)
def test_a_wrong_models_config_is_named(tmp_path, config, message):
    path = tmp_path / "models.config"
    path.write_text(f"model_config_list {{ config {{ {config} }} }}")
    with pytest.raises(ValueError) as error:
        read_model_configs(str(path))
    assert str(path) in str(error.value)
    assert message in str(error.value)


def test_version_policies_and_labels(tmp_path):
    path = tmp_path / "models.config"
    head = 'base_path: "/m" model_platform: "tensorflow"'
    path.write_text(
        "model_config_list {"
        f' config {{ name: "a" {head} model_version_policy {{ all {{}} }} }}'
        f' config {{ name: "b" {head} model_version_policy {{ specific {{ versions: 4 versions: 7 }} }}'
        ' version_labels { key: "stable" value: 4 } } }'
    )
    assert read_model_configs(str(path)) == [
        ModelConfig("a", "/m", num_latest=None),
        ModelConfig("b", "/m", versions=(4, 7), labels={"stable": 4}),
    ]
