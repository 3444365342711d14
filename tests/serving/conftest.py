"""Small models, written and loaded once for all tests of the server."""

import pytest

from convnlp.serving.core.model_config import ModelConfig
from tests.serving.in_process import InProcess
from tests.serving.small_models import save_affine, save_grammar


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A directory with the models `g` (`save_grammar`) and `affine` (versions 1 and 2)."""
    folder = tmp_path_factory.mktemp("models")
    save_grammar(folder / "g" / "1")
    for version in (1, 2):
        save_affine(folder / "affine" / str(version), version)
    return folder


@pytest.fixture(scope="session")
def model_configs(model_folder):
    return [
        ModelConfig("g", str(model_folder / "g")),
        ModelConfig("affine", str(model_folder / "affine"), None, labels={"stable": 1, "next": 9}),
    ]


@pytest.fixture(scope="session")
def models(model_folder, model_configs):
    """The application on both models."""
    return InProcess(model_folder, model_configs)
