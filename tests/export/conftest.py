"""Two small presets, with every mixer in one stack, and what is exported from them once for all tests."""

import os

import pytest

from convnlp import layers
from convnlp.models import (
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
)
from export import lite, preset, versions
from tests import corpus

LABELS = ["bad", "fair", "good"]
LENGTH = 16
GENERATED = 6


def _backbone(tokenizer, **config):
    return Seq2SeqBackbone(
        tokenizer.vocabulary_size(),
        num_layers=len(layers.MIXERS),
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        encoder_mixer=list(layers.MIXERS),
        kernel_size=4,
        dilation_rate=2,
        max_sequence_length=LENGTH,
        **config,
    )


@pytest.fixture(scope="session")
def classifier_dir(tmp_path_factory):
    tokenizer = Tokenizer(corpus.tiny_proto())
    classifier = TextClassifier(
        _backbone(tokenizer, num_decoder_layers=0),
        num_classes=len(LABELS),
        preprocessor=TextClassifierPreprocessor(tokenizer, LENGTH),
        labels=LABELS,
    )
    directory = tmp_path_factory.mktemp("presets") / "classifier"
    classifier.save_to_preset(str(directory))
    (directory / "experiment.json").write_text('{"seed": 0}')
    return directory


@pytest.fixture(scope="session")
def lm_dir(tmp_path_factory):
    tokenizer = Tokenizer(corpus.tiny_proto())
    decoder = [name for name, mixer in layers.MIXERS.items() if mixer.supports_causal and mixer.supports_step]
    backbone = _backbone(tokenizer, num_decoder_layers=len(decoder), decoder_mixer=decoder)
    directory = tmp_path_factory.mktemp("presets") / "lm"
    Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, LENGTH, 8)).save_to_preset(str(directory))
    return directory


@pytest.fixture(scope="session")
def classifier(classifier_dir):
    return preset.load(str(classifier_dir))


@pytest.fixture(scope="session")
def fp32_file(classifier_dir, tmp_path_factory):
    """The classifier as TFLite, exact, for token ids; the export has compared it with the preset."""
    file = tmp_path_factory.mktemp("tflite") / "model.tflite"
    lite.export(str(classifier_dir), str(file), "fp32")
    return file


@pytest.fixture(scope="session")
def exported_classifier(classifier_dir, tmp_path_factory):
    """(text version, ids-only version, errors)."""
    return versions.export(str(classifier_dir), str(tmp_path_factory.mktemp("models") / "classifier"))


@pytest.fixture(scope="session")
def exported_lm(lm_dir, tmp_path_factory):
    """(text version, ids-only version, errors), of a path that is relative, as in the README."""
    output = os.path.relpath(tmp_path_factory.mktemp("models") / "lm")
    return versions.export(str(lm_dir), output, max_length=GENERATED)
