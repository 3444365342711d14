"""Small presets, and what is exported from them once for all tests.

A model has a layer of each mixer of a list: SHORT, of which all signatures are exported, since what surrounds
a stack does not depend on its mixers; the SAMPLE of tests/mixer_table.py; and, in slow tests, EVERY mixer.

What is costly is built once, by the first of pytest's processes that needs it; the others wait, and read it.
"""

import fcntl
import os
import pickle

import keras
import pytest
import tensorflow as tf

from convnlp import kernels, layers
from convnlp.export import preset
from convnlp.export.lite import tflite_files
from convnlp.export.saved_models import signatures, versions
from convnlp.export.verification import checks, loaders, requests
from convnlp.models import (
    PrefixLM,
    PrefixLMPreprocessor,
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
    checksums,
)
from tests import corpus
from tests.mixer_table import SAMPLE
from tests.run_program import Program
from tests.small_classifier import keep_ngrams, small_classifier

LABELS = ["bad", "fair", "good"]
LENGTH = 16
GENERATED = 6
EVERY = list(layers.MIXERS)
SHORT = ["dynamic_conv", "relative_attention"]  # the second has weights for each position
RECORDED = {
    "experiment.json": '{"seed": 0}',
    "README.md": "# A classifier\n",
}  # what a run leaves in a preset


def _backbone(tokenizer, **config):
    defaults = {
        "num_heads": 2,
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "kernel_size": 4,
        "dilation_rate": 2,
        "max_sequence_length": LENGTH,
    }
    return Seq2SeqBackbone(tokenizer.vocabulary_size(), **{**defaults, **config})


@pytest.fixture(scope="session", autouse=True)
def _fresh_processes_start_sooner():
    """Those of `loaders.ask` are forked from one that has imported TensorFlow and nothing else."""
    start = loaders._isolated
    loaders._isolated = lambda file, *rest, **kwargs: (
        Program(file, *rest, **kwargs) if file.endswith("fresh_run.py") else start(file, *rest, **kwargs)
    )
    yield
    loaders._isolated = start


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


def _sharp(weights):
    """Makes far apart logits of an untrained stack, or each token would repeat itself."""
    for weight in weights:
        noise = keras.random.normal(weight.shape)
        weight.assign(noise if weight.name == "gamma" else weight + 0.3 * noise)


def _write_classifier(mixers, tokenizer, directory):
    classifier = TextClassifier(
        _backbone(tokenizer, num_layers=len(mixers), num_decoder_layers=0, encoder_mixer=mixers),
        num_classes=len(LABELS),
        preprocessor=TextClassifierPreprocessor(tokenizer, LENGTH),
        labels=LABELS,
        ngram_buckets=64,
    )
    keep_ngrams(classifier, requests.texts(5))
    classifier.save_to_preset(str(directory))
    for name, text in RECORDED.items():
        (directory / name).write_text(text)
    checksums.write(str(directory))


def _write_lm(mixers, tokenizer, directory):
    # The classifier's stack has every mixer as an encoder already.
    decoder = [name for name in mixers if _generates(name)]
    backbone = _backbone(
        tokenizer, num_layers=1, encoder_mixer=None, num_decoder_layers=len(decoder), decoder_mixer=decoder
    )
    Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, LENGTH, 8)).save_to_preset(str(directory))


def _write_prefix_lm(mixers, tokenizer, directory):
    mixers = [name for name in mixers if layers.MIXERS[name].supports_prefix]
    backbone = _backbone(
        tokenizer, num_layers=len(mixers), num_decoder_layers=0, encoder_mixer=mixers, dropout=0.0
    )
    _sharp(backbone.encoder.trainable_variables)
    PrefixLM(backbone, PrefixLMPreprocessor(tokenizer, LENGTH)).save_to_preset(str(directory))


def _write_decoder_only(mixers, tokenizer, directory):
    mixers = [name for name in mixers if layers.MIXERS[name].supports_prefix]
    backbone = _backbone(
        tokenizer,
        num_layers=0,
        num_decoder_layers=len(mixers),
        encoder_mixer=None,
        decoder_mixer=mixers,
        max_sequence_length=LENGTH + 8,
    )
    _sharp(backbone.decoder.trainable_variables)
    Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, LENGTH, 8)).save_to_preset(str(directory))


def _generates(name):
    return layers.MIXERS[name].supports_causal and layers.MIXERS[name].supports_step


_WRITERS = {
    "classifier": _write_classifier,
    "lm": _write_lm,
    "prefix_lm": _write_prefix_lm,
    "decoder_only": _write_decoder_only,
}
KINDS = list(_WRITERS)


@pytest.fixture(scope="session")
def preset_of(once):
    """A function of a kind of model and its mixers: its preset with a layer of each that it can use."""

    def preset_of(kind, mixers):
        def build(folder):
            keras.utils.set_random_seed(0)
            _WRITERS[kind](mixers, Tokenizer(corpus.tiny_proto()), folder / kind)
            return folder / kind

        return once(f"{kind}_preset_{len(mixers)}", build)

    return preset_of


@pytest.fixture(scope="session")
def exported(preset_of, once):
    """A function of the same: (text version, ids-only version, errors), all signatures checked, or none."""

    def exported(kind, mixers, check=True):
        # Of a path that is relative, as in the README.
        arguments = {} if kind == "classifier" else {"max_length": GENERATED}
        return once(
            f"{kind}_{len(mixers)}" + ("" if check else "_unchecked"),
            lambda folder: versions.export(
                str(preset_of(kind, mixers)), os.path.relpath(folder / kind), check=check, **arguments
            ),
        )

    return exported


@pytest.fixture(scope="session")
def ids_of_every_mixer(preset_of, once):
    """A function of a kind: (SavedModel with the signature "ids" of a stack of every mixer, its errors)."""

    def ids_of_every_mixer(kind):
        def build(folder):
            model = preset.load(str(preset_of(kind, EVERY)))
            with kernels.implementation("inference"):
                servable = signatures.servable(model, None if kind == "classifier" else GENERATED).only("ids")
                tf.saved_model.save(servable.module, str(folder / kind), signatures=servable.signatures)
            return folder / kind, checks.check(model, {folder / kind: servable})

        return once(f"{kind}_ids", build)

    return ids_of_every_mixer


@pytest.fixture(
    scope="session", params=[SAMPLE, pytest.param(EVERY, marks=pytest.mark.slow)], ids=["sample", "every"]
)
def mixers(request):
    """Those that have a layer in the models below."""
    return list(request.param)


@pytest.fixture(scope="session")
def classifier_dir(preset_of, mixers):
    return preset_of("classifier", mixers)


@pytest.fixture(scope="session")
def prefix_lm_dir(preset_of, mixers):
    return preset_of("prefix_lm", mixers)


@pytest.fixture(scope="session")
def classifier(classifier_dir):
    return preset.load(str(classifier_dir))


@pytest.fixture(scope="session")
def fp32_export(classifier_dir, mixers, once):
    """(file, facts): the classifier as TFLite, exact, for token ids, which the export has compared."""

    def build(folder):
        file = folder / "model.tflite"
        return file, tflite_files.export(str(classifier_dir), str(file), "fp32")

    return once(f"fp32_{len(mixers)}", build)


@pytest.fixture(scope="session")
def fp32_file(fp32_export):
    return fp32_export[0]


@pytest.fixture(scope="session")
def exported_classifier(exported):
    return exported("classifier", SHORT)


@pytest.fixture(scope="session")
def exported_lm(exported):
    return exported("lm", SHORT)


@pytest.fixture(scope="session")
def exported_prefix_lm(exported):
    return exported("prefix_lm", SHORT, check=False)
