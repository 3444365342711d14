"""Presets made to run code, to read other files, or to take all memory: each is refused in one line.

An audit hook sees programs that are started, sockets, and unpickled classes. What must not be read is there
and would fit, so that only a refusal keeps it from being loaded.
"""

import base64
import contextlib
import json
import os
import pickle
import re
import shutil
import sys

import h5py
import keras
import keras_nlp
import numpy as np
import pytest

from convnlp.models import (
    Seq2SeqBackbone,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
    checksums,
    packed_preset,
)
from convnlp.models.preset_weights import WEIGHTS

VOCABULARY = "assets/tokenizer/vocabulary.spm"
EVENTS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class", "socket.connect")
_seen = None  # what the hook has seen since a test began to watch


def _hook(event, arguments):
    if _seen is not None and event in EVENTS:
        _seen.append((event, str(arguments[:1])))


@pytest.fixture(scope="module", autouse=True)
def _hooked():
    sys.addaudithook(_hook)  # for the rest of the process: there is no way to take one off


@pytest.fixture
def watched():
    """The events of a test, a list."""
    global _seen
    _seen = []
    yield _seen
    _seen = None


@pytest.fixture(scope="module")
def saved(tokenizer, tmp_path_factory):
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 1, 8, 8, num_decoder_layers=0, kernel_size=3)
    classifier = TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 8), ngram_buckets=8)
    folder = tmp_path_factory.mktemp("saved") / "preset"
    classifier.save_to_preset(str(folder))
    return folder


@pytest.fixture
def preset(saved, tmp_path):
    shutil.copy(saved / VOCABULARY, tmp_path / "secret.spm")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.zeros([200, 8], "f4")
    return shutil.copytree(saved, tmp_path / "preset")


class RunsACommand:
    """What a pickle that was made to run a command is made of."""

    def __reduce__(self):
        return os.system, ("touch pwned",)


def edit(*where, **changes):
    """A change of a JSON file: `edit("task.json", "config", "backbone", a=1)`."""
    name, *keys = where

    def change(folder):
        content = json.loads((folder / name).read_text())
        part = content
        for key in keys:
            part = part[key]
        part.update(changes)
        (folder / name).write_text(json.dumps(content))

    return change


def content(name, data):
    return lambda folder: (folder / name).write_bytes(data(folder) if callable(data) else data)


def in_weights(function):
    def change(folder):
        with h5py.File(folder / WEIGHTS, "r+") as file:
            del file["layers/token_embedding/vars/0"]
            function(file, folder)

    return change


def external(file, folder):
    secret = [(str(folder.parent / "secret.h5"), 0, 6400)]
    file.create_dataset("layers/token_embedding/vars/0", (200, 8), "f4", external=secret)


def virtual(file, folder):
    layout = h5py.VirtualLayout((200, 8), "f4")
    layout[:] = h5py.VirtualSource(str(folder.parent / "secret.h5"), "x", (200, 8))
    file.create_virtual_dataset("layers/token_embedding/vars/0", layout)


def linked(file, folder):
    file["layers/token_embedding/vars/0"] = h5py.ExternalLink(str(folder.parent / "secret.h5"), "x")


def soft_linked(file, folder):
    file["elsewhere"] = np.zeros([200, 8], "f4")
    file["layers/token_embedding/vars/0"] = h5py.SoftLink("/elsewhere")


def unfolding(file, folder):
    file.create_dataset("layers/token_embedding/vars/0", (200, 2**40), "f4", chunks=(1, 2**16), compression=9)


def of_any_length(file, folder):
    file.create_dataset("layers/token_embedding/vars/0", (200, 8), h5py.vlen_dtype(np.float32))


def link(name):
    """Moves a file out of the directory, with a link in its place."""

    def change(folder):
        shutil.move(folder / name, folder.parent / "moved")
        os.symlink(folder.parent / "moved", folder / name)

    return change


def large(name, size=2**33):
    """A file of many gigabytes, of which the disk holds none."""

    def change(folder):
        with open(folder / name, "r+b") as file:
            file.truncate(size)

    return change


LAMBDA = {
    "class_name": "Lambda",
    "module": "keras.layers",
    "config": {
        "function": {
            "class_name": "__lambda__",
            "config": {"value": [base64.b64encode(b"x").decode(), None, None]},
        }
    },
}
SYSTEM = {"class_name": "function", "module": "os", "config": "system", "registered_name": "system"}
BYTE_PAIR = {
    "class_name": "BytePairTokenizer",
    "module": "keras_hub.src.tokenizers.byte_pair_tokenizer",
    "registered_name": "keras_hub>BytePairTokenizer",
}
TOKENIZER_OF_TASK = ("task.json", "config", "preprocessor", "config", "tokenizer")
CODE = {
    "a Lambda layer": edit("config.json", "config", dtype=LAMBDA),
    "a lambda": edit("task.json", "config", labels=LAMBDA["config"]["function"]),
    "a function of os": edit("task.json", "config", labels=SYSTEM),
    "a builtin": edit(
        "config.json", "config", activation={"class_name": "function", "module": "builtins", "config": "exec"}
    ),
    "a SavedModel": edit(
        "task.json", "config", backbone={"class_name": "TFSMLayer", "config": {"filepath": "x"}}
    ),
    "a type of TensorFlow": edit("config.json", "config", name={"class_name": "__typespec__", "config": []}),
    "an array without end": edit(
        "config.json", "config", name={"class_name": "__numpy__", "config": {"value": [1] * 9, "dtype": "f8"}}
    ),
    "a layer of another module": edit(
        "preprocessor.json", "config", tokenizer={"class_name": "system", "module": "os", "config": {}}
    ),
    "a name that is not registered": edit(
        "tokenizer.json", registered_name="os>system", module="os", class_name="system"
    ),
    "a loss when it is compiled": edit("task.json", compile_config={"loss": SYSTEM}),
    "a Lambda where it is built": edit("task.json", build_config={"layer": LAMBDA}),
    "a tokenizer of keras_nlp": edit(*TOKENIZER_OF_TASK, **BYTE_PAIR),
    "a pickle as vocabulary": content(VOCABULARY, pickle.dumps(RunsACommand())),
    "a pickle as configuration": content("config.json", pickle.dumps(RunsACommand())),
    "a pickle as weights": content(WEIGHTS, pickle.dumps(RunsACommand())),
    "YAML that calls": content("config.json", b"!!python/object/apply:os.system ['touch pwned']"),
}
READS = {
    "a vocabulary elsewhere": lambda folder: edit(
        "tokenizer.json", "config", proto=str(folder.parent / "secret.spm")
    )(folder),
    "one of the task": lambda folder: edit(
        *TOKENIZER_OF_TASK, "config", proto=str(folder.parent / "secret.spm")
    )(folder),
    "external weights": in_weights(external),
    "virtual weights": in_weights(virtual),
    "weights of another file": in_weights(linked),
    "weights of another name": in_weights(soft_linked),
    "an index that leads out": lambda folder: [
        (folder / WEIGHTS).unlink(),
        (folder / "model.weights.json").write_text(json.dumps({"weight_map": {"a": "../preset.weights.h5"}})),
    ],
}
LINKED = ("config.json", "task.json", "tokenizer.json", VOCABULARY, "assets", WEIGHTS, "task.weights.h5")
LARGE = {
    "weights that unfold": in_weights(unfolding),
    "weights of any length": in_weights(of_any_length),
    "n-grams without end": edit("task.json", "config", ngram_buckets=10**13),
    "n-grams without a width": edit("task.json", "config", ngram_dim=10**13),
    "a head without end": edit("task.json", "config", num_classes=10**13),
    "a configuration of gigabytes": large("config.json"),
    "a vocabulary of gigabytes": large(VOCABULARY),
    "a configuration without a bottom": content("config.json", b'{"a":' * 10**5 + b"1" + b"}" * 10**5),
    "one that JSON can just read": content(
        "task.json",
        lambda folder: (
            (folder / "task.json")
            .read_bytes()
            .replace(b'"labels": null', b'"labels": ' + b"[" * 900 + b"]" * 900)
        ),
    ),
    "a number of a million digits": content(
        "config.json",
        lambda folder: (
            (folder / "config.json").read_bytes().replace(b'"dropout": 0.1', b'"dropout": ' + b"9" * 10**6)
        ),
    ),
}
HOSTILE = {**CODE, **READS, **LARGE}


def refused(load, folder):
    with pytest.raises(ValueError) as error:
        load(str(folder))
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 2000
    return message


def test_the_hook_sees_what_it_is_to_see(watched, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(RunsACommand()))
    assert {event for event, _ in watched} == {"pickle.find_class", "os.system"}
    assert (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_preset_is_refused(preset, name, watched, monkeypatch):
    """With sums that fit: whoever makes such a preset writes them too."""
    monkeypatch.chdir(preset.parent)
    HOSTILE[name](preset)
    if not name.endswith("of gigabytes"):  # whose sums take a minute
        checksums.write(str(preset))
    else:
        (preset / checksums.FILE).unlink()
    message = refused(TextClassifier.from_preset, preset)
    assert message.startswith(f"preset {preset}: ")
    assert watched == []
    assert not (preset.parent / "pwned").exists()


@pytest.mark.parametrize("name", {**CODE, **READS})
def test_keras_nlp_runs_and_reads_nothing_of_it_either(preset, name, watched, monkeypatch):
    """It may find out late that it cannot load it, or pass over what it does not know."""
    monkeypatch.chdir(preset.parent)
    HOSTILE[name](preset)
    checksums.write(str(preset))
    with contextlib.suppress(Exception):
        keras_nlp.models.TextClassifier.from_preset(str(preset))
    assert watched == []
    assert not (preset.parent / "pwned").exists()


@pytest.mark.parametrize("where", ["preset", "config"])
def test_a_tokenizer_reads_no_vocabulary_that_its_configuration_names(preset, where):
    HOSTILE["a vocabulary elsewhere"](preset)
    checksums.write(str(preset))
    if where == "preset":
        assert "names another vocabulary than" in refused(Tokenizer.from_preset, preset)
        with pytest.raises(
            ValueError, match=r"`proto` must be None in a saved configuration. Received: proto=.*spm"
        ):
            keras_nlp.models.Tokenizer.from_preset(str(preset))
    else:
        config = json.loads((preset / "tokenizer.json").read_text())
        with pytest.raises(ValueError, match="`proto` must be None"):
            keras.saving.deserialize_keras_object(config)


@pytest.mark.parametrize("name", LINKED)
def test_a_link_out_of_a_preset_without_sums_is_not_followed(preset, name):
    link(name)(preset)
    (preset / checksums.FILE).unlink()
    for load in (TextClassifier.from_preset, lambda folder: packed_preset.pack(folder, f"{folder}_packed")):
        message = refused(load, preset)
        assert re.match(f"preset {preset}: {name}.* is a link out of it, and there is no SHA256SUMS", message)


@pytest.mark.parametrize("name", [WEIGHTS, VOCABULARY])
def test_a_link_to_a_file_with_the_right_sum_is_followed(preset, name):
    """Caches keep the files of a preset elsewhere, under their sums."""
    link(name)(preset)
    checksums.check(str(preset))


def test_the_sums_are_compared_before_a_file_of_weights_is_opened(preset, monkeypatch):
    for name in (WEIGHTS, "task.weights.h5"):
        with open(preset / name, "ab") as file:
            file.write(b"\0")
    monkeypatch.setattr(h5py, "File", None)
    assert "is not the file that was saved" in refused(TextClassifier.from_preset, preset)
