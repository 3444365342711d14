"""Every config file has exactly the fields of common.py and describes a model that can be built."""

import importlib
import pathlib

import pytest

from convnlp import experiment
from convnlp.layers import MIXERS
from convnlp.models import SIZES

FILES = sorted(
    path.stem for path in pathlib.Path("configs").glob("*.py") if path.stem not in ("__init__", "common")
)
DEFAULT = importlib.import_module("configs.common").get_config()


@pytest.mark.parametrize("name", FILES)
def test_fields_and_sizes(name):
    config = importlib.import_module(f"configs.{name}").get_config()
    experiment.check_fields(config.to_dict(), DEFAULT.to_dict())
    size = SIZES[config.model.size]
    num_layers = config.model.num_layers or size["num_layers"]
    assert len(config.model.kernel_size) in (1, num_layers)
    assert config.model.mixer.split(",")[0] in MIXERS


@pytest.mark.parametrize("name", FILES)
def test_the_docstring_says_how_to_run_it(name):
    assert f"configs/{name}.py" in importlib.import_module(f"configs.{name}").__doc__


def test_the_papers_run():
    config = importlib.import_module("configs.pretrain_c4").get_config("dilated_conv,base")
    assert (
        config.train.num_steps == 524_288
    )
    assert (
        config.train.batch_size == 128
    )
    assert (
        config.data.input_length == 512
    )
    assert (config.optimizer.name, config.optimizer.schedule, config.optimizer.warmup_steps) == (
        "adafactor",
        "inverse_sqrt",
        10_000,
    )
    assert len(config.model.kernel_size) == SIZES["base"]["num_layers"]


def test_an_unknown_field_in_a_file_is_refused():
    config = {**DEFAULT.to_dict(), "optimiser": {}}
    with pytest.raises(ValueError, match=r"optimiser; did you mean optimizer\?"):
        experiment.check_fields(config, DEFAULT.to_dict())
