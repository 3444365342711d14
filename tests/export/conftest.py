"""Small presets, with every mixer in one stack, and what is exported from them once for all tests.

What is costly is built once, by the first of pytest's processes that needs it; the others wait, and read it.
"""

import fcntl
import json
import os
import pickle

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
    checksums,
)
from export import preset
from export.lite import tflite_files
from export.saved_models import versions
from tests import corpus
from tests.small_classifier import small_classifier

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
def once(tmp_path_factory):
    """A function of a name and of what builds it: `build(directory)`, whose result can be pickled."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "exports"

    def once(name, build):
        folder = shared / name
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            result = folder / "result"
            if not result.exists():
                directory = folder / str(os.getpid())  # a new one, should another process have failed
                directory.mkdir()
                content = pickle.dumps(build(directory))
                result.write_bytes(content)
            return pickle.loads(result.read_bytes())

    return once


@pytest.fixture(scope="session")
def small_dir(once):
    """A classifier of one layer, for tests of what surrounds a model."""

    def build(directory):
        small_classifier(["dynamic_conv"], LENGTH, LABELS).save_to_preset(str(directory / "small"))
        return directory / "small"

    return once("small_preset", build)


@pytest.fixture(scope="session")
def small(small_dir):
    return preset.load(str(small_dir))


@pytest.fixture(scope="session")
def exported_small(small_dir, once):
    """(text version, ids-only version, {}), which nobody has checked."""
    return once("small", lambda folder: versions.export(str(small_dir), str(folder / "small"), check=False))


@pytest.fixture(scope="session")
def classifier_dir(once):
    return once("classifier_preset", _classifier_preset)


def _classifier_preset(folder):
    tokenizer = Tokenizer(corpus.tiny_proto())
    classifier = TextClassifier(
        _backbone(tokenizer, num_decoder_layers=0),
        num_classes=len(LABELS),
        preprocessor=TextClassifierPreprocessor(tokenizer, LENGTH),
        labels=LABELS,
    )
    directory = folder / "classifier"
    classifier.save_to_preset(str(directory))
    (directory / "experiment.json").write_text('{"seed": 0}')
    checksums.write(str(directory))
    return directory


@pytest.fixture(scope="session")
def lm_dir(once):
    return once("lm_preset", _lm_preset)


def _lm_preset(folder):
    tokenizer = Tokenizer(corpus.tiny_proto())
    decoder = [name for name, mixer in layers.MIXERS.items() if mixer.supports_causal and mixer.supports_step]
    # The classifier's stack has every mixer as an encoder already.
    backbone = _backbone(
        tokenizer, num_layers=1, encoder_mixer=None, num_decoder_layers=len(decoder), decoder_mixer=decoder
    )
    directory = folder / "lm"
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
def prefix_lm_dir(once):
    """What `configs/pretrain_prefix_lm.py` leaves: an encoder alone, a tokenizer, the config of the run."""
    return once("prefix_lm_preset", _prefix_lm_preset)


def _prefix_lm_preset(folder):
    tokenizer, mixers = _with_prefix()
    backbone = _backbone(
        tokenizer, num_layers=len(mixers), num_decoder_layers=0, encoder_mixer=mixers, dropout=0.0
    )
    _sharp(backbone.encoder.trainable_variables)
    directory = folder / "prefix_lm"
    backbone.save_to_preset(str(directory))
    tokenizer.save_to_preset(str(directory))
    config = pretrain_prefix_lm.get_config()
    config.data.input_length = LENGTH
    (directory / "experiment.json").write_text(json.dumps(config.to_dict()))
    checksums.write(str(directory))
    return directory


@pytest.fixture(scope="session")
def decoder_only_dir(once):
    return once("decoder_only_preset", _decoder_only_preset)


def _decoder_only_preset(folder):
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
    directory = folder / "decoder_only"
    Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, LENGTH, 8)).save_to_preset(str(directory))
    return directory


@pytest.fixture(scope="session")
def classifier(classifier_dir):
    return preset.load(str(classifier_dir))


@pytest.fixture(scope="session")
def fp32_export(classifier_dir, once):
    """(file, facts): the classifier as TFLite, exact, for token ids, which the export has compared."""

    def build(folder):
        file = folder / "model.tflite"
        return file, tflite_files.export(str(classifier_dir), str(file), "fp32")

    return once("fp32", build)


@pytest.fixture(scope="session")
def fp32_file(fp32_export):
    return fp32_export[0]


@pytest.fixture(scope="session")
def exported_classifier(classifier_dir, once):
    """(text version, ids-only version, errors)."""
    return once("classifier", lambda folder: versions.export(str(classifier_dir), str(folder / "classifier")))


@pytest.fixture(scope="session")
def exported_lm(lm_dir, once):
    """(text version, ids-only version, errors), of a path that is relative, as in the README."""
    return once(
        "lm",
        lambda folder: versions.export(str(lm_dir), os.path.relpath(folder / "lm"), max_length=GENERATED),
    )


@pytest.fixture(scope="session")
def exported_prefix_lm(prefix_lm_dir, once):
    """(text version, ids-only version, errors)."""
    return once("prefix_lm", lambda folder: _exported(prefix_lm_dir, folder))


@pytest.fixture(scope="session")
def exported_decoder_only(decoder_only_dir, once):
    """(text version, ids-only version, errors)."""
    return once("decoder_only", lambda folder: _exported(decoder_only_dir, folder))


def _exported(directory, folder):
    return versions.export(str(directory), str(folder / "model"), max_length=GENERATED)
