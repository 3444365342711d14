"""A tiny tokenizer, backbone and tasks that the tests of this directory share: not to be trained."""

import pytest

from convnlp.models import (
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
)
from tests import corpus


@pytest.fixture(scope="session")
def tokenizer():
    return Tokenizer(corpus.tiny_proto())


@pytest.fixture(scope="session")
def backbone(tokenizer):
    return Seq2SeqBackbone(
        tokenizer.vocabulary_size(),
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        kernel_size=3,
    )


@pytest.fixture(scope="session")
def classifier(backbone, tokenizer):
    return TextClassifier(
        backbone,
        num_classes=2,
        preprocessor=TextClassifierPreprocessor(tokenizer, 16),
        labels=["bad", "good"],
    )


@pytest.fixture(scope="session")
def lm(backbone, tokenizer):
    return Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 10))


@pytest.fixture(scope="session")
def saved(classifier, lm, backbone, tmp_path_factory):
    """A folder with a preset of each model, by name: copy what you change."""
    folder = tmp_path_factory.mktemp("saved")
    for name, model in {"classifier": classifier, "lm": lm, "backbone": backbone}.items():
        model.save_to_preset(str(folder / name))
    return folder
