"""What a device has of a TFLite file: LiteRT, sentencepiece, and the archive behind the model."""

import concurrent.futures
import io
import json
import os
import pathlib
import pydoc_data.topics
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

from convnlp.data import examples
from convnlp.export import edge_model
from convnlp.export.edge_model import FACTS, VOCABULARY, EdgeModel
from convnlp.export.lite import metadata
from tests import corpus
from tests.export.conftest import LABELS, LENGTH
from tests.run_program import ROOT, Program, run_program

TEXTS = [
    "the river",
    "",
    "A dreadful film about the engine. The old teacher follows the quiet river.",
    "Köln 🙂",
]
PAIRS = ["a bridge", "the old captain repairs the broken clock behind the station near the harbour", "", "x"]
ODD_TEXTS = [
    "",
    "  two  spaces and a\ttab \n and a line ",
    "Ångström ﬁne \uff46\uff55\uff4c\uff4c ² ½ İ ß \u0301",
    "\u4f60\u597d \u0645\u0631\u062d\u0628\u0627 🙂👩‍👩‍👧 \u200b\ufeff",
    "</s> <pad> <unk> <extra_id_0> \u2581",
    "word" * 400,
]


@pytest.fixture(scope="module")
def model(fp32_file):
    return EdgeModel(str(fp32_file))


def test_answers_equal_the_preset(model, classifier):
    for texts, pairs in ((TEXTS, None), (TEXTS, PAIRS), (TEXTS[:1], None)):
        x = tuple(column for column in (texts, pairs) if column is not None)
        rows = classifier.preprocessor(x if pairs else texts, y=None)
        logits = np.asarray(classifier(rows, training=False))
        expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        for answer, scores in zip(model.predict(texts, pairs), expected, strict=True):
            assert list(answer["scores"]) == LABELS
            np.testing.assert_allclose(list(answer["scores"].values()), scores, atol=5e-6)
            assert answer["label"] == LABELS[scores.argmax()]


def test_no_pad_is_computed(model, monkeypatch):
    ids = model.token_ids([*TEXTS, *TEXTS[::-1], "the bridge"])
    ids[0, 0] = 0  # a pad inside of a text stays where it is
    ids = np.concatenate([ids, np.zeros_like(ids[:1])])  # and of a row of pads one is left
    padded, shapes = model._run(ids), []

    def run(rows, inner=model._run):
        shapes.append(rows.shape)
        return inner(rows)

    monkeypatch.setattr(model, "_run", run)
    found = model.run(ids)
    np.testing.assert_allclose(found, padded, atol=5e-6)  # float32 sums of other shapes
    lengths = [len(row.tobytes().rstrip(b"\0")) // 4 + 1 for row in ids.astype("<i4")[:-1]] + [1]
    assert sum(rows * length for rows, length in shapes) == sum(lengths) < ids.size / 2
    assert sum(rows for rows, _ in shapes) == len(ids)
    assert len({length for _, length in shapes}) == len(shapes)
    np.testing.assert_array_equal(model.run(ids[3:4]), model._run(ids[3:4]))


def test_many_texts_of_one_length_run_some_at_a_time(model, monkeypatch):
    ids = np.random.default_rng(0).integers(3, 60, [11, 8]).astype(np.int32)
    ids[3, 5:] = 0
    whole, shapes = model.run(ids), []

    def run(rows, inner=model._run):
        shapes.append(rows.shape)
        return inner(rows)

    monkeypatch.setattr(model, "_run", run)
    monkeypatch.setattr(edge_model, "_MOST_TOKENS", 4 * 8 + 7)
    np.testing.assert_allclose(model.run(ids), whole, atol=5e-6)  # float32 sums of other shapes
    assert shapes == [(1, 5), (4, 8), (4, 8), (2, 8)]
    shapes.clear()
    monkeypatch.setattr(edge_model, "_MOST_TOKENS", 1)  # a text is never cut for it
    np.testing.assert_allclose(model.run(ids), whole, atol=5e-6)
    assert shapes == [(1, 5), *[(1, 8)] * 10]


def test_threads_compute_the_parts_of_a_batch_side_by_side(model, fp32_file, monkeypatch):
    ids = np.random.default_rng(0).integers(3, 60, [9, 8]).astype(np.int32)
    for row, length in enumerate([8, 2, 4, 2, 6, 8, 4, 4, 6]):
        ids[row, length:] = 0
    together, run = threading.Barrier(2, timeout=60), edge_model._SideBySide._run
    lengths = []

    def meeting(self, array):
        together.wait()  # passed only by two threads at a time
        lengths.append(array.shape[1])
        return run(self, array)

    monkeypatch.setattr(edge_model._SideBySide, "_run", meeting)
    found = EdgeModel(str(fp32_file), num_threads=2).run(ids)
    np.testing.assert_allclose(found, model.run(ids), atol=1e-6)
    assert sorted(lengths[:2]) == [6, 8]
    assert sorted(lengths[2:]) == [2, 4]


@pytest.fixture
def made(monkeypatch):
    """The interpreters that are made, by the arguments of each."""
    made, make = [], edge_model.Interpreter

    def making(**arguments):
        made.append(arguments)
        time.sleep(0.01)  # so that others that make one at the same time are seen
        return make(**arguments)

    monkeypatch.setattr(edge_model, "Interpreter", making)
    return made


def rows_of_lengths(*lengths):
    ids = np.random.default_rng(0).integers(3, 60, [len(lengths), max(lengths)]).astype(np.int32)
    for row, length in enumerate(lengths):
        ids[row, length:] = 0
    return ids


def test_threads_get_interpreters_once_they_have_something_to_do(model, fp32_file, made):
    several = EdgeModel(str(fp32_file), num_threads=3)
    several.predict(TEXTS[:1])
    several.run(rows_of_lengths(4, 4))  # one part
    assert made == [{"model_path": str(fp32_file), "num_threads": 3}]
    for lengths, count in (((2, 4), 2), ((2, 4, 2), 2), ((2, 3, 4, 5, 6), 3), ((2, 3, 4, 5, 6), 3)):
        ids = rows_of_lengths(*lengths)
        np.testing.assert_allclose(several.run(ids), model.run(ids), atol=1e-6)
        assert made[1:] == [{"model_path": str(fp32_file), "num_threads": 1}] * count


def test_batches_at_the_same_time_share_the_interpreters(model, fp32_file, made):
    several = EdgeModel(str(fp32_file), num_threads=2)
    ids, ready = rows_of_lengths(2, 3, 4, 5), threading.Barrier(4, timeout=60)

    def run(_):
        ready.wait()
        return several.run(ids)

    with concurrent.futures.ThreadPoolExecutor(4) as callers:
        for found in callers.map(run, range(4)):
            np.testing.assert_allclose(found, model.run(ids), atol=1e-6)
    assert len(made) == 1 + 2


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_file_that_is_gone_or_another_is_not_read_again(model, fp32_file, made, tmp_path, is_replaced):
    path = tmp_path / "model.tflite"
    shutil.copy(fp32_file, path)
    several = EdgeModel(str(path), num_threads=2)
    if is_replaced:
        (tmp_path / "other").write_bytes(b"another model")
        os.replace(tmp_path / "other", path)
    else:
        path.unlink()
    ids = rows_of_lengths(2, 4, 6)
    np.testing.assert_allclose(several.run(ids), model.run(ids), atol=1e-6)
    assert len(made) == 1


@pytest.mark.parametrize("length", [6, 7])
def test_pairs_that_are_too_long_are_cut_as_by_the_library(model, monkeypatch, length):
    monkeypatch.setitem(model.facts, "sequence_length", length)
    for sizes in ((9, 9), (9, 1), (1, 9), (2, 3), (3, 2), (9, 3), (3, 9)):
        segments = [[5] * sizes[0], [6] * sizes[1]]
        rows, _ = examples.concatenate([tf.ragged.constant([each]) for each in segments], length, 1)
        assert model._row(segments) == rows[0].numpy().tolist()


def test_a_label_of_one_half_is_given(model, monkeypatch):
    monkeypatch.setitem(model.facts, "output", "probabilities")
    scores = [[0.5, 0.25, *[0.0] * (len(model.facts["labels"]) - 2)]]
    monkeypatch.setattr(model, "run", lambda ids: np.array(scores))
    (answer,) = model.predict(["a film"])
    assert answer["labels"] == model.facts["labels"][:1]


def test_tokens_equal_the_library(model, classifier):
    """Real sentences, of Python's documentation, and the texts of the corpus."""
    sentences = [line for text in pydoc_data.topics.topics.values() for line in text.split("\n\n")]
    assert len(sentences) > 1000
    texts = [*sentences[::4], *corpus.documents(100), *ODD_TEXTS]
    pairs = texts[::-1]
    for columns in ((texts,), (texts, pairs)):
        expected = classifier.preprocessor(columns if len(columns) == 2 else texts, y=None)
        ids, lengths = expected["token_ids"].numpy(), expected["padding_mask"].numpy().sum(axis=1)
        found = model.token_ids(*columns)
        assert found.shape == (len(texts), lengths.max())
        np.testing.assert_array_equal(found, ids[:, : found.shape[1]])


@pytest.mark.parametrize(
    ("texts", "pairs", "message"),
    [
        ("a film", None, "`texts` must be a list of str. Received: 'a film'"),
        (["a film", 5], None, "`texts` must be a list of str. Received: 5"),
        (b"a film", None, "`texts` must be a list of str. Received: b'a film'"),
        (["a film"], "a book", "`pairs` must be a list of str. Received: 'a book'"),
        (["a \ud800"], None, "`texts` must not hold half of a surrogate pair. Received: 'a \\ud800'"),
        (["a film"], ["one", "two"], "`pairs` must have a text for each of `texts`. Received: 2 for 1"),
    ],
)
def test_what_are_no_texts(model, texts, pairs, message):
    """A single text would otherwise be a list of its letters."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        model.predict(texts, pairs)


def test_no_texts_have_no_answers(model):
    assert model.predict([]) == model.predict([], []) == []
    with pytest.raises(ValueError, match="`texts` must hold at least one text"):
        model.token_ids([])


@pytest.mark.parametrize(
    ("output", "meaning"),
    [("logits", "The scores are their softmax"), ("probabilities", "The probability of")],
)
def test_the_metadata_say_what_the_output_is(output, meaning):
    found = metadata._metadata({"inputs": "text", "output": output, "labels": LABELS})
    assert meaning.encode() in found


def test_the_labels_have_a_line_each():
    """Whatever their names are: line i is class i."""
    content = metadata.with_archive(b"TFL3", {}, {"labels": ["a\nb", "c\r\n", "", "\u00e9\u2028f"]})
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.read("labels.txt").decode() == "a b\nc\n\n\u00e9 f\n"


def test_the_page_names_every_fact(model):
    page = pathlib.Path(ROOT, "docs", "edge.md").read_text(encoding="utf-8")
    row = re.search(r"^\| `model\.json` \| (.*) \|$", page, re.MULTILINE)[1]
    assert set(re.findall(r"`(\w+)`", row)) == set(model.facts)


def test_equal_files_give_equal_bytes_whatever_their_dates(tmp_path):
    """A zip archive cannot hold dates before 1980."""
    vocabulary, contents = tmp_path / VOCABULARY, []
    for seconds in (0, 2e9):
        vocabulary.write_bytes(b"of pieces")
        os.utime(vocabulary, (seconds, seconds))
        contents.append(metadata.with_archive(b"TFL3", {VOCABULARY: vocabulary}, {"labels": None}))
    assert contents[0] == contents[1]
    with zipfile.ZipFile(io.BytesIO(contents[0])) as archive:
        assert archive.read(VOCABULARY) == b"of pieces"


def test_a_file_that_is_no_model(tmp_path, fp32_file):
    (tmp_path / "m.tflite").write_bytes(b"not a zip")
    with pytest.raises(ValueError, match=r"m.tflite is not a file of export.tflite"):
        EdgeModel(str(tmp_path / "m.tflite"))
    with zipfile.ZipFile(tmp_path / "m.tflite", "w") as archive, zipfile.ZipFile(fp32_file) as original:
        for name in original.namelist():
            content = original.read(name)
            archive.writestr(name, content.replace(b'"inputs": "ids"', b'"inputs": "text"'))
    with pytest.raises(ValueError, match="has its tokenizer inside"):
        EdgeModel(str(tmp_path / "m.tflite"))


def test_a_damaged_graph_is_one_line(tmp_path, fp32_file, monkeypatch):
    content = fp32_file.read_bytes()
    (tmp_path / "m.tflite").write_bytes(bytes(100) + content[100:])
    with pytest.raises(ValueError, match=r"m.tflite is not a file of export.tflite: The model is not "):
        EdgeModel(str(tmp_path / "m.tflite"))

    def fail(array):
        raise RuntimeError("Input tensor 22 lacks data\nNode 3")

    monkeypatch.setattr(edge_model, "runner", lambda interpreter: fail)
    with pytest.raises(
        ValueError, match=r"is not a file of export.tflite: Input tensor 22 lacks data Node 3$"
    ):
        EdgeModel(str(fp32_file))


def _repacked(fp32_file, path, changes):
    """The file with other contents in its archive."""
    model = fp32_file.read_bytes()
    with zipfile.ZipFile(fp32_file) as original:
        files = {name: original.read(name) for name in original.namelist()} | changes
        start = min(info.header_offset for info in original.infolist())
    path.write_bytes(model[:start])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({FACTS: b"[]"}, "model.json must hold a JSON object"),
        ({FACTS: b"[" * 100_000}, "is not a file of export.tflite"),
        ({FACTS: b"{}"}, "'inputs' in model.json must be of type str"),
        ({FACTS: b"\xff"}, "is not a file of export.tflite"),
        ({FACTS: {"sequence_length": "x"}}, "'sequence_length' in model.json must be of type int"),
        ({FACTS: {"labels": [1, 2, 3]}}, "'labels' in model.json must be a list of strings"),
        ({VOCABULARY: b"none"}, "is not a file of export.tflite"),
        ({VOCABULARY: bytes(2**28 + 1)}, "vocabulary.spm has 268435457 bytes, more than 268435456"),
    ],
    ids=range(8),
)
def test_an_archive_with_other_contents(tmp_path, fp32_file, model, changes, message):
    changes = {
        name: json.dumps({**model.facts, **content}) if isinstance(content, dict) else content
        for name, content in changes.items()
    }
    path = _repacked(fp32_file, tmp_path / "m.tflite", changes)
    with pytest.raises(ValueError) as error:
        EdgeModel(str(path))
    assert str(error.value).startswith(f"{path} is not a file of export.tflite")
    assert message in str(error.value)


def test_an_archive_that_says_less_than_unpacks(tmp_path, fp32_file):
    path = _repacked(fp32_file, tmp_path / "m.tflite", {VOCABULARY: bytes(10**8)})
    said, less = (10**8).to_bytes(4, "little"), (1000).to_bytes(4, "little")
    content = path.read_bytes()
    assert content.count(said) == 2  # in front of the file, and in the list at the end
    path.write_bytes(content.replace(said, less))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"m.tflite is not a file of export.tflite"):
        EdgeModel(str(path))
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


class SlowInterpreter:
    """Adds one to its input, in two halves of a run."""

    def __init__(self):
        self.filled, self.begun = [], threading.Event()

    def get_input_details(self):
        return [{"index": 0}]

    get_output_details = get_input_details

    def resize_tensor_input(self, index, shape):
        pass

    def allocate_tensors(self):
        pass

    def set_tensor(self, index, array):
        self.input = array
        self.filled.append(threading.current_thread())

    def invoke(self):
        self.begun.set()
        time.sleep(0.2)  # in which another thread could fill the input
        self.output = self.input + 1

    def get_tensor(self, index):
        return self.output


def test_threads_that_share_an_interpreter_get_answers_of_their_own():
    interpreter = SlowInterpreter()
    run = edge_model.runner(interpreter)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, np.array([[1]]))
        assert interpreter.begun.wait(60)
        second = pool.submit(run, np.array([[7, 8]]))
        assert (first.result().tolist(), second.result().tolist()) == ([[2]], [[8, 9]])
    assert len({*interpreter.filled}) == 2


RUNNER = """
import runpy, sys
try:
    runpy.run_module("export.run_tflite", run_name="__main__", alter_sys=True)
finally:
    heavy = {"convnlp.models", "keras", "keras_hub", "tensorflow", "tensorflow_text"} & set(sys.modules)
    print("imported:", sorted(heavy), file=sys.stderr)
"""


def run_tflite(*flags, stdin=None, home=None):
    command = [sys.executable, "-c", RUNNER, *flags]
    environment = os.environ | ({"HOME": str(home)} if home else {})
    return subprocess.run(
        command, cwd=ROOT, env=environment, input=stdin, capture_output=True, text=True, check=False
    )


COPIES = """
import runpy, sys
sys.path.insert(0, ".")
for name in ("convnlp", "export", "tensorflow"):
    sys.modules[name] = None  # importing it now raises ImportError
runpy.run_path("run_tflite.py", run_name="__main__")
"""


@pytest.mark.multiprocess
def test_copies_of_the_two_files_answer_alone(tmp_path, fp32_file):
    for name in ("edge_model.py", "run_tflite.py"):
        shutil.copy(os.path.join(ROOT, "export", name), tmp_path)
    command = [sys.executable, "-I", "-c", COPIES, f"--model={fp32_file}", "--text=one"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["scores"]) == set(LABELS)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_a_machine_that_has_only_what_the_page_names(tmp_path, fp32_file, model):
    """In a virtual environment with the packages that docs/edge.md installs, and nothing else of ours."""
    page = pathlib.Path(ROOT, "docs", "edge.md").read_text(encoding="utf-8")
    packages = re.search(r"`pip install ([^`]+)`, then copies of", page)[1].split()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "device"], check=True)
    python = tmp_path / "device" / "bin" / "python"
    pins = pathlib.Path(ROOT, "requirements.txt")
    install = [python, "-m", "pip", "install", "--quiet", *packages, "--constraint", pins]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    there = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert "tensorflow" not in there
    for name in ("edge_model.py", "run_tflite.py"):
        shutil.copy(os.path.join(ROOT, "export", name), tmp_path)
    command = [python, "run_tflite.py", f"--model={fp32_file}", *(f"--text={text}" for text in TEXTS)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for answer, expected in zip(answers, model.predict(TEXTS), strict=True):
        assert answer["label"] == expected["label"]
        assert answer["scores"] == pytest.approx(expected["scores"], abs=5e-6)


def test_a_text_too_long_is_cut_where_the_metadata_says(model, fp32_file):
    """By the runner, which keeps the end token, and by the model itself, whatever is beyond."""
    long = " ".join(["the old captain repairs the broken clock"] * 40)
    ids = model.token_ids([long])
    assert ids.shape == (1, LENGTH)
    assert ids[0, -1] == model.facts["end_token_id"]
    assert model.facts["sequence_length"] == LENGTH
    expected = model.run(ids)
    for beyond in (np.full([1, 7], 5, np.int32), np.full([1, 300], 9, np.int32)):
        np.testing.assert_allclose(model.run(np.concatenate([ids, beyond], 1)), expected, atol=1e-6)
    # In the flatbuffer itself, which ends where the archive begins.
    assert b"Ids beyond %d positions are cut off." % LENGTH in fp32_file.read_bytes()


@pytest.mark.multiprocess
def test_runner_needs_no_tensorflow(model, fp32_file, tmp_path):
    lines = [{"text": TEXTS[0]}, {"text": TEXTS[1], "text_pair": PAIRS[1]}, {"text": TEXTS[2]}]
    blank = "\n \t\n"  # such lines are skipped, as by the other programs
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(line) + "\n" + blank for line in lines))
    done = run_tflite(f"--model={fp32_file}", f"--text={TEXTS[2]}", f"--input={tmp_path / 'texts.jsonl'}")
    assert done.returncode == 0, done.stderr
    assert "imported: []" in done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    expected = model.predict([TEXTS[2], TEXTS[0]]) + model.predict([TEXTS[1]], [PAIRS[1]])
    expected += model.predict([TEXTS[2]])
    assert [answer["label"] for answer in answers] == [answer["label"] for answer in expected]
    for answer, other in zip(answers, expected, strict=True):
        # Other batches, so sums over other numbers of zeros.
        assert answer["scores"] == pytest.approx(other["scores"], abs=5e-6)

    done = run_tflite(f"--model={fp32_file}", "--input=-", stdin="one\ntwo\n")
    assert [sorted(json.loads(line)) for line in done.stdout.splitlines()] == [["label", "scores"]] * 2


@pytest.mark.multiprocess
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('{"text": 2}', 'not a JSON object whose "text" is a string'),
        ("[" * 100_000, 'not a JSON object whose "text" is a string'),
        ('{"text": "one", "text_pair": "\\udfff"}', "half of a surrogate pair in a text"),
    ],
    ids=range(3),
)
def test_a_line_that_is_no_example_is_named(fp32_file, tmp_path, wrong, message):
    path = tmp_path / "wrong.jsonl"
    path.write_text(f'{{"text": "one"}}\n{wrong}\n')
    done = run_program("convnlp.export.run_tflite", f"--model={fp32_file}", f"--input={path}")
    assert (done.returncode, done.stdout) == (1, "")
    # LiteRT writes lines of its own, before or after.
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert errors == [f"error: {path}, line 2: {message}"]


@pytest.mark.multiprocess
def test_a_file_that_is_not_there_is_one_line(tmp_path):
    done = run_program("convnlp.export.run_tflite", f"--model={tmp_path / 'none.tflite'}", "--text=one")
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in done.stderr


@pytest.mark.multiprocess
def test_an_argument_of_no_flag_is_one_line():
    done = run_program("convnlp.export.run_tflite", "--model=none", "--text=one", "fine")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == (
        "error: a value must follow its flag as --flag=value, in quotes if it contains spaces. "
        "Received: 'fine', which belongs to no flag"
    )


@pytest.mark.multiprocess
def test_a_reader_that_has_seen_enough_ends_the_runner_without_a_word(fp32_file):
    reader, writer = os.pipe()
    os.close(reader)
    with tempfile.TemporaryFile() as stderr, open(writer, "wb") as stdout:
        flags = f"--model={fp32_file}", "--text=one"
        done = Program("convnlp.export.run_tflite", *flags, stdout=stdout, stderr=stderr)
        assert done.wait(300) == 128 + signal.SIGPIPE
        stderr.seek(0)
        assert b"error" not in stderr.read()  # only what LiteRT notes on its start


@pytest.mark.multiprocess
def test_lines_are_read_as_by_the_other_programs(model, fp32_file, tmp_path):
    """From the home directory; a byte-order mark is no part of a text, and a carriage return ends none."""
    shutil.copy(fp32_file, tmp_path / "m.tflite")
    (tmp_path / "texts.txt").write_bytes("\ufeffthe river\r\nthe old\rcaptain\n".encode())
    done = run_tflite("--model=~/m.tflite", "--input=~/texts.txt", home=tmp_path)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    expected = model.predict(["the river", "the old\rcaptain"])
    assert [answer["label"] for answer in answers] == [answer["label"] for answer in expected]
    for answer, other in zip(answers, expected, strict=True):
        assert answer["scores"] == pytest.approx(other["scores"], abs=5e-6)
    (tmp_path / "texts.txt").write_bytes(b"one\n\xff\n")
    done = run_tflite(f"--model={fp32_file}", f"--input={tmp_path / 'texts.txt'}")
    assert done.returncode == 1
    assert f"error: {tmp_path}/texts.txt, line 2: not UTF-8" in done.stderr


def test_metadata_is_what_tflite_support_reads(fp32_file):
    """Read by hand, field by field, as the generated classes of metadata_schema.fbs do."""
    content = fp32_file.read_bytes()
    model = schema.Model.GetRootAs(content, 0)
    entries = {model.Metadata(i).Name(): model.Metadata(i).Buffer() for i in range(model.MetadataLength())}
    assert b"min_runtime_version" in entries  # the converter's own are still there
    buffer = model.Buffers(entries[metadata.ENTRY.encode()]).DataAsNumpy().tobytes()
    assert buffer[4:8] == b"M001"
    root = Table.root(buffer)
    assert root.string(0) == "convnlp"
    assert root.string(7) == "1.1.0"
    (graph,) = root.tables(3)
    (source,), (target,) = graph.tables(2), graph.tables(3)
    assert (source.string(0), target.string(0)) == ("token_ids", "logits")
    assert f"beyond {LENGTH} positions" in source.string(1)
    (unit,) = source.tables(4)
    assert unit.byte(0) == 5  # SentencePieceTokenizerOptions
    (vocabulary,) = unit.table(1).tables(0)
    (labels,) = target.tables(6)
    assert (vocabulary.string(0), labels.string(0)) == ("vocabulary.spm", "labels.txt")
    assert (vocabulary.byte(2), labels.byte(2)) == (0, 2)  # UNKNOWN, TENSOR_AXIS_LABELS
    with zipfile.ZipFile(fp32_file) as archive:
        assert archive.testzip() is None
        facts = json.loads(archive.read("model.json"))
    assert facts["labels"] == LABELS
    assert facts["sequence_length"] == LENGTH


class Table:
    """A table of a flatbuffer, by the numbers of its fields."""

    def __init__(self, buffer, position):
        import flatbuffers

        self._table = flatbuffers.table.Table(buffer, position)

    @classmethod
    def root(cls, buffer):
        return cls(buffer, int.from_bytes(buffer[:4], "little"))

    def _offset(self, field):
        offset = self._table.Offset(4 + 2 * field)
        assert offset, field
        return offset + self._table.Pos

    def string(self, field):
        return self._table.String(self._offset(field)).decode()

    def byte(self, field):
        offset = self._table.Offset(4 + 2 * field)
        return self._table.Bytes[offset + self._table.Pos] if offset else 0

    def table(self, field):
        return Table(self._table.Bytes, self._table.Indirect(self._offset(field)))

    def tables(self, field):
        start = self._table.Vector(self._offset(field) - self._table.Pos)
        count = self._table.VectorLen(self._offset(field) - self._table.Pos)
        return [Table(self._table.Bytes, self._table.Indirect(start + 4 * i)) for i in range(count)]
