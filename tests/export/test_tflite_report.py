"""The report on TFLite, for tasks with and without labels; for one's own see tests/test_your_own_task.py."""

import keras
import pytest

from convnlp.data import Source, SourceError
from convnlp.export.lite import report
from convnlp.models import (
    PrefixLM,
    PrefixLMPreprocessor,
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    Tokenizer,
)
from convnlp.tasks import Fields
from tests import corpus
from tests.run_program import run_program
from tests.small_classifier import small_classifier

SIZE = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
LENGTH = 24


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "reviews.jsonl"
    corpus.write_jsonl(path, corpus.reviews(40))
    return Source(f"jsonl:{path}")


def rows_of(model, folder, source, fields=Fields(), modes=("fp32", "dynamic")):  # noqa: B008 - it is frozen
    model.save_to_preset(str(folder))
    count, rows = report.rows(str(folder), model, source, fields, modes, None, [8])
    assert count == 40
    assert [row["form"] for row in rows] == ["SavedModel", *modes]
    assert all(row["megabytes"] > 0 and row["milliseconds"][8] > 0 for row in rows)
    return rows


def seq2seq_lm(tokenizer):
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), **SIZE, mixer="lightweight_conv")
    return Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, LENGTH, 8))


def prefix_lm(tokenizer):
    size = {**SIZE, "num_decoder_layers": 0}
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), **size, mixer="self_attention")
    return PrefixLM(backbone, PrefixLMPreprocessor(tokenizer, LENGTH))


@pytest.mark.parametrize("build", [pytest.param(seq2seq_lm, marks=pytest.mark.slow), prefix_lm])
def test_encoders_of_language_models_are_compared_without_labels(build, source, tmp_path):
    keras.utils.set_random_seed(0)
    rows = rows_of(build(Tokenizer(corpus.tiny_proto())), tmp_path, source)
    for saved_or_exact in rows[:2]:
        assert saved_or_exact["largest_error"] < 1e-5
    assert rows[2]["largest_error"] > 1e-5  # its weights are rounded
    assert all(0.99 < row["lowest_cosine"] < 1.00001 for row in rows)
    assert "accuracy" not in rows[0]
    head, *lines = report.table(rows, [8])
    assert head.split("  ")[-2:] == ["largest error", "lowest cosine"]
    assert len(lines) == 3


def test_classifiers_are_scored_by_their_labels(source, tmp_path):
    keras.utils.set_random_seed(0)
    classifier = small_classifier(["lightweight_conv"], LENGTH, ["0", "1"])
    rows = rows_of(classifier, tmp_path / "preset", source, modes=("fp32",))
    texts, labels = zip(*((row["text"], row["label"]) for row in corpus.reviews(40)), strict=True)
    right = classifier.predict(list(texts), verbose=0).argmax(axis=1) == labels
    for row in rows:
        assert row["accuracy"] == right.mean()
        assert row["same_label"] == 1
        assert row["largest_error"] < 1e-5
    with pytest.raises(SourceError, match="no field 'topic'"):
        rows_of(classifier, tmp_path / "preset", source, Fields(label="topic"))


@pytest.mark.multiprocess
@pytest.mark.parametrize(
    "program",
    [
        ("tflite_report", "--preset={}/preset", "--source=text:{}/a.txt", "--output={}/a.txt"),
        ("tflite", "--preset={}/preset", "--output={}/preset/model.weights.h5"),
        ("operations", "--model={}/preset", "--output={}/preset/saved_model.pb"),
    ],
)
def test_an_output_is_not_written_over_what_is_read(program, tmp_path):
    (tmp_path / "preset").mkdir()
    (tmp_path / "a.txt").write_text("the river")
    name, *rest = program
    done = run_program(f"export.{name}", *[flag.format(tmp_path) for flag in rest])
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: `output` must not overwrite the input ")


@pytest.mark.multiprocess
@pytest.mark.parametrize(
    ("program", "line"),
    [
        (("tflite", "--mode=int8"), "error: --calibration_source must be given for mode int8: "),
        (
            ("tflite_report", "--source=text:{}/a.txt"),
            "error: --calibration_source must be given for mode int8: ",
        ),
        (
            ("tflite_report", "--source=text:{}/a.txt", "--lengths="),
            "error: flag --lengths=[]: must be numbers >= 1",
        ),
    ],
)
def test_what_is_missing_is_noticed_before_the_preset_is_loaded(program, line, tmp_path):
    (tmp_path / "preset").mkdir()
    (tmp_path / "a.txt").write_text("the river")
    name, *rest = program
    flags = ["--preset={}/preset", *rest, "--output={}/out"]
    done = run_program(f"export.{name}", *[flag.format(tmp_path) for flag in flags])
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(line)
