"""What a preset says must fit what it holds, sums or no sums: sizes, vocabulary, classes and weights."""

import json
import os
import shutil

import h5py
import keras_nlp
import numpy as np
import pytest

from convnlp.models import (
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
    checksums,
)
from tests import corpus


@pytest.fixture
def preset(saved, tmp_path):
    return lambda name: str(shutil.copytree(saved / name, tmp_path / name))


@pytest.fixture
def no_layers(monkeypatch):
    """Fails where a layer gets weights."""

    def refuse(*args):
        raise AssertionError("a layer was built")

    monkeypatch.setattr("convnlp.layers.stack.Stack.build", refuse)


def edit(folder, name, change):
    path = os.path.join(folder, name)
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    change(config["config"]["backbone"]["config"] if name == "task.json" else config["config"])
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    checksums.write(folder)


def refused(load, folder):
    with pytest.raises(ValueError) as error:
        load(folder)
    message = str(error.value)
    assert "\n" not in message
    return message


SIZES = [
    {"num_layers": 10**6},
    {"num_decoder_layers": 10**6},
    {"num_layers": 1},
    {"hidden_dim": 2**40},
    {"vocabulary_size": 10**12},
    {"intermediate_dim": 10**12},
    {"kernel_size": 10**9 + 1},
    {"mixer": "res_mlp", "max_sequence_length": 10**8},
    {"num_layers": "two"},
    {"num_layers": None},
    {"frobnicate": 1},
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", ["config.json", "task.json"])
def test_sizes_that_the_weights_do_not_have(preset, name, sizes, no_layers):
    folder = preset("lm")
    edit(folder, name, lambda config: config.update(sizes))
    message = refused(Seq2SeqLM.from_preset, folder)
    assert message.startswith(f"preset {folder}: ")
    assert "config.json" in message or name in message
    argument = next(iter(sizes))
    assert argument in message or "weights" in message


@pytest.mark.parametrize("sizes", SIZES[:6], ids=str)
def test_keras_nlp_builds_nothing_absurd_either(preset, sizes):
    folder = preset("lm")
    edit(folder, "config.json", lambda config: config.update(sizes))
    message = refused(keras_nlp.models.Backbone.from_preset, folder)
    assert next(iter(sizes)) in message or "weights" in message


def test_a_head_of_another_size(preset, no_layers):
    folder = preset("classifier")
    path = os.path.join(folder, "task.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["config"].update(num_classes=10**9, labels=None)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    checksums.write(folder)
    assert "task.json says num_classes=1000000000; the head" in refused(TextClassifier.from_preset, folder)


def test_a_vocabulary_of_another_size(preset, no_layers, monkeypatch):
    folder = preset("classifier")
    edit(folder, "tokenizer.json", lambda config: config.update(num_sentinels=7))
    edit(folder, "preprocessor.json", lambda config: config["tokenizer"]["config"].update(num_sentinels=7))
    for load in (TextClassifier.from_preset, Tokenizer.from_preset):
        message = refused(load, folder)
        assert message.startswith(f"preset {folder}: assets/tokenizer/vocabulary.spm has 100 pieces")
        assert "vocabulary_size=200" in message


def test_keras_nlp_notices_another_vocabulary(preset):
    folder = preset("classifier")
    edit(folder, "tokenizer.json", lambda config: config.update(num_sentinels=10**12))
    for cls in (keras_nlp.models.TextClassifier, keras_nlp.models.Backbone):
        assert "vocabulary.spm has 100 pieces" in refused(cls.from_preset, folder)


def test_a_task_of_another_vocabulary_is_not_built(backbone):
    tokenizer = Tokenizer(corpus.tiny_proto(), num_sentinels=7)
    with pytest.raises(ValueError, match=r"vocabulary_size=200\. Received: one with 107"):
        TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 8))
    with pytest.raises(ValueError, match=r"vocabulary_size=200\. Received: one with 107"):
        Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 8, 8))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["model.weights.h5", "task.weights.h5"])
def test_weights_that_are_not_finite_are_not_loaded(preset, name, value):
    folder = preset("classifier")
    with h5py.File(os.path.join(folder, name), "r+") as file:
        vector = file[
            "layers/encoder/final_norm/vars/0" if name.startswith("model") else "layers/dense/vars/1"
        ]
        vector[1] = value
    checksums.write(folder)
    for load in (TextClassifier.from_preset, keras_nlp.models.TextClassifier.from_preset):
        message = refused(load, folder)
        assert message.startswith(f"preset {folder}: {name} holds {value} in ")


@pytest.mark.parametrize("part", ["head", "backbone"])
def test_weights_that_are_not_finite_are_not_saved(backbone, tokenizer, tmp_path, part):
    classifier = TextClassifier(backbone.encoder_only(), 2, TextClassifierPreprocessor(tokenizer, 8))
    variable = getattr(classifier, part).trainable_variables[0]
    values = variable.numpy()
    values[-1] = np.nan
    variable.assign(values)
    folder = str(tmp_path / "preset")
    with pytest.raises(ValueError, match=f"^preset {folder} is not saved: the model holds nan in .*$"):
        classifier.save_to_preset(folder)
    assert not os.path.exists(folder)


def test_weights_that_unfold(preset):
    folder = preset("lm")
    with h5py.File(os.path.join(folder, "model.weights.h5"), "r+") as file:
        del file["layers/token_embedding/vars/0"]
        file.create_dataset(
            "layers/token_embedding/vars/0", (200, 2**30), "f4", chunks=(1, 1024), compression=9
        )
    checksums.write(folder)
    message = refused(Seq2SeqLM.from_preset, folder)
    assert "model.weights.h5 does not hold all of layers/token_embedding/vars/0 itself" in message


@pytest.mark.parametrize(
    ("name", "where", "asked"),
    [
        ("task.json", ("config", "backbone"), {"registered_name": "other>Thing"}),
        ("task.json", ("config", "preprocessor", "config", "tokenizer"), {"registered_name": "other>Thing"}),
        ("task.json", ("config", "backbone"), {"registered_name": None, "class_name": "TFSMLayer"}),
        ("preprocessor.json", ("config", "tokenizer"), {"registered_name": None, "class_name": "Lambda"}),
        ("config.json", ("config", "dtype"), {"module": "builtins", "class_name": "eval"}),
        (
            "config.json",
            ("config",),
            {"name": {"class_name": "function", "module": "os", "config": "system"}},
        ),
    ],
)
def test_an_object_that_is_not_known_is_not_built(preset, name, where, asked, no_layers):
    folder = preset("classifier")
    path = os.path.join(folder, name)
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    part = config
    for key in where:
        part = part[key]
    part.update(asked)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    checksums.write(folder)
    assert f"preset {folder}: {name} asks for the unknown class " in refused(
        TextClassifier.from_preset, folder
    )


def test_a_list_of_weight_files_stays_in_the_preset(preset):
    folder = preset("lm")
    os.remove(os.path.join(folder, "model.weights.h5"))
    with open(os.path.join(folder, "model.weights.json"), "w", encoding="utf-8") as file:
        json.dump({"weight_map": {"a": "../other/model_00000.weights.h5"}}, file)
    checksums.write(folder)
    message = refused(Seq2SeqLM.from_preset, folder)
    assert "model.weights.json names '../other/model_00000.weights.h5'" in message


def test_weights_in_several_files_are_loaded(lm, tmp_path):
    folder = str(tmp_path / "preset")
    lm.save_to_preset(folder, max_shard_size=2e-5)
    assert os.path.exists(os.path.join(folder, "model.weights.json"))
    loaded = Seq2SeqLM.from_preset(folder)
    for ours, theirs in zip(loaded.weights, lm.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    parts = sorted(name for name in os.listdir(folder) if name.startswith("model_"))
    assert len(parts) > 1
    with open(os.path.join(folder, parts[-1]), "r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"12345678")
    for load in (Seq2SeqLM.from_preset, keras_nlp.models.Seq2SeqLM.from_preset):
        assert f"preset {folder}: {parts[-1]} is not the file that was saved" in refused(load, folder)


@pytest.mark.parametrize("sizes", [(10, 2e-5), (2e-5, 10), (2e-5, 4e-5)])
def test_the_weights_of_an_earlier_save_are_removed(backbone, tmp_path, sizes):
    """Keras prefers one file to several, whichever is newer."""
    folder, own = str(tmp_path / "preset"), tmp_path / "preset" / "model_best.weights.h5"
    for size in sizes:
        model = Seq2SeqBackbone.from_config(backbone.get_config())
        model.save_to_preset(folder, max_shard_size=size)
        own.touch()
    names = set(checksums.files(folder)) - {own.name}
    if sizes[-1] == 10:
        assert names == {"config.json", "metadata.json", "model.weights.h5"}
    else:
        assert "model.weights.h5" not in names
        model.save_to_preset(str(tmp_path / "new"), max_shard_size=sizes[-1])
        assert names == set(checksums.files(tmp_path / "new"))
    assert own.exists()
    loaded = Seq2SeqBackbone.from_preset(folder)
    for ours, theirs in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_missing_layer_is_not_left_random(preset, backbone):
    """Keras passes over it with a warning."""
    folder = preset("lm")
    with h5py.File(os.path.join(folder, "model.weights.h5"), "r+") as file:
        del file["layers/encoder/layers/encoder_layer_1"]
    checksums.write(folder)
    assert "num_layers=2; the weights in model.weights.h5 have 1" in refused(Seq2SeqLM.from_preset, folder)
    refused(keras_nlp.models.Seq2SeqLM.from_preset, folder)


def test_weights_of_the_users_own_are_not_a_preset(backbone, tmp_path):
    """A training run has a config.json too."""
    (tmp_path / "config.json").write_text('{"seed": 0}', encoding="utf-8")
    backbone.save_weights(str(tmp_path / "model.weights.h5"))
    other = Seq2SeqBackbone.from_config(backbone.get_config())
    other.load_weights(str(tmp_path / "model.weights.h5"))
    np.testing.assert_array_equal(other.get_weights()[0], backbone.get_weights()[0])
