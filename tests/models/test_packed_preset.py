"""What `convnlp.pack_preset` writes: half the bytes, nothing of the machine, and it loads everywhere."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import h5py
import keras
import keras_nlp
import numpy as np
import pytest

from convnlp.models import (
    Seq2SeqBackbone,
    TextClassifier,
    Tokenizer,
    checksums,
    model_card,
    packed_preset,
    preset_weights,
    presets,
)
from tests.run_program import ROOT, run_program
from tests.small_classifier import small_classifier

TEXTS = ["the river follows", "a quiet garden", "the old engine"]
EXPERIMENT = {
    "data": {"source": "jsonl:/data/my news/*.{split}.jsonl.gz", "data_dir": "", "input_length": 16},
    "init_from": "/srv/someone/runs/pretrained/preset",
    "inputs": {"data.source": {"/data/a/x.jsonl": {"bytes": 3}, "/data/b/x.jsonl": {"bytes": 4}}},
    "history": [{"step": 3, "from": "/data/old.model"}],
}


@pytest.fixture(scope="module")
def trained():
    classifier = small_classifier(["dynamic_conv"], 16, ["bad", "good"])
    classifier.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    classifier.fit(TEXTS, [0, 1, 0], verbose=0)
    return classifier


@pytest.fixture(scope="module")
def saved(trained, tmp_path_factory):
    """A preset as a run leaves it, with the folders of its machine in it and a file of the user's."""
    folder = tmp_path_factory.mktemp("packed") / "preset"
    with presets.saving(str(folder)):
        trained.save_to_preset(str(folder))
        (folder / "experiment.json").write_text(json.dumps(EXPERIMENT), encoding="utf-8")
        command = (
            f"python -m convnlp.finetune --config.data.source='jsonl:{folder}/x.jsonl' --workdir=/a/runs/b"
        )
        model_card.write(str(folder), {"trained_on": f"jsonl:{folder}/x.jsonl train", "command": command})
    (folder / "notes.txt").write_text("mine")
    return folder


@pytest.fixture(scope="module")
def packed(saved, tmp_path_factory):
    output = tmp_path_factory.mktemp("packed") / "new" / "tiny_en"
    facts = packed_preset.pack(str(saved), str(output))
    return output, facts


def weights(folder, name):
    found = {}

    def visit(key, item):
        if isinstance(item, h5py.Dataset):
            found[key] = item[()]

    with h5py.File(folder / name, "r") as file:
        file.visititems(visit)
    return found


@pytest.mark.parametrize("name", [preset_weights.WEIGHTS, preset_weights.TASK_WEIGHTS])
def test_every_float_is_stored_in_half_its_bytes(saved, packed, name):
    old, new = weights(saved, name), weights(packed[0], name)
    assert any(key.startswith("optimizer/") for key in weights(saved, preset_weights.TASK_WEIGHTS))
    assert {*new} == {key for key in old if not key.startswith("optimizer/")}
    for key, value in new.items():
        assert value.dtype == np.float16
        np.testing.assert_array_equal(value, old[key].astype(np.float16))
        error = np.abs(value.astype(np.float64) - old[key])
        assert (error <= np.maximum(2.0**-11 * np.abs(old[key]), 2.0**-25)).all()
    assert packed[1]["largest_change"] >= max(
        np.abs(value.astype(np.float64) - old[key]).max() for key, value in new.items()
    )


def test_the_facts(trained, saved, packed):
    output, facts = packed
    assert facts["num_weights"] == trained.count_params()
    assert 0 < facts["largest_change"] < 2**-11
    assert facts["bytes"] == sum((output / name).stat().st_size for name in checksums.files(output))
    assert facts["bytes"] < facts["bytes_before"]
    assert preset_weights.stored_in(saved) == "float32"
    assert preset_weights.stored_in(output) == "float16"


def test_the_preset_stays_as_it_was_and_the_sums_are_new(saved, packed):
    checksums.check(str(saved))
    checksums.check(str(packed[0]))
    on_disk = {path.relative_to(packed[0]).as_posix() for path in packed[0].rglob("*") if path.is_file()}
    assert on_disk == {*checksums.files(packed[0]), checksums.FILE}
    assert (saved / "notes.txt").is_file()


@pytest.mark.parametrize("cls", [TextClassifier, keras_nlp.models.TextClassifier])
def test_a_classifier_computes_nearly_the_same(cls, trained, packed):
    loaded = cls.from_preset(str(packed[0]))
    assert loaded.backbone.token_embedding.embeddings.dtype == "float32"
    for one, other in zip(loaded.get_weights(), trained.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other.astype(np.float16).astype(np.float32))
    np.testing.assert_allclose(
        loaded.predict(TEXTS, verbose=0), trained.predict(TEXTS, verbose=0), rtol=0, atol=0.02
    )


def test_the_other_ways_to_load_it(packed):
    folder = str(packed[0])
    assert Seq2SeqBackbone.from_preset(folder, dtype="mixed_bfloat16").compute_dtype == "bfloat16"
    assert type(keras_nlp.models.Backbone.from_preset(folder)) is Seq2SeqBackbone
    assert Tokenizer.from_preset(folder).vocabulary_size() == 200
    classifier = TextClassifier.from_preset(folder, num_classes=3)
    classifier.compile()
    history = classifier.fit(TEXTS, [0, 1, 2], verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def test_a_changed_weight_is_noticed(packed, tmp_path):
    folder = shutil.copytree(packed[0], tmp_path / "copy")
    with h5py.File(folder / "model.weights.h5", "r+") as file:
        file["layers/token_embedding/vars/0"][3, 3] = 1.0
    with pytest.raises(ValueError, match=r"model\.weights\.h5 is not the file that was saved"):
        keras_nlp.models.TextClassifier.from_preset(str(folder))
    with h5py.File(folder / "model.weights.h5", "r+") as file:
        file["layers/token_embedding/vars/0"][3, 3] = np.nan
    checksums.write(str(folder))
    with pytest.raises(ValueError, match=r"model\.weights\.h5 holds nan"):
        TextClassifier.from_preset(str(folder))


def test_no_folder_of_the_machine_is_left(saved, packed):
    for name in ("experiment.json", "README.md", "metadata.json"):
        text = (packed[0] / name).read_text(encoding="utf-8")
        for folder in (str(saved.parent), "/data", "/srv", "/a/", "my news"):
            assert folder not in text, name
    assert json.loads((packed[0] / "experiment.json").read_text(encoding="utf-8")) == {
        "data": {"source": "jsonl:*.{split}.jsonl.gz", "data_dir": "", "input_length": 16},
        "init_from": "preset",
        "inputs": {"data.source": {"x.jsonl": {"bytes": 3}, "x.jsonl (2)": {"bytes": 4}}},
        "history": [{"step": 3, "from": "old.model"}],
    }
    card = (packed[0] / "README.md").read_text(encoding="utf-8")
    assert "# tiny_en\n" in card
    assert 'from_preset("tiny_en")' in card
    assert "python -m convnlp.finetune --config.data.source='jsonl:x.jsonl' --workdir=b\n" in card


@pytest.mark.parametrize(
    "text",
    [
        "https://arxiv.org/abs/2105.03322",
        "tfds:glue/sst2",
        "jsonl:data/*.jsonl",
        "a/b and 1/2 </s> or <a/>",
        "gs://bucket/runs/a",
    ],
)
def test_what_is_no_path_of_a_machine_stays(text):
    assert packed_preset.without_folders(text) == text


def test_the_card_says_how_the_weights_are_stored(saved, packed, tmp_path):
    said = " The weights are stored in float16."
    assert said not in (saved / "README.md").read_text(encoding="utf-8")
    folder = str(shutil.copytree(packed[0], tmp_path / "copy"))
    assert said in pathlib.Path(model_card.write(folder, {})).read_text(encoding="utf-8")


def test_the_same_preset_gives_the_same_bytes(saved, packed, tmp_path):
    packed_preset.pack(str(saved), str(tmp_path / "tiny_en"))
    assert (tmp_path / "tiny_en" / checksums.FILE).read_bytes() == (packed[0] / checksums.FILE).read_bytes()


def test_an_encoder_alone(backbone, tokenizer, tmp_path):
    for part in (backbone.encoder_only(), tokenizer):
        part.save_to_preset(str(tmp_path / "encoder"))
    packed_preset.pack(str(tmp_path / "encoder"), str(tmp_path / "packed"))
    assert TextClassifier.from_preset(str(tmp_path / "packed"), num_classes=2).num_classes == 2


@pytest.mark.parametrize(
    ("value", "dtype"), [(65520.0, "float16"), (-1e6, "float16"), (65519.0, None), (1e6, "float32")]
)
def test_a_weight_that_does_not_fit_is_refused(saved, tmp_path, value, dtype):
    folder = shutil.copytree(saved, tmp_path / "preset")
    with h5py.File(folder / "model.weights.h5", "r+") as file:
        file["layers/encoder/final_norm/vars/1"][2] = value
    checksums.write(str(folder))
    if dtype != "float16":
        packed_preset.pack(str(folder), str(tmp_path / "packed"), dtype or "float16")
        return
    with pytest.raises(ValueError) as error:
        packed_preset.pack(str(folder), str(tmp_path / "packed"))
    assert str(error.value).startswith(
        "`dtype` must have room for all weights. Received: dtype=float16, layers/"
    )
    assert str(error.value).endswith(f"holds {value:g}")
    assert os.listdir(tmp_path) == ["preset"]


def test_what_was_left_by_a_killed_process_of_the_same_number_is_in_nobody_s_way(saved, tmp_path):
    left = tmp_path / f"packed.{os.getpid()}.partial"
    left.mkdir()
    packed_preset.pack(str(saved), str(tmp_path / "packed"))
    assert sorted(os.listdir(tmp_path)) == ["packed", left.name]


def test_what_cannot_be_packed(saved, tmp_path):
    with pytest.raises(
        ValueError, match=r"`output` must be a new directory. Received: output=.*which exists"
    ):
        packed_preset.pack(str(saved), str(tmp_path))
    with pytest.raises(ValueError, match=r"`dtype` must be one of float16, float32. Received: dtype='int8'"):
        packed_preset.pack(str(saved), str(tmp_path / "packed"), "int8")
    with pytest.raises(ValueError, match=r"`output` must be a path on this machine.* output=gs://b/packed$"):
        packed_preset.pack(str(saved), "gs://b/packed")
    with pytest.raises(ValueError, match="no such directory"):
        packed_preset.pack(str(tmp_path / "none"), str(tmp_path / "packed"))
    folder = shutil.copytree(saved, tmp_path / "preset")
    with open(folder / "model.weights.h5", "r+b") as file:
        file.truncate(3000)
    with pytest.raises(ValueError, match=r"model\.weights\.h5 is not the file that was saved"):
        packed_preset.pack(str(folder), str(tmp_path / "packed"))
    (folder / checksums.FILE).unlink()
    with pytest.raises(ValueError, match=r"model\.weights\.h5 is damaged"):
        packed_preset.pack(str(folder), str(tmp_path / "packed"))
    shutil.copy(saved / "model.weights.h5", folder)
    (folder / "task.weights.h5").unlink()  # which only the model notices
    with pytest.raises(ValueError, match=r"task\.weights\.h5 is missing"):
        packed_preset.pack(str(folder), str(tmp_path / "packed"))
    assert os.listdir(tmp_path) == ["preset"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "`--card` must be a JSON file. Received: .*card.json "),
        ("[" * 100_000, "`--card` must be a JSON file. Received: .*card.json "),
        (None, "`--card` must be a JSON file. Received: .*card.json .*Is a directory"),
        ("[]", "`--card` must hold a JSON object. Received: .*card.json, a list"),
        ('{"acuracy": 1}', "Received also: acuracy"),
        ('{"sources": [{"name": "c4"}]}', "`sources` must have the keys name and licence"),
    ],
)
def test_entries_of_a_card_that_are_none(tmp_path, content, message):
    path = tmp_path / "card.json"
    path.mkdir() if content is None else path.write_text(content)
    with pytest.raises(ValueError, match=message):
        model_card.read_entries(str(tmp_path / "card.json"))


@pytest.mark.multiprocess
def test_program(saved, tmp_path):
    (tmp_path / "card.json").write_text(json.dumps({"weaknesses": ["It is tiny."], "use": "import convnlp"}))
    flags = [f"--preset={saved}", f"--output={tmp_path}/packed", f"--card={tmp_path}/card.json"]
    done = run_program("convnlp.pack_preset", *flags)
    assert done.returncode == 0, done.stderr
    card = (tmp_path / "packed" / "README.md").read_text(encoding="utf-8")
    assert "\n# packed\n" in card
    assert "- It is tiny.\n" in card
    assert card.endswith("## Use\n\n```python\nimport convnlp\n```\n")
    first, second = done.stdout.splitlines()
    assert first.startswith(f"{tmp_path}/packed: ")
    assert second.startswith("largest change of ")
    checksums.check(str(tmp_path / "packed"))


@pytest.mark.multiprocess
def test_nothing_is_left_of_a_program_that_is_stopped(saved, tmp_path):
    command = [
        sys.executable,
        "-m",
        "convnlp.pack_preset",
        f"--preset={saved}",
        f"--output={tmp_path}/packed",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not list(tmp_path.iterdir()) and process.poll() is None:
            time.sleep(0.001)
        process.terminate()
        assert process.wait(60) == 143
    assert list(tmp_path.iterdir()) == []
