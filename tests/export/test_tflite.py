"""The TFLite files: operations, answers, what is packed beside the model, errors."""

import re
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from convnlp.export import preset
from convnlp.export.lite import conversion, tflite_files
from convnlp.export.saved_models import signatures
from convnlp.export.verification import requests
from tests.export.conftest import LABELS, LENGTH, SHORT
from tests.run_program import run_program


@pytest.mark.parametrize(("inputs", "custom"), [("ids", set()), ("text", conversion.TEXT_OPERATIONS)])
def test_fp32_equals_the_preset(inputs, custom, classifier_dir, fp32_export, tmp_path):
    """All mixers, batch 1, 2 and 5 of different lengths."""
    file, facts = fp32_export
    if inputs == "text":
        file = tmp_path / "model.tflite"
        facts = tflite_files.export(str(classifier_dir), str(file), "fp32", inputs)
    assert conversion.custom_operations(file.read_bytes()) == custom
    assert facts["largest_error"] < 5e-6  # float32 sums of some ten layers in another order
    assert facts["megabytes"] == file.stat().st_size / 1e6
    with zipfile.ZipFile(file) as archive:
        assert archive.read("labels.txt").decode().split() == LABELS
        assert archive.read("config.json") == (classifier_dir / "config.json").read_bytes()
        vocabulary = classifier_dir / "assets" / "tokenizer" / "vocabulary.spm"
        assert archive.read("vocabulary.spm") == vocabulary.read_bytes()


@pytest.mark.slow
def test_batch_and_length_are_free(classifier, fp32_file):
    run = tflite_files.runner(fp32_file.read_bytes())
    rng = np.random.default_rng(0)
    for batch, length in ((1, 1), (3, 7), (1, LENGTH), (2, LENGTH + 9), (5, 128), (1, 7)):
        ids = rng.integers(3, 100, [batch, length]).astype("int32")
        kept = ids[:, :LENGTH]
        expected = classifier({"token_ids": kept, "padding_mask": kept != 0}, training=False)
        np.testing.assert_allclose(run(ids), expected, atol=5e-6)  # as above


def test_a_language_model_gives_its_encoder_and_modes_trade_size_for_error(preset_of):
    model = preset.load(str(preset_of("lm", SHORT)))  # its encoder is the same with any decoder
    servable = signatures.edge(model, "ids")
    contents = {mode: conversion.convert(servable, mode, "ids") for mode in ("dynamic", "fp16", "fp32")}
    # Dynamic-range int8 leaves weights of less than 1024 elements alone, of which this model has many.
    assert max(len(contents["dynamic"]), len(contents["fp16"])) < len(contents["fp32"])
    request = requests.request(servable, "serving_default", 5)
    rows = servable.rows.of_ids(tf.constant(request["token_ids"]))
    expected = servable.rows.embed(rows).numpy()
    errors = {
        mode: np.abs(tflite_files.runner(content)(request["token_ids"]) - expected).max()
        for mode, content in contents.items()
    }
    assert expected.shape == (5, 16)
    # Rounded weights err by 2^-11 (fp16) and 2^-8 (int8) of their size each.
    assert errors["fp32"] < 5e-6 < errors["fp16"] < 0.02
    assert errors["fp16"] < errors["dynamic"] < 0.3


def test_what_tflite_has_no_operation_for():
    unknown = signatures.signature(lambda x: {"y": tf.linalg.svd(x)[0]}, x=tf.TensorSpec([2, 2]))
    servable = signatures.Servable(tf.Module(), {"serving_default": unknown}, None)
    with pytest.raises(conversion.UnsupportedError, match="Svd"):
        conversion.convert(servable, "fp32", "ids")


def test_nothing_is_left_of_a_failed_export(small_dir, tmp_path, monkeypatch):
    def fail(preset_dir):
        raise OSError("No space left on device")

    monkeypatch.setattr(tflite_files, "converted", lambda *_: (signatures.edge(_[0], "ids"), b""))
    monkeypatch.setattr(preset, "asset_files", fail)
    with pytest.raises(OSError, match="No space left"):
        tflite_files.export(str(small_dir), str(tmp_path / "m.tflite"))
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_no_file_can_be_is_noticed_before_the_work(small_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(preset, "load", None)
    for output, message in {
        tmp_path: "`output` must be a file, not a directory",
        "gs://bucket/m.tflite": "`output` must be a path on this machine",
        small_dir / "model.weights.h5": "`output` must not overwrite the input ",
    }.items():
        with pytest.raises(ValueError, match=message):
            tflite_files.export(str(small_dir), str(output))


@pytest.mark.multiprocess
def test_program(small_dir, tmp_path):
    file = tmp_path / "model.tflite"
    done = run_program("export.tflite", f"--preset={small_dir}", f"--output={file}")
    assert done.returncode == 0, done.stderr
    for fact in (f"{file}  ", "dynamic, ids in", " ms (median of "):
        assert fact in done.stdout
    found = re.search(
        r"largest error against the preset: (\S+) of logits up to (\S+)$", done.stdout, re.MULTILINE
    )
    error, largest = map(float, found.groups())
    assert 0 < error < largest / 10
    assert file.exists()
