"""Small presets, with every mixer in one stack, and what is exported from them once for all tests."""

import json
import os

import keras
import pytest

from configs import pretrain_prefix_lm
from convnlp import layers
from convnlp.models import (
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
)
from export import preset
from export.lite import tflite_files
from export.saved_models import versions
from tests import corpus

LABELS = ["bad", "fair", "good"]
LENGTH = 16
GENERATED = 6


def _backbone(tokenizer, **config):
    defaults = {
        "num_layers": len(layers.MIXERS),
        "num_heads": 2,
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "encoder_mixer": list(layers.MIXERS),
        "kernel_size": 4,
        "dilation_rate": 2,
        "max_sequence_length": LENGTH,
    }
    return Seq2SeqBackbone(tokenizer.vocabulary_size(), **{**defaults, **config})


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


def _sharp(weights):
    """Makes far apart logits of an untrained stack, or each token would repeat itself."""
    for weight in weights:
        noise = keras.random.normal(weight.shape)
        weight.assign(noise if weight.name == "gamma" else weight + 0.3 * noise)


def _with_prefix():
    """The tokenizer, and the names of all mixers that read a prefix; sets the seed of their weights."""
    keras.utils.set_random_seed(0)
    return Tokenizer(corpus.tiny_proto()), [n for n, mixer in layers.MIXERS.items() if mixer.supports_prefix]


@pytest.fixture(scope="session")
def prefix_lm_dir(tmp_path_factory):
    """What `configs/pretrain_prefix_lm.py` leaves: an encoder alone, a tokenizer, the config of the run."""
    tokenizer, mixers = _with_prefix()
    backbone = _backbone(
        tokenizer, num_layers=len(mixers), num_decoder_layers=0, encoder_mixer=mixers, dropout=0.0
    )
    _sharp(backbone.encoder.trainable_variables)
    directory = tmp_path_factory.mktemp("presets") / "prefix_lm"
    backbone.save_to_preset(str(directory))
    tokenizer.save_to_preset(str(directory))
    config = pretrain_prefix_lm.get_config()
    config.data.input_length = LENGTH
    (directory / "experiment.json").write_text(json.dumps(config.to_dict()))
    return directory


@pytest.fixture(scope="session")
def decoder_only_dir(tmp_path_factory):
    tokenizer, mixers = _with_prefix()
    backbone = _backbone(
        tokenizer,
        num_layers=0,
        num_decoder_layers=len(mixers),
        encoder_mixer=None,
        decoder_mixer=mixers,
        max_sequence_length=LENGTH + 8,
    )
    _sharp(backbone.decoder.trainable_variables)
    directory = tmp_path_factory.mktemp("presets") / "decoder_only"
    Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, LENGTH, 8)).save_to_preset(str(directory))
    return directory


@pytest.fixture(scope="session")
def classifier(classifier_dir):
    return preset.load(str(classifier_dir))


@pytest.fixture(scope="session")
def fp32_file(classifier_dir, tmp_path_factory):
    """The classifier as TFLite, exact, for token ids; the export has compared it with the preset."""
    file = tmp_path_factory.mktemp("tflite") / "model.tflite"
    tflite_files.export(str(classifier_dir), str(file), "fp32")
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


@pytest.fixture(scope="session")
def exported_prefix_lm(prefix_lm_dir, tmp_path_factory):
    """(text version, ids-only version, errors)."""
    output = tmp_path_factory.mktemp("models") / "prefix_lm"
    return versions.export(str(prefix_lm_dir), str(output), max_length=GENERATED)


@pytest.fixture(scope="session")
def exported_decoder_only(decoder_only_dir, tmp_path_factory):
    """(text version, ids-only version, errors)."""
    output = tmp_path_factory.mktemp("models") / "decoder_only"
    return versions.export(str(decoder_only_dir), str(output), max_length=GENERATED)
