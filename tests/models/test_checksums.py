"""A preset carries the sums of its files: what was changed on the way is refused, whoever loads it."""

import hashlib
import os
import pathlib
import re
import shutil
import warnings

import keras_nlp
import pytest

from convnlp.models import (
    Seq2SeqBackbone,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
    checksums,
    model_card,
)
from convnlp.runs import run_preset

FILES = (
    "assets/tokenizer/vocabulary.spm",
    "config.json",
    "metadata.json",
    "model.weights.h5",
    "preprocessor.json",
    "task.json",
    "task.weights.h5",
    "tokenizer.json",
)


@pytest.fixture(scope="module")
def saved(saved):
    return saved / "classifier"


@pytest.fixture
def preset(saved, tmp_path):
    return str(shutil.copytree(saved, tmp_path / "preset"))


def flip(path):
    """Changes one byte where no reader notices it: white space of JSON, a letter or a weight of others."""
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        if str(path).endswith(".json"):
            content[content.index(b" ")] = ord("\t")
        else:
            content[max(match.start() for match in re.finditer(rb"[0-9a-z]", bytes(content)))] ^= 1
        file.seek(0)
        file.write(content)


def listed(folder):
    with open(os.path.join(folder, "SHA256SUMS"), encoding="utf-8") as file:
        return dict(reversed(line.split("  ")) for line in file.read().splitlines())


def test_every_file_has_its_sum_as_sha256sum_writes_it(saved):
    sums = listed(saved)
    assert tuple(sums) == FILES
    for name, value in sums.items():
        assert hashlib.sha256((saved / name).read_bytes()).hexdigest() == value
    checksums.check(str(saved))


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_refused_before_anything_is_built(preset, name, monkeypatch):
    flip(os.path.join(preset, name))
    monkeypatch.setattr("convnlp.models.backbone_layers.Encoder", None)
    with pytest.raises(ValueError) as error:
        TextClassifier.from_preset(preset)
    message = str(error.value)
    assert message.startswith(f"preset {preset}: {name} ")
    assert "\n" not in message


@pytest.mark.parametrize("name", FILES)
def test_keras_nlp_refuses_it_too(preset, name):
    flip(os.path.join(preset, name))
    with pytest.raises(ValueError, match=f"preset {preset}: {name} is not the file that was saved"):
        keras_nlp.models.TextClassifier.from_preset(preset)


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (Tokenizer, "tokenizer.json"),
        (Tokenizer, "assets/tokenizer/vocabulary.spm"),
        (keras_nlp.models.Tokenizer, "assets/tokenizer/vocabulary.spm"),
        (TextClassifierPreprocessor, "preprocessor.json"),
        (keras_nlp.models.TextClassifierPreprocessor, "preprocessor.json"),
        (Seq2SeqBackbone, "model.weights.h5"),
        (keras_nlp.models.Backbone, "model.weights.h5"),
    ],
)
def test_the_parts_of_a_preset_are_checked_alone(preset, cls, name):
    assert cls.from_preset(preset) is not None
    flip(os.path.join(preset, name))
    with pytest.raises(ValueError, match=f"{name} is not the file that was saved"):
        cls.from_preset(preset)


def test_a_file_that_is_missing_or_was_put_there(preset, saved):
    os.remove(os.path.join(preset, "metadata.json"))
    with pytest.raises(ValueError, match=r"metadata\.json is missing, and SHA256SUMS has its sum"):
        TextClassifier.from_preset(preset)
    shutil.copy(saved / "metadata.json", preset)
    shutil.copy(saved / "task.weights.h5", os.path.join(preset, "model_00000.weights.h5"))
    with pytest.raises(ValueError, match=r"model_00000\.weights\.h5 has no sum in SHA256SUMS"):
        TextClassifier.from_preset(preset)


@pytest.mark.parametrize("name", ["experiment.json", "README.md"])
def test_what_no_model_is_built_from_may_be_added(preset, name):
    with open(os.path.join(preset, name), "w", encoding="utf-8") as file:
        file.write("{}")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert TextClassifier.from_preset(preset).num_classes == 2
    checksums.write(preset)
    with open(os.path.join(preset, name), "w", encoding="utf-8") as file:
        file.write("[]")
    if name == "experiment.json":  # one with a sum is held to it
        with pytest.raises(ValueError, match=r"experiment\.json is not the file that was saved"):
            TextClassifier.from_preset(preset)


def test_other_files_belong_to_the_user(preset):
    with open(os.path.join(preset, "notes.txt"), "w", encoding="utf-8") as file:
        file.write("mine")
    assert TextClassifier.from_preset(preset).num_classes == 2


def test_an_edited_card_is_a_warning_until_its_sum_is_taken_anew(preset):
    model_card.write(preset, {"title": "mine"})
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        TextClassifier.from_preset(preset)
    with open(os.path.join(preset, "README.md"), "a", encoding="utf-8") as file:
        file.write("More about it.\n")
    with pytest.warns(UserWarning, match=r"README\.md is not the file that was saved.*checksums\.write\("):
        TextClassifier.from_preset(preset)
    checksums.write(preset)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        TextClassifier.from_preset(preset)
        os.remove(os.path.join(preset, "README.md"))
        TextClassifier.from_preset(preset)


def test_a_new_card_does_not_bless_what_was_changed_before(preset):
    flip(os.path.join(preset, "model.weights.h5"))
    model_card.write(preset, {"title": "mine"})
    with pytest.raises(ValueError, match=r"model\.weights\.h5 is not the file that was saved"):
        TextClassifier.from_preset(preset)


@pytest.mark.parametrize(
    "content", [b"", b"nothing of the kind", b"\xff\xfe", b"0" * 64 + b"  ../config.json\n"]
)
def test_sums_that_are_none(preset, content):
    with open(os.path.join(preset, "SHA256SUMS"), "wb") as file:
        file.write(content)
    with pytest.raises(ValueError, match=rf"^preset {preset}: .*SHA256SUMS[^\n]*$"):
        TextClassifier.from_preset(preset)


def test_a_preset_from_before_there_were_sums(preset):
    os.remove(os.path.join(preset, "SHA256SUMS"))
    assert TextClassifier.from_preset(preset).num_classes == 2


def test_the_preset_of_a_run_has_the_sums_of_all_that_is_in_it(backbone, tokenizer, tmp_path):
    (tmp_path / "config.json").write_text('{"seed": 0}', encoding="utf-8")
    run_preset.save(backbone.encoder_only(), tmp_path, {"title": "mine"}, tokenizer)
    names = [str(p.relative_to(tmp_path / "preset")) for p in (tmp_path / "preset").rglob("*") if p.is_file()]
    assert {"README.md", "experiment.json", "tokenizer.json"} < set(listed(tmp_path / "preset"))
    assert sorted(listed(tmp_path / "preset")) == sorted({*names} - {"SHA256SUMS"})
    checksums.check(str(tmp_path / "preset"))
    flip(tmp_path / "preset" / "experiment.json")
    with pytest.raises(ValueError, match=r"experiment\.json is not the file that was saved"):
        Seq2SeqBackbone.from_preset(str(tmp_path / "preset"))


def test_a_preset_that_is_saved_again_has_new_sums(classifier, lm, preset):
    lm.save_to_preset(preset)
    checksums.check(preset)
    assert (
        listed(preset)["task.json"]
        == hashlib.sha256(pathlib.Path(preset, "task.json").read_bytes()).hexdigest()
    )
