"""The program, in this process. What needs Beam is marked, and skipped where that is missing."""

import errno
import importlib.util
import json
import os

import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

from convnlp import batch_predict
from convnlp.bulk import outputs
from convnlp.data import SourceError
from tests import corpus
from tests.run_program import run_program

BEAM = importlib.util.find_spec("apache_beam") is not None
ROWS = corpus.reviews(50)


def needs_beam(test):
    """Marks a test of the pipeline."""
    return pytest.mark.beam(pytest.mark.skipif(not BEAM, reason="Apache Beam is not installed")(test))


@pytest.fixture
def folder(tmp_path):
    """Two files, 50 rows and 3 bad lines."""
    corpus.write_jsonl(tmp_path / "a.jsonl", ROWS[:30])
    corpus.write_jsonl(tmp_path / "b.jsonl.gz", ROWS[30:])
    with open(tmp_path / "a.jsonl", "ab") as file:
        file.write(b'\n{"title": "no text"}\n\xff\n')
    return tmp_path


@pytest.fixture
def predict(folder, model, capsys):
    """A function of changed flags, and of Beam's own, that runs the program and returns its last line."""
    flags.FLAGS.mark_as_parsed()
    usual = {"model": model, "input": f"jsonl:{folder}/*.jsonl*", "output": f"{folder}/out"}
    usual |= {"shard_size": 8, "batch_size": 4}

    def run(*beam_flags, **changes):
        with flagsaver.flagsaver(**{**usual, **changes}):
            batch_predict.main(["batch_predict", *beam_flags])
        return capsys.readouterr().out.splitlines()[-1]

    return run


def read(folder, kind="predictions"):
    """Rows of all files of a kind, in order."""
    files = sorted((folder / "out").glob(f"{kind}-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.skipif(BEAM, reason="Apache Beam is installed")
def test_without_beam_one_line_says_what_to_install(folder, predict):
    with pytest.raises(ValueError, match=r"needs Apache Beam: pip install -r requirements-beam\.txt"):
        predict()
    assert not (folder / "out").exists()


@needs_beam
def test_each_line_has_one_answer_or_one_reason(folder, predict):
    assert predict().startswith("53 examples: 50 predictions, 3 bad; 8 shards in ")
    places = [(f"{folder}/a.jsonl", i) for i in range(1, 31)]
    places += [(f"{folder}/b.jsonl.gz", i) for i in range(1, 21)]
    expected = []
    for (file, line), row in zip(places, ROWS, strict=True):
        length = float(len(row["text"]))
        answer = {"label": row["text"].upper(), "scores": [length, -length]}
        expected.append({"file": file, "line": line, "input": row, **answer})
    assert read(folder) == expected
    assert [(bad["file"], bad["line"], bad["reason"]) for bad in read(folder, "bad")] == [
        (f"{folder}/a.jsonl", 31, "empty line"),
        (f"{folder}/a.jsonl", 32, "no field 'text' (available: 'title')"),
        (f"{folder}/a.jsonl", 33, "not UTF-8 (byte 1 of the line)"),
    ]
    assert [name for name in os.listdir(folder / "out") if outputs.PARTIAL in name] == []


@needs_beam
@pytest.mark.parametrize("format", ["jsonl", "tfrecord"])
def test_rows_of_a_table(folder, predict, format):
    """By two worker processes, between which the cells of a row are packed and unpacked."""
    (folder / "rows.csv").write_text('text,place\n"fine,\nby day",Bern\nlong,one,more\nbad,Rome\n')
    beam_flags = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    done = predict(*beam_flags, input=f"csv:{folder}/rows.csv", format=format)
    assert done.startswith("3 examples: 2 predictions, 1 bad; 1 shards in ")
    (bad,) = read(folder, "bad")
    assert (bad["line"], bad["reason"][:30]) == (4, "the row has 3 cells but the he")
    if format == "jsonl":
        assert [(row["line"], row["input"], row["label"]) for row in read(folder)] == [
            (2, {"text": "fine,\nby day", "place": "Bern"}, "FINE,\nBY DAY"),
            (5, {"text": "bad", "place": "Rome"}, "BAD"),
        ]
    else:
        (file,) = map(str, (folder / "out").glob("predictions-*.tfrecord"))
        records = map(tf.train.Example.FromString, tf.data.TFRecordDataset(file).as_numpy_iterator())
        places = [record.features.feature["input/place"].bytes_list.value[0] for record in records]
        assert places == [b"Bern", b"Rome"]


@needs_beam
def test_a_restart_keeps_what_is_done(folder, predict):
    predict()
    whole = read(folder)
    for name in ("00000-000001", "00000-000003", "00001-000000"):
        (folder / "out" / f"predictions-{name}.jsonl").unlink()
    kept = folder / "out" / "predictions-00001-000001.jsonl"
    kept.write_text('{"kept": 1}\n')  # so that it shows that this one is not made again
    # Counted from the shards' sizes and the bad lines, the three of a shard that was there among them.
    assert predict(batch_size=32).startswith("53 examples: 50 predictions, 3 bad; 8 shards in ")
    assert read(folder) == [*whole[:38], {"kept": 1}, *whole[46:]]

    assert predict().startswith("53 examples: 50 predictions, 3 bad; 8 shards in ")
    assert read(folder) == [*whole[:38], {"kept": 1}, *whole[46:]]
    with pytest.raises(ValueError, match="signature was 'serving_default' and is now 'pair'"):
        predict(signature="pair", text_fields=["text", "text"])


@needs_beam
def test_other_signatures_fields_formats_and_beams_own_flags(folder, predict):
    rows = [{"text": row["text"], "label_name": str(row["label"])} for row in ROWS]
    corpus.write_jsonl(folder / "b.jsonl.gz", rows)
    (folder / "a.jsonl").unlink()
    beam_flags = ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]
    predict(*beam_flags, signature="pair", text_fields=["text", "label_name"], format="tfrecord")
    files = sorted(map(str, (folder / "out").glob("predictions-*.tfrecord")))
    assert len(files) == 7
    found = []
    for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        found.append(feature["joined"].bytes_list.value[0].decode())
    assert found == [f"{row['text']}|{row['label_name']}" for row in rows]

    with pytest.raises(ValueError, match=r"Beam has no such flag\. Received: '--flink_mastr=here'"):
        predict("--flink_mastr=here")


@needs_beam
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"signature": "total"}, "the model's output 'count' must have one entry per example"),
        ({"signature": "ids"}, "`signature` must take one text per example"),
        (
            {"text_fields": ["a", "b"]},
            "--text_fields must name a field for each input of the signature",
        ),
        ({"model": "none"}, "`model` must be the directory of a SavedModel. Received: 'none'"),
    ],
)
def test_errors(predict, changes, message):
    with pytest.raises(ValueError, match=message):
        predict(**changes)


def test_an_output_in_the_model_is_refused_before_all_else(predict, model):
    with pytest.raises(ValueError, match="`output` must not be in the directory of `model`"):
        predict(output=f"{model}/out", input="none:")
    assert not os.path.exists(f"{model}/out")


@needs_beam
def test_of_a_file_that_ends_early_what_was_whole_is_kept(folder, predict, caplog):
    corpus.write_jsonl(folder / "b.jsonl.gz", corpus.reviews(3000))
    data = (folder / "b.jsonl.gz").read_bytes()
    (folder / "b.jsonl.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError, match=r"b\.jsonl\.gz, line \d+: cannot be read: Compressed"):
        predict(shard_size=100)
    assert (folder / "out" / "predictions-00001-000000.jsonl").exists()
    assert not (folder / "out" / "summary.json").exists()
    kept = folder / "out" / "predictions-00000-000000.jsonl"
    kept.write_text('{"kept": 1}\n')
    (folder / "b.jsonl.gz").write_bytes(data)  # from its backup
    assert predict(shard_size=100).startswith("3033 examples: 3030 predictions, 3 bad; 31 shards in ")
    assert len(read(folder)) == 3001
    assert kept.read_text() == '{"kept": 1}\n'
    assert "out: 1 input files changed, such as " in caplog.text


@needs_beam
def test_a_full_disk_is_an_error_of_one_line(folder, predict, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(outputs, "write_shard", full)
    with pytest.raises(ValueError, match=r"No space left on device \[while running"):
        predict()
    assert os.listdir(folder / "out") == ["job.json"]


@needs_beam
@pytest.mark.multiprocess
def test_a_language_model_writes_a_text_a_line(tmp_path):
    """`generate` of an exported preset, by the program as a user runs it."""
    from convnlp.export.saved_models import versions
    from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, Seq2SeqLMPreprocessor, Tokenizer

    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16, dropout=0.0)
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 8))
    lm.save_to_preset(str(tmp_path / "preset"))
    exported, *_ = versions.export(str(tmp_path / "preset"), str(tmp_path / "lm"), max_length=4, check=False)
    texts = [row["text"] for row in ROWS[:5]]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    done = run_program(
        "convnlp.batch_predict",
        f"--model={exported}",
        "--signature=generate",
        f"--input=lines:{tmp_path}/texts.txt",
        f"--output={tmp_path}/out",
        "--",
        "--direct_num_workers=1",
    )
    assert done.returncode == 0, done.stderr
    rows = read(tmp_path)
    assert [row["input"]["text"] for row in rows] == texts
    assert [row["generated_text"] for row in rows] == lm.generate(texts, max_length=5)  # with the start
