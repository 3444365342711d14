"""Presets by name, registered by the function that registers those of the package."""

import os
import pathlib
import re
import shutil
import warnings

import keras_nlp
import numpy as np
import pytest
import tensorflow as tf
from keras_hub.src.utils import preset_utils

from convnlp.models import (
    Seq2SeqBackbone,
    Seq2SeqLM,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
    packed_preset,
    preset_names,
    presets,
)
from convnlp.presets import PRESETS

ENTRY = {"description": "Four words.", "params": 1234}


@pytest.fixture(scope="module")
def saved(saved):
    return saved / "classifier"


@pytest.fixture
def folder(saved, own_presets):
    """The files of the preset `tiny_en`."""
    register(tiny_en=saved)
    return saved


def register(**directories):
    entries = {name: {"metadata": ENTRY, "kaggle_handle": str(path)} for name, path in directories.items()}
    preset_names.register(entries, Seq2SeqBackbone)


@pytest.mark.parametrize(
    "cls",
    [
        TextClassifier,
        Seq2SeqBackbone,
        Seq2SeqLM,
        Tokenizer,
        TextClassifierPreprocessor,
        keras_nlp.models.TextClassifier,
        keras_nlp.models.Backbone,
    ],
)
def test_a_class_lists_the_names_with_their_descriptions(cls, folder):
    assert cls.presets["tiny_en"]["metadata"]["description"] == "Four words."


def test_the_package_lists_its_own():
    assert preset_names.names() == sorted(PRESETS)
    assert sorted(TextClassifier.presets) == sorted(PRESETS)


@pytest.mark.parametrize("cls", [TextClassifier, keras_nlp.models.TextClassifier])
def test_a_name_gives_the_model_in_any_directory(cls, folder, classifier, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    loaded = cls.from_preset("tiny_en")
    assert type(loaded) is TextClassifier
    assert loaded.labels == ["bad", "good"]
    for one, other in zip(loaded.get_weights(), classifier.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert cls.from_preset("tiny_en", num_classes=3, labels=None).num_classes == 3


@pytest.mark.parametrize(
    "cls",
    [
        Seq2SeqBackbone,
        Tokenizer,
        TextClassifierPreprocessor,
        keras_nlp.models.Backbone,
        keras_nlp.models.Tokenizer,
        keras_nlp.models.TextClassifierPreprocessor,
    ],
)
def test_a_name_gives_the_parts(cls, folder):
    assert isinstance(cls.from_preset("tiny_en"), cls)
    assert type(presets.load_any("tiny_en")) is TextClassifier


@pytest.mark.parametrize("cls", [TextClassifier, keras_nlp.models.TextClassifier])
def test_an_encoder_alone_becomes_a_classifier(cls, backbone, tokenizer, own_presets, tmp_path):
    """What ships: no task, no preprocessor, weights of half the bytes."""
    encoder = backbone.encoder_only()
    for part in (encoder, tokenizer):
        part.save_to_preset(str(tmp_path / "saved"))
    packed_preset.pack(str(tmp_path / "saved"), str(tmp_path / "files"))
    register(encoder_en=tmp_path / "files")
    classifier = cls.from_preset("encoder_en", num_classes=3)
    assert type(classifier) is TextClassifier
    assert classifier.predict(["the river", "a garden"], verbose=0).shape == (2, 3)
    for one, other in zip(classifier.backbone.get_weights(), encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other.astype(np.float16))
    with pytest.raises(ValueError, match=r"files: has no task\.json; .* Pass num_classes=N"):
        TextClassifier.from_preset("encoder_en")
    with pytest.raises(ValueError, match="decoder"):
        Seq2SeqLM.from_preset("encoder_en")


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (TextClassifier, "metadata.json"),
        (TextClassifier, "task.weights.h5"),
        (Tokenizer, "assets/tokenizer/vocabulary.spm"),
        (keras_nlp.models.Tokenizer, "assets/tokenizer/vocabulary.spm"),
        (keras_nlp.models.TextClassifierPreprocessor, "preprocessor.json"),
        (keras_nlp.models.Backbone, "model.weights.h5"),
        (keras_nlp.models.TextClassifier, "task.weights.h5"),
    ],
)
def test_the_sums_are_checked(cls, name, saved, own_presets, tmp_path):
    copy = shutil.copytree(saved, tmp_path / "copy")
    register(tiny_en=copy)
    with open(copy / name, "r+b") as file:
        content = file.read()
        file.seek(0)
        # White space of JSON, a letter or a weight of others: nothing that the reader notices itself.
        position = content.index(b" ") if name.endswith(".json") else content.rindex(b"e")
        file.write(content[:position] + (b"\t" if name.endswith(".json") else b"d"))
    with pytest.raises(ValueError, match=f"{re.escape(name)} is not the file that was saved"):
        cls.from_preset("tiny_en")


@pytest.mark.parametrize("load", [TextClassifier.from_preset, Tokenizer.from_preset, presets.load_any])
def test_a_wrong_name_is_one_line_with_the_names(load, folder, saved):
    register(other_en=saved)
    with pytest.raises(ValueError) as error:
        load("tiny_eng")
    assert str(error.value) == (
        "preset tiny_eng: no such directory. Expected one written by `save_to_preset`, "
        f"or one of: {', '.join(sorted([*PRESETS, 'other_en', 'tiny_en']))}"
    )


def test_without_any_name_the_line_ends_there(own_presets):
    preset_names._directories.clear()
    with pytest.raises(ValueError, match=r"Expected one written by `save_to_preset`$"):
        TextClassifier.from_preset("tiny_eng")


def test_a_path_stays_a_path_and_a_name_a_name(folder, lm, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    lm.save_to_preset("tiny_en")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for path in ("./tiny_en", str(tmp_path / "tiny_en"), tmp_path / "tiny_en", "tiny_en/"):
            assert type(presets.load_any(path)) is Seq2SeqLM
        assert preset_names.locate("hf://tiny_en") == "hf://tiny_en"
    with pytest.warns(UserWarning, match=r"preset tiny_en: the one that ships .* path is \./tiny_en"):
        assert type(presets.load_any("tiny_en")) is TextClassifier


def test_a_directory_behind_a_url_is_copied_once_and_checked(saved):
    url, damaged = "ram://preset_names/tiny_en", "ram://preset_names/damaged"
    with pytest.raises(ValueError, match=r"no such directory"):
        preset_names.locate(url)  # before it is written, which is not remembered
    for target in (url, damaged):
        for path in saved.rglob("*"):
            if path.is_file():
                remote = f"{target}/{path.relative_to(saved)}"
                tf.io.gfile.makedirs(os.path.dirname(remote))
                tf.io.gfile.copy(str(path), remote)
    copied = preset_names.locate(url)
    assert preset_names.locate(url) == copied
    names = {str(path.relative_to(saved)) for path in saved.rglob("*")}
    assert names == {str(path.relative_to(copied)) for path in pathlib.Path(copied).rglob("*")}
    assert type(presets.load_any(url)) is TextClassifier
    assert TextClassifier.from_preset(url).num_classes == 2
    with tf.io.gfile.GFile(f"{damaged}/model.weights.h5", "wb") as file:
        file.write(b"damaged")
    with pytest.raises(ValueError, match=r"^preset .*ram/preset_names/damaged.*model\.weights\.h5"):
        TextClassifier.from_preset(damaged)
    with pytest.raises(ValueError, match=r"^preset ram://preset_names: no such directory"):
        preset_names.locate("ram://preset_names")  # all of it would have been copied
    assert preset_names._parts("gs://b/../../a//c.json") == ["gs", "b", "a", "c.json"]
    with pytest.raises(ValueError, match=r"^preset ram://preset_names/none: no such directory"):
        TextClassifier.from_preset("ram://preset_names/none")


def test_a_file_that_is_listed_twice_is_copied(saved, monkeypatch):
    walk = tf.io.gfile.walk
    monkeypatch.setattr(
        tf.io.gfile, "walk", lambda url: [(folder, below, 2 * names) for folder, below, names in walk(url)]
    )
    assert TextClassifier.from_preset(f"file://{saved}").num_classes == 2


def test_a_path_object_is_a_path(folder):
    assert TextClassifier.from_preset(folder).num_classes == 2


def test_a_name_without_files_is_not_listed(own_presets, tmp_path):
    (tmp_path / "empty").mkdir()
    register(empty_en=tmp_path / "empty", gone_en=tmp_path / "gone")
    assert "empty_en" not in TextClassifier.presets
    assert not {"empty_en", "gone_en"} & {*preset_names.names(), *preset_utils.BUILTIN_PRESETS}


@pytest.mark.parametrize("name", ["", "a/tiny_en", "hf://tiny_en", ".."])
def test_a_name_is_no_path(name, saved, own_presets):
    with pytest.raises(ValueError, match=f"must have names, not paths. Received: '{name}'"):
        register(**{name: saved})


def test_a_name_of_keras_nlps_is_refused(saved, own_presets):
    with pytest.raises(ValueError, match=r"keras_nlp has not taken. Received: 'bert_tiny_en_uncased'"):
        register(bert_tiny_en_uncased=saved)
    assert preset_utils.BUILTIN_PRESETS["bert_tiny_en_uncased"]["kaggle_handle"].startswith("kaggle://")
    register(tiny_en=saved)
    register(tiny_en=saved)  # as in a notebook
    assert os.path.samefile(preset_names.locate("tiny_en"), saved)
