"""The program as a user runs it. What needs Beam is marked, and skipped where it is missing."""

import importlib.util
import json
import os
import sys

import pytest
import tensorflow as tf

from convnlp.bulk import outputs
from tests import corpus
from tests.run_program import run_program

pytestmark = pytest.mark.multiprocess
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


def batch_predict(folder, model, *flags):
    return run_program(
        "convnlp.batch_predict",
        f"--model={model}",
        f"--input=jsonl:{folder}/*.jsonl*",
        f"--output={folder}/out",
        "--shard_size=8",
        "--batch_size=4",
        *flags,
    )


def read(folder, kind="predictions"):
    """Rows of all files of a kind, in order."""
    files = sorted((folder / "out").glob(f"{kind}-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def last_line(text):
    return text.splitlines()[-1]


@pytest.mark.skipif(BEAM, reason="Apache Beam is installed")
def test_without_beam_one_line_says_what_to_install(folder, model):
    done = batch_predict(folder, model)
    assert done.returncode == 1
    assert last_line(done.stderr).startswith("error: convnlp.batch_predict needs Apache Beam: pip install -r")
    assert "requirements-beam.txt" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "out").exists()


@needs_beam
def test_each_line_has_one_answer_or_one_reason(folder, model):
    done = batch_predict(folder, model)
    assert done.returncode == 0, done.stderr
    assert last_line(done.stdout).startswith("53 examples: 50 predictions, 3 bad; 8 shards in ")
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
        (f"{folder}/a.jsonl", 32, "no field 'text' (there are: 'title')"),
        (f"{folder}/a.jsonl", 33, "not UTF-8 (byte 1 of the line)"),
    ]
    assert [name for name in os.listdir(folder / "out") if outputs.PARTIAL in name] == []


@needs_beam
def test_a_restart_keeps_what_is_done(folder, model):
    assert batch_predict(folder, model).returncode == 0
    whole = read(folder)
    (folder / "out" / "summary.json").unlink()
    for name in ("00000-000001", "00000-000003", "00001-000000"):
        (folder / "out" / f"predictions-{name}.jsonl").unlink()
    kept = folder / "out" / "predictions-00001-000001.jsonl"
    kept.write_text('{"kept": 1}\n')  # so that it shows that this one is not made again
    done = batch_predict(folder, model, "--batch_size=32")
    assert done.returncode == 0, done.stderr
    assert "5 shards of an earlier run are kept" in done.stderr
    # Counted from the shards' sizes and the bad lines, the three of a shard that was there among them.
    assert last_line(done.stdout).startswith("53 examples: 50 predictions, 3 bad; 8 shards in ")
    assert read(folder) == [*whole[:38], {"kept": 1}, *whole[46:]]

    done = batch_predict(folder, model)
    assert "is complete: nothing is left to do" in done.stdout
    done = batch_predict(folder, model, "--signature=pair", "--text_fields=text,text")
    assert done.returncode == 1
    assert "signature 'serving_default' there, 'pair' here" in last_line(done.stderr)


@needs_beam
def test_other_signatures_fields_formats_and_beams_own_flags(folder, model):
    flags = ["--signature=pair", "--text_fields=text,label_name", "--format=tfrecord"]
    rows = [{"text": row["text"], "label_name": str(row["label"])} for row in ROWS]
    corpus.write_jsonl(folder / "b.jsonl.gz", rows)
    (folder / "a.jsonl").unlink()
    beam = ["--", "--direct_num_workers=2", "--direct_running_mode=multi_threading"]
    done = batch_predict(folder, model, *flags, *beam)
    assert done.returncode == 0, done.stderr
    files = sorted(map(str, (folder / "out").glob("predictions-*.tfrecord")))
    assert len(files) == 7
    found = []
    for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        found.append(feature["joined"].bytes_list.value[0].decode())
    assert found == [f"{row['text']}|{row['label_name']}" for row in rows]

    done = batch_predict(folder, model, "--", "--flink_mastr=here")
    assert done.returncode == 1
    assert last_line(done.stderr) == "error: Beam has no such flag. Received: '--flink_mastr=here'"


@needs_beam
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--signature=total"], "the model's output 'count' must have an entry an example"),
        (["--signature=ids"], "`signature` must take a text an example"),
        (["--text_fields=a,b"], "--text_fields must name a field for each input of the signature: text."),
        (["--model=none"], "`model` must be the directory of a SavedModel. Received: 'none'"),
    ],
)
def test_errors_are_one_line(folder, model, flags, message):
    done = batch_predict(folder, model, *flags)
    assert done.returncode == 1
    assert message in last_line(done.stderr)
    assert "Traceback" not in done.stderr


@needs_beam
def test_a_file_that_ends_early_is_one_line_and_what_was_whole_is_kept(folder, model):
    corpus.write_jsonl(folder / "b.jsonl.gz", corpus.reviews(3000))
    data = (folder / "b.jsonl.gz").read_bytes()
    (folder / "b.jsonl.gz").write_bytes(data[: len(data) // 2])
    done = batch_predict(folder, model, "--shard_size=100")
    assert done.returncode == 1
    assert "b.jsonl.gz, line" in last_line(done.stderr)
    assert "cannot be read" in last_line(done.stderr)
    assert "Traceback" not in done.stderr
    assert (folder / "out" / "predictions-00001-000000.jsonl").exists()


@needs_beam
def test_a_language_model_writes_a_text_a_line(tmp_path):
    """`generate` of an exported preset, the smallest there is."""
    from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, Seq2SeqLMPreprocessor, Tokenizer
    from export import versions

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
    )
    assert done.returncode == 0, done.stderr
    rows = read(tmp_path)
    assert [row["input"]["text"] for row in rows] == texts
    assert [row["generated_text"] for row in rows] == lm.generate(texts, max_length=4)


def test_a_process_that_ends_leaves_no_module_of_beams():
    """Nothing else of convnlp loads Beam, which costs seconds."""
    import convnlp.batch_predict  # noqa: F401

    assert "convnlp.bulk.pipeline" not in sys.modules
