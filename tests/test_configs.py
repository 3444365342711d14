"""Every config file has exactly the fields of common.py and describes a model that can be built."""

import importlib
import pathlib

import pytest

from convnlp import pretrain
from convnlp.configs import (
    common,
    finetune_classification,
    finetune_long_documents,
    pretrain_c4,
    pretrain_mini,
)
from convnlp.layers import MIXERS
from convnlp.models import LAYOUTS, SIZES
from convnlp.objectives import build_objectives, pretraining_loss
from convnlp.runs import components, config_rules
from tests.mixer_table import sampled

FILES = sorted(
    path.stem for path in pathlib.Path("configs").glob("*.py") if path.stem not in ("__init__", "common")
)
DEFAULT = importlib.import_module("convnlp.configs.common").get_config()


@pytest.mark.parametrize("name", FILES)
def test_fields_and_sizes(name):
    config = importlib.import_module(f"convnlp.configs.{name}").get_config()
    config_rules.check_fields(config.to_dict(), DEFAULT.to_dict())
    size = SIZES[config.model.size]
    num_layers = config.model.num_layers or size["num_layers"]
    assert len(config.model.kernel_size) in (1, num_layers)
    assert len(config.model.pool_size) in (1, num_layers)
    assert config.model.mixer.split(",")[0] in {*MIXERS, *LAYOUTS}


@pytest.mark.parametrize("name", FILES)
def test_the_docstring_says_how_to_run_it(name):
    assert f"--config={name}" in importlib.import_module(f"convnlp.configs.{name}").__doc__


def test_the_papers_run():
    config = importlib.import_module("convnlp.configs.pretrain_c4").get_config("dilated_conv,base")
    assert config.train.num_steps == 524_288
    assert config.train.batch_size == 128
    assert config.data.input_length == 512
    assert (config.optimizer.name, config.optimizer.schedule, config.optimizer.warmup_steps) == (
        "adafactor",
        "inverse_sqrt",
        10_000,
    )
    assert len(config.model.kernel_size) == len(config.model.dilation_rate) == SIZES["base"]["num_layers"]


@pytest.mark.parametrize("arguments", ["", "dynamic_conv", "dynamic_conv,", ",base", "dynamic_conv,base,8"])
def test_the_papers_run_needs_a_mixer_and_a_size(arguments):
    with pytest.raises(ValueError, match=rf"^the argument must be MIXER,SIZE, .* Received: '{arguments}'$"):
        pretrain_c4.get_config(arguments)


@pytest.mark.parametrize("mixer", ["lightweight_conv", "dynamic_conv"])
def test_the_papers_convolutions_have_two_filters(mixer):
    config = pretrain_c4.get_config(f"{mixer},tiny")
    backbone = components.backbone(config, 50, "float32")
    for layer in (*backbone.encoder.layers, *backbone.decoder.layers):
        assert (layer.mixer.num_heads, layer.mixer.kernel_size) == (2, 7)
    assert backbone.num_heads == SIZES["tiny"]["num_heads"]  # cross-attention's


def test_dilated_convolutions_are_dilated():
    for config in (
        pretrain_c4.get_config("dilated_conv,base"),
        pretrain_c4.get_config("dilated_conv,tiny"),
        pretrain_mini.get_config("dilated_conv"),
        finetune_classification.get_config("dilated_conv"),
    ):
        assert max(config.model.dilation_rate) > 1


def test_the_mixers_that_cannot_decode():
    cannot = {name for name, mixer in MIXERS.items() if not mixer.supports_causal}
    assert set(common.ENCODER_ONLY_MIXERS) == cannot


def _small_backbone(config, mixer):
    """The config's model with fewer and narrower layers."""
    small = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "kernel_size": (3,), "dilation_rate": (1,)}
    config.model.update(small)
    backbone = components.backbone(config, 50, "float32")
    assert [layer.mixer_config["name"] for layer in backbone.encoder.layers] == [mixer]
    assert backbone.max_sequence_length >= config.data.input_length
    return backbone


@pytest.mark.parametrize("mixer", sampled(MIXERS))
def test_every_mixer_can_be_pre_trained(mixer):
    for config in (pretrain_mini.get_config(mixer), pretrain_c4.get_config(f"{mixer},tiny")):
        backbone = _small_backbone(config, mixer)
        assert bool(backbone.num_decoder_layers) == MIXERS[mixer].supports_causal
        pretraining_loss(backbone, pretrain.objectives_of(config))  # raises where they do not fit


@pytest.mark.parametrize("mixer", MIXERS)
def test_every_mixer_can_be_fine_tuned(mixer):
    assert _small_backbone(finetune_classification.get_config(mixer), mixer).num_decoder_layers == 0


def test_what_starts_from_random_weights():
    """Without a mixer named, fine-tuning starts from the shipped preset, which has its own."""
    assert finetune_classification.get_config().init_from == "dynamic_conv_mini_en"
    for config in (finetune_classification.get_config("fourier"), finetune_long_documents.get_config()):
        assert config.init_from == ""
    assert finetune_long_documents.get_config().model.mixer == "c_c_t_t"


def test_a_decoder_only_model_has_room_for_source_and_target():
    config = pretrain_mini.get_config("relative_attention")
    config.model.update({"num_layers": 0, "hidden_dim": 16, "num_heads": 2})
    backbone = components.backbone(config, 50, "float32")
    assert backbone.max_sequence_length == config.data.input_length + config.data.target_length
    pretraining_loss(backbone, build_objectives(["span_corruption"], config.data.input_length))


def test_an_unknown_field_in_a_file_is_refused():
    config = {**DEFAULT.to_dict(), "optimiser": {}}
    with pytest.raises(ValueError, match=r"optimiser; did you mean optimizer\?"):
        config_rules.check_fields(config, DEFAULT.to_dict())
    config = DEFAULT.to_dict()
    config["objective"]["masked_lm_weight"] = 0.5  # a field until 0.1.0
    with pytest.raises(ValueError, match=r"; did you mean objective\.options\.masked_lm\.weight\?"):
        config_rules.check_fields(config, DEFAULT.to_dict())
