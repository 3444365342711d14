import json
import os
import shutil
import subprocess
import sys

import keras_nlp
import numpy as np
import pytest
import tensorflow as tf

from convnlp.models import (
    Seq2SeqBackbone,
    Seq2SeqLM,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
    checksums,
    presets,
)
from tests.run_program import ROOT, run_code

TEXTS = ["the river follows", "a </s> <extra_id_0> 😀", ""]


@pytest.fixture
def preset(saved, tmp_path):
    """A copy to damage; without sums, as one of version 0.1."""

    def copy(name, sums=False):
        folder = shutil.copytree(saved / name, tmp_path / name)
        if not sums:
            (folder / checksums.FILE).unlink()
        return str(folder)

    return copy


LOAD = """
import sys, keras_nlp, numpy as np
import convnlp
folder, texts, output = sys.argv[1], eval(sys.argv[2]), sys.argv[3]
classifier = keras_nlp.models.TextClassifier.from_preset(folder + "/classifier")
lm = keras_nlp.models.Seq2SeqLM.from_preset(folder + "/lm")
backbone = keras_nlp.models.Backbone.from_preset(folder + "/backbone")
assert type(classifier) is convnlp.models.TextClassifier, type(classifier)
assert type(lm) is convnlp.models.Seq2SeqLM, type(lm)
assert type(backbone) is convnlp.models.Seq2SeqBackbone, type(backbone)
assert classifier.labels == ["bad", "good"] and not classifier.compiled
rows = lm.preprocessor({"encoder_text": texts, "decoder_text": texts})[0]
np.savez(output,
    scores=classifier(classifier.preprocessor(texts)), predicted=classifier.predict(texts, verbose=0),
    text=lm.generate(texts), logits=lm(rows), encoded=backbone(rows)["encoder_sequence_output"])
"""


@pytest.mark.multiprocess
def test_a_fresh_process_gives_our_classes_and_the_same_bits(saved, classifier, lm, backbone, tmp_path):
    lm.compile(sampler="greedy")  # what a loaded one has, whatever other tests left
    done = run_code(LOAD, saved, TEXTS, tmp_path / "outputs.npz")
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = np.load(tmp_path / "outputs.npz")
    rows = lm.preprocessor({"encoder_text": TEXTS, "decoder_text": TEXTS})[0]
    np.testing.assert_array_equal(outputs["scores"], classifier(classifier.preprocessor(TEXTS)))
    np.testing.assert_array_equal(outputs["predicted"], classifier.predict(TEXTS, verbose=0))
    np.testing.assert_array_equal(outputs["logits"], lm(rows))
    np.testing.assert_array_equal(outputs["encoded"], backbone(rows)["encoder_sequence_output"])
    assert outputs["text"].tolist() == lm.generate(TEXTS)


@pytest.mark.multiprocess
def test_import_is_light_and_needs_no_tensorflow_text():
    """Without tensorflow_text the models work on token ids; text asks for it by name."""
    code = """
import sys
sys.modules["tensorflow_text"] = None
import numpy as np, tensorflow, keras_nlp
before = set(sys.modules)
import convnlp
added = {name.split(".")[0] for name in set(sys.modules) - before}
assert added <= {"convnlp", "google", "sentencepiece"} | set(sys.stdlib_module_names), added
backbone = convnlp.models.Seq2SeqBackbone(50, 1, 2, 8, 16, kernel_size=3)
ids = np.array([[5, 1]])
print(convnlp.models.TextClassifier(backbone, 2)({"token_ids": ids, "padding_mask": ids > 0}).shape)
from tests import corpus
try:
    convnlp.models.Tokenizer(corpus.tiny_proto()).ragged("a")
except ImportError as error:
    print(error)
"""
    # In a fresh process: one that has imported Keras NLP has tensorflow_text.
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "(1, 2)" in done.stdout
    assert "tensorflow_text" in done.stdout


def test_a_language_model_becomes_a_classifier(saved, lm):
    classifier = TextClassifier.from_preset(str(saved / "lm"), num_classes=3)
    assert classifier.num_classes == 3
    assert classifier.predict(["the river"], verbose=0).shape == (1, 3)
    rows = lm.preprocessor.generate_preprocess(["the river"])
    ids, mask = rows["encoder_token_ids"], rows["encoder_padding_mask"]
    np.testing.assert_array_equal(
        classifier.backbone.encode(ids, padding_mask=mask), lm.backbone.encode(ids, padding_mask=mask)
    )


def test_a_preset_without_tokenizer_serves_token_ids_only(saved):
    with pytest.raises(ValueError, match=r"tokenizer\.json is missing"):
        TextClassifier.from_preset(str(saved / "backbone"), num_classes=2)
    assert (
        TextClassifier.from_preset(str(saved / "backbone"), num_classes=2, preprocessor=None).num_classes == 2
    )


def test_load_any_gives_what_is_there(saved):
    assert type(presets.load_any(str(saved / "lm"))) is Seq2SeqLM
    assert type(presets.load_any(str(saved / "classifier"))) is TextClassifier
    assert type(presets.load_any(str(saved / "backbone"))) is Seq2SeqBackbone


def test_a_classifier_gets_another_head(saved):
    classifier = TextClassifier.from_preset(str(saved / "classifier"), num_classes=5)
    assert (classifier.num_classes, classifier.labels) == (5, None)


@pytest.mark.parametrize("part", ["model", "backbone", "preprocessor", "tokenizer"])
def test_nothing_is_saved_to_a_url(classifier, part, tmp_path, monkeypatch):
    """keras_nlp would write the weights there, and everything else into a folder called "gs:"."""
    monkeypatch.chdir(tmp_path)
    saved = {
        "model": classifier,
        "backbone": classifier.backbone,
        "preprocessor": classifier.preprocessor,
        "tokenizer": classifier.preprocessor.tokenizer,
    }[part]
    message = "^`preset_dir` must be a path on this machine.* Received: preset_dir=ram://presets/one$"
    with pytest.raises(ValueError, match=message):
        saved.save_to_preset("ram://presets/one")
    assert list(tmp_path.iterdir()) == []
    assert not tf.io.gfile.exists("ram://presets/one")


def test_tokenizer_and_preprocessor_are_found_by_keras_nlp(saved):
    tokenizer = keras_nlp.models.Tokenizer.from_preset(str(saved / "lm"))
    assert type(tokenizer) is Tokenizer
    preprocessor = keras_nlp.models.TextClassifierPreprocessor.from_preset(str(saved / "classifier"))
    assert type(preprocessor) is TextClassifierPreprocessor
    assert preprocessor.sequence_length == 16
    assert preprocessor(TEXTS)["token_ids"].shape == (3, 16)


def truncate(path):
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)


def rename_class(path):
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**config, "registered_name": "other>Thing"}, file)


def widen(path):
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["config"]["backbone" if path.endswith("task.json") else "hidden_dim"] = 32
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)


FILES = {
    "config.json": "a JSON file",
    "task.json": "expected a TextClassifier",
    "tokenizer.json": "a JSON file",
    "assets/tokenizer/vocabulary.spm": "the SentencePiece model",
    "model.weights.h5": "the weights",
    "task.weights.h5": "the weights",
}
DAMAGES = [
    *[(os.remove, name, expected) for name, expected in FILES.items()],
    *[(truncate, name, name) for name in FILES if name.endswith((".json", ".h5"))],
    (truncate, "preprocessor.json", "preprocessor.json"),
    (truncate, "assets/tokenizer/vocabulary.spm", "not a SentencePiece model"),
    *[
        (rename_class, name, "unknown class 'other>Thing'")
        for name in ("config.json", "task.json", "tokenizer.json")
    ],
]


@pytest.mark.parametrize(("damage", "name", "expected"), DAMAGES)
def test_a_damaged_preset_is_one_clear_error(preset, damage, name, expected):
    folder = preset("classifier")
    damage(os.path.join(folder, name))
    with pytest.raises(ValueError) as error:
        TextClassifier.from_preset(folder)
    message = str(error.value)
    assert message.startswith(f"preset {folder}: ")
    assert expected in message
    assert "\n" not in message


def test_weights_of_another_shape_name_the_preset(preset):
    folder = preset("backbone")
    widen(os.path.join(folder, "config.json"))
    with pytest.raises(ValueError, match=f"preset {folder}: config.json says hidden_dim=32; .* have 16"):
        Seq2SeqBackbone.from_preset(folder)


@pytest.mark.parametrize(
    ("cls", "name", "message"),
    [
        (TextClassifier, "lm", "holds a Seq2SeqLM; expected a TextClassifier. Pass num_classes=N"),
        (TextClassifier, "backbone", "has no task.json; expected a TextClassifier"),
        (Seq2SeqLM, "classifier", "holds a TextClassifier; expected a Seq2SeqLM"),
        (TextClassifier, "nowhere", "no such directory"),
        (Seq2SeqBackbone, "nowhere", "no such directory"),
    ],
)
def test_a_preset_of_another_class(saved, cls, name, message):
    with pytest.raises(ValueError) as error:
        cls.from_preset(str(saved / name))
    assert f"preset {saved / name}: " in str(error.value)
    assert message in str(error.value)


class CountingLM(Seq2SeqLM):
    """Its argument of that name is not the size of a head."""

    def __init__(self, backbone, preprocessor=None, num_classes=2, **kwargs):
        super().__init__(backbone, preprocessor, **kwargs)


def test_a_class_says_itself_which_argument_is_the_size_of_its_head(saved):
    assert isinstance(CountingLM.from_preset(str(saved / "lm")), CountingLM)
    with pytest.raises(ValueError, match=r"holds a TextClassifier; expected a CountingLM$"):
        CountingLM.from_preset(str(saved / "classifier"), num_classes=3)


def test_a_foreign_backbone_is_named(preset):
    folder = preset("backbone")
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"registered_name": "keras_hub>BertBackbone", "config": {}}, file)
    with pytest.raises(ValueError, match="describes a BertBackbone; Seq2SeqBackbone needs a Seq2SeqBackbone"):
        Seq2SeqBackbone.from_preset(folder)


def test_the_directory_of_a_run_leads_to_its_preset(preset, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text('{"model": {}}')
    os.rename(preset("classifier"), tmp_path / "run" / "preset")
    with pytest.raises(ValueError, match=r"config.json is not .*; the run's preset is .*run/preset$"):
        TextClassifier.from_preset(str(tmp_path / "run"))


def test_a_model_trained_in_bfloat16_loads_in_the_policy_of_its_user(tokenizer, tmp_path):
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), 1, 2, 16, 32, kernel_size=3, dtype="mixed_bfloat16"
    )
    assert backbone.encoder_only().compute_dtype == "bfloat16"
    classifier = TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 8))
    classifier.save_to_preset(str(tmp_path))
    for load in (TextClassifier.from_preset, keras_nlp.models.TextClassifier.from_preset):
        loaded = load(str(tmp_path))
        assert loaded.backbone.compute_dtype == "float32"
        np.testing.assert_array_equal(loaded.get_weights()[0], classifier.get_weights()[0])
    assert Seq2SeqBackbone.from_preset(str(tmp_path), dtype="mixed_bfloat16").compute_dtype == "bfloat16"
