"""`convnlp predict`, `explain` and `embed`, as a user runs them."""

import csv
import gzip
import json
import os
import signal
import tempfile
import time

import numpy as np
import pytest
import tensorflow as tf

from convnlp.export.saved_models.signatures import servable
from convnlp.models import (
    MultiLabelClassifier,
    PrefixLM,
    PrefixLMPreprocessor,
    QuestionAnswerer,
    QuestionAnswererPreprocessor,
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
    TextRegressor,
    Tokenizer,
)
from convnlp.prediction import asking
from tests import corpus
from tests.run_program import Program, run_program

pytestmark = pytest.mark.multiprocess
LONG = "the river finds an old captain " * 9  # more than the 24 tokens that the models read
TEXTS = ["the river", "", "an old captain repairs the engine 😀"]
LABELS = ["bad", "good", "other"]


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    """A folder of presets, and the models by name."""
    folder = tmp_path_factory.mktemp("presets")
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16, dropout=0.0)
    decoder = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16, num_decoder_layers=0, dropout=0.0)
    preprocessor = TextClassifierPreprocessor(tokenizer, 24)
    models = {
        "classifier": TextClassifier(backbone, 3, preprocessor, labels=LABELS),
        "tagger": MultiLabelClassifier(backbone, 3, preprocessor, labels=LABELS),
        "regressor": TextRegressor(backbone, preprocessor, mean=3.0, scale=2.0),
        "answerer": QuestionAnswerer(
            backbone, QuestionAnswererPreprocessor(tokenizer, 24, stride=8, max_answer_length=4)
        ),
        "lm": Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 24, 8)),
        "prefix_lm": PrefixLM(decoder, PrefixLMPreprocessor(tokenizer, 24)),
    }
    for name, model in models.items():
        model.save_to_preset(str(folder / name))
    encoder = backbone.encoder_only()
    encoder.save_to_preset(str(folder / "encoder"))
    tokenizer.save_to_preset(str(folder / "encoder"))
    return folder, models


def run(program, *arguments, **options):
    done = run_program(f"convnlp.{program}", *arguments, **options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def error(program, *arguments, **options):
    done = run_program(f"convnlp.{program}", *arguments, **options)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def probabilities(model):
    return tf.nn.softmax(model.predict(TEXTS, verbose=0)).numpy()


def test_given_texts(presets):
    folder, models = presets
    found = run("predict", f"--preset={folder}/classifier", *[f"--text={text}" for text in TEXTS])
    expected = probabilities(models["classifier"])
    assert [row["text"] for row in found] == TEXTS
    assert [row["label"] for row in found] == [LABELS[i] for i in expected.argmax(1)]
    np.testing.assert_allclose([row["probability"] for row in found], expected.max(1), rtol=1e-5)
    assert set(found[0]) == {"text", "label", "probability"}


def test_lines_with_all_scores_and_a_threshold(presets):
    folder, models = presets
    flags = [f"--preset={folder}/classifier", "--scores", "--threshold=1.0", "--batch_size=2"]
    found = run("predict", *flags, stdin="\r\n".join(TEXTS))
    expected = probabilities(models["classifier"])
    assert [row["text"] for row in found] == TEXTS
    assert [list(row["scores"]) for row in found] == [LABELS] * 3
    np.testing.assert_allclose([list(row["scores"].values()) for row in found], expected, rtol=1e-5)
    assert [row["label"] for row in found] == [None] * 3  # none is that sure


def test_a_table_keeps_its_columns(presets, tmp_path):
    folder, models = presets
    with open(tmp_path / "in.csv", "w", newline="", encoding="utf-8") as file:
        rows = [[i, text, "?"] for i, text in enumerate(TEXTS)]
        csv.writer(file).writerows([["id", "review", "label"], *rows])
    source = f"--source=csv:{tmp_path}/in.csv"
    done = run_program(
        "convnlp.predict", f"--preset={folder}/classifier", source, f"--output={tmp_path}/out.csv"
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "using 'review' as text_field" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("3 texts in ")
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["id", "review", "label", "predicted_label", "probability"]
    expected = probabilities(models["classifier"])
    assert [row["predicted_label"] for row in found] == [LABELS[i] for i in expected.argmax(1)]
    assert [(row["id"], row["review"], row["label"]) for row in found] == [
        (str(i), text, "?") for i, text in enumerate(TEXTS)
    ]


def test_a_table_of_all_scores_whatever_the_output_is_called(presets, tmp_path):
    folder, models = presets
    path = corpus.write_jsonl(
        tmp_path / "in.jsonl", [{"remark": text, "id": i} for i, text in enumerate(TEXTS)]
    )
    flags = ["--scores", "--threshold=1.0", "--text_field=remark", "--format=tsv"]
    output = tmp_path / "out.txt.gz"
    run("predict", f"--preset={folder}/classifier", f"--source=jsonl:{path}", *flags, f"--output={output}")
    header, *found = csv.reader(gzip.decompress(output.read_bytes()).decode().splitlines(), delimiter="\t")
    assert header == ["remark", "id", "label", "probability", *(f"scores.{label}" for label in LABELS)]
    assert [row[:3] for row in found] == [[text, str(i), ""] for i, text in enumerate(TEXTS)]
    expected = probabilities(models["classifier"])
    np.testing.assert_allclose([[float(cell) for cell in row[4:]] for row in found], expected, rtol=1e-5)


def test_pairs(presets):
    folder, models = presets
    found = run("predict", f"--preset={folder}/classifier", "--text=a boat", "--text_pair=the river")
    logits = models["classifier"].predict((tf.constant(["a boat"]), tf.constant(["the river"])), verbose=0)
    assert found[0]["text_pair"] == "the river"
    assert found[0]["probability"] == pytest.approx(float(tf.nn.softmax(logits).numpy().max()), rel=1e-5)


def test_several_labels(presets):
    folder, models = presets
    expected = tf.sigmoid(models["tagger"].predict(TEXTS, verbose=0)).numpy()
    for threshold in (None, 0.4):
        flags = [] if threshold is None else [f"--threshold={threshold}"]
        found = run("predict", f"--preset={folder}/tagger", *flags, *[f"--text={text}" for text in TEXTS])
        names = [[LABELS[i] for i in np.flatnonzero(row >= (threshold or 0.5))] for row in expected]
        assert [row["labels"] for row in found] == names


def test_text_to_text(presets):
    folder, models = presets
    found = run("predict", f"--preset={folder}/lm", *[f"--text={text}" for text in TEXTS])
    expected = models["lm"].generate(TEXTS)
    assert [row["generated_text"] for row in found] == expected


def test_numbers(presets):
    folder, models = presets
    found = run("predict", f"--preset={folder}/regressor", *[f"--text={text}" for text in TEXTS])
    assert [[*row] for row in found] == [["text", "score"]] * 3
    expected = models["regressor"].predict(TEXTS, verbose=0)[:, 0]
    np.testing.assert_allclose([row["score"] for row in found], expected, rtol=1e-5)


def test_texts_that_go_on(presets):
    folder, models = presets
    (row,) = run("predict", f"--preset={folder}/prefix_lm", f"--text={TEXTS[0]}")
    length = len(models["prefix_lm"].preprocessor.tokenizer(TEXTS[0])) + 24 // 2  # half of a row is new
    assert row == {
        "text": TEXTS[0],
        "generated_text": models["prefix_lm"].generate(TEXTS[0], max_length=length),
    }


def test_explained_words(presets):
    folder, models = presets
    found = run("explain", f"--preset={folder}/classifier", *[f"--text={text}" for text in TEXTS])
    assert [" ".join(word for word, _ in row["words"]) for row in found][:2] == TEXTS[:2]
    assert found[1]["words"] == []
    model = models["classifier"]
    tokenizer = model.preprocessor.tokenizer
    pieces = list(tokenizer("the river").numpy())
    rows = [pieces, *(pieces[:i] + pieces[i + 1 :] for i in range(len(pieces)))]  # whole, and without each
    ids = tf.ragged.constant([[*row, tokenizer.end_token_id] for row in rows], dtype=tf.int32).to_tensor()
    logs = tf.nn.log_softmax(model({"token_ids": ids, "padding_mask": ids != 0})).numpy()
    weights = logs[0, logs[0].argmax()] - logs[1:, logs[0].argmax()]
    starts = [tokenizer.id_to_token(int(piece)).startswith("\u2581") for piece in pieces]
    words = np.cumsum(starts) - 1
    assert words[-1] == 1
    expected = [weights[words == word].sum() for word in (0, 1)]
    assert [weight for _, weight in found[0]["words"]] == pytest.approx(expected, rel=1e-2, abs=1e-5)


def test_explained_words_of_a_pair(presets):
    folder, models = presets
    texts = ("the river", "an old captain")
    flags = [f"--text={texts[0]}", f"--text_pair={texts[1]}"]
    (row,) = run("explain", f"--preset={folder}/classifier", *flags)
    found = [*row["words"], *row["words_pair"]]
    assert [" ".join(word for word, _ in row[name]) for name in ("words", "words_pair")] == [*texts]
    model = models["classifier"]
    tokenizer = model.preprocessor.tokenizer
    pieces, end = [list(tokenizer(text).numpy()) for text in texts], tokenizer.end_token_id

    def log_probabilities(first, second):
        ids = np.array([[*first, end, *second, end]], np.int32)
        return tf.nn.log_softmax(model({"token_ids": ids, "padding_mask": ids != 0}))[0].numpy()

    whole = log_probabilities(*pieces)
    label = whole.argmax()
    assert row["label"] == LABELS[label]
    expected = []
    for i, text in enumerate(pieces):
        for t, piece in enumerate(text):
            if tokenizer.id_to_token(int(piece)).startswith("\u2581"):
                expected.append(0.0)
            without = [*pieces]
            without[i] = text[:t] + text[t + 1 :]
            expected[-1] += whole[label] - log_probabilities(*without)[label]
    assert [weight for _, weight in found] == pytest.approx(expected, rel=1e-2, abs=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "layers"])
def test_vectors_of_any_preset(presets, tmp_path, pooling):
    folder, models = presets
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    source = f"--source=jsonl:{tmp_path}/in.jsonl"
    flags = [source, f"--pooling={pooling}", f"--output={tmp_path}/v.npy", "--sequence_length=24"]
    run("embed", f"--preset={folder}/encoder", *flags)
    model = models["classifier"]
    expected = np.asarray(model.pooled(model.preprocessor(tf.constant(TEXTS), y=None), pooling))
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    rows = run("embed", f"--preset={folder}/classifier", f"--pooling={pooling}", f"--text={TEXTS[2]}")
    np.testing.assert_allclose(rows[0]["embedding"], expected[2], atol=1e-5)


@pytest.mark.parametrize("name", ["classifier", "lm", "prefix_lm"])
def test_vectors_are_those_of_the_exported_signature_for_longer_texts_too(presets, name):
    folder, models = presets
    (row,) = run("embed", f"--preset={folder}/{name}", f"--text={LONG}")
    exported = servable(models[name]).signatures["embed"]
    np.testing.assert_allclose(row["embedding"], exported(tf.constant([LONG]))["embedding"][0], atol=1e-5)


def test_an_encoder_alone_reads_1024_tokens_and_says_what_it_cuts(presets):
    folder, models = presets
    longer = "the river finds an old captain " * 400
    flags = [f"--preset={folder}/encoder", f"--text={LONG}", f"--text={longer}"]
    done = run_program("convnlp.embed", *flags)
    vectors = [json.loads(line)["embedding"] for line in done.stdout.splitlines()]
    rows = TextClassifierPreprocessor(models["lm"].preprocessor.tokenizer, 1024)(tf.constant([LONG, longer]))
    np.testing.assert_allclose(vectors, models["classifier"].pooled(rows, "mean"), atol=1e-5)
    assert done.stderr == "1 of 2 texts have more than 1023 tokens and are cut\n"
    done = run_program("convnlp.embed", *flags, "--sequence_length=20000")
    assert done.stderr == ""


def test_a_model_of_pairs_has_vectors_of_single_texts(presets):
    folder, models = presets
    models["classifier"].save_to_preset(str(folder / "pairs"))
    task = {"kind": "classification", "text_field": "premise", "second_text_field": "hypothesis"}
    (folder / "pairs" / "experiment.json").write_text(
        json.dumps({"task": task, "data": {"input_length": 24}})
    )
    (row,) = run("embed", f"--preset={folder}/pairs", f"--text={TEXTS[2]}")
    inputs = models["classifier"].preprocessor(tf.constant(TEXTS[2:]), y=None)
    np.testing.assert_allclose(row["embedding"], models["classifier"].pooled(inputs, "mean")[0], atol=1e-5)
    assert "so it must be asked about pairs" in error("predict", f"--preset={folder}/pairs", "--text=a")


def test_fields_are_looked_for_before_a_preset_is_loaded(presets, tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c\nx,y,z\n")
    message = error("embed", f"--preset={tmp_path}", f"--source=csv:{tmp_path}/a.csv")
    assert "no field 'text' (available: 'a', 'b', 'c')" in message


@pytest.mark.parametrize(
    ("program", "flags", "message"),
    [
        ("predict", ["--preset=none"], "preset none: no such directory"),
        ("predict", ["--preset={}/classifier"], "there is no text: give --source"),
        ("predict", ["--preset={}/classifier", "--text=a", "--text_pair=b", "--text_pair=c"], "as often as"),
        ("predict", ["--preset={}/classifier", "--text=a", "--source=csv:x.csv"], "beside `text`"),
        ("predict", ["--preset={}/classifier", "--text=a", "--text_fields=b"], "only be given for a source"),
        ("predict", ["--preset={}/classifier", "--text=a", "--split=test"], "only be given for a source"),
        ("predict", ["--preset={}/classifier", "--source=csv:none.csv"], "no such file: none.csv"),
        ("predict", ["--preset={}/classifier", "--source=tfds:glue/sst2"], "must be files, such as csv:GLOB"),
        (
            "predict",
            ["--preset={}/classifier", "--text=a", "--output=a.txt"],
            ".jsonl, .csv, .tsv. Received: output=a.txt",
        ),
        (
            "predict",
            ["--preset={}/classifier", "--text=a", "--output=a.csv", "--format=jsonl"],
            "`format` must be the one that `output` ends in. Received: format=jsonl, output=a.csv",
        ),
        (
            "predict",
            ["--preset={}/classifier", "--text=b\udcffd"],
            r"`text` must be UTF-8. Received: text='b\udcffd'",
        ),
        (
            "embed",
            ["--preset={}/encoder", "--text=a", "--text_pair=\udcff"],
            r"`text_pair` must be UTF-8. Received: text_pair='\udcff'",
        ),
        ("predict", ["--preset={}/lm", "--text=a", "--output="], "`output` must not be empty"),
        ("predict", ["--preset={}/lm", "--text=a", "--threshold=0.5"], "that chooses labels"),
        ("predict", ["--preset={}/lm", "--text=a", "--scores"], "`scores` must only be given"),
        (
            "predict",
            ["--preset={}/prefix_lm", "--text=a", "--text_pair=b"],
            "`preset` must read pairs for two texts each. Received: a PrefixLM",
        ),
        ("predict", ["--preset={}/encoder", "--text=a"], "Fine-tune it with convnlp finetune"),
        ("explain", ["--preset={}/tagger", "--text=a"], "must be a classifier with one label"),
        ("explain", ["--preset={}/classifier", "--text=a", "--output=a.csv"], "must end in one of .jsonl."),
        ("embed", ["--preset={}/encoder", "--text=a", "--output=a.csv"], "must end in one of .jsonl, .npy"),
        ("embed", ["--preset={}/encoder", "--text=a", "--output=a.npy.gz"], "must end in one of .jsonl.gz."),
    ],
)
def test_one_clear_line(presets, tmp_path, program, flags, message):
    line = error(program, *[flag.format(presets[0]) for flag in flags])
    assert line.startswith("error: ")
    assert message in line


def test_texts_that_say_nothing_are_counted(presets):
    texts = ["the river", "", " \u00a0\t", "a"]
    flags = [f"--preset={presets[0]}/classifier", *[f"--text={text}" for text in texts]]
    done = run_program("convnlp.predict", *flags)
    assert len(done.stdout.splitlines()) == 4
    assert done.stderr.splitlines()[-1].startswith("2 of 4 texts are blank: ")
    done = run_program("convnlp.predict", flags[0], "--text=a", "--text_pair=")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_is_asked_to_end_leaves_no_partial_output(presets, tmp_path):
    reader, writer = os.pipe()  # which stays open: there may be more texts
    with open(reader, "rb") as stdin, open(writer, "wb"):
        flags = [f"--preset={presets[0]}/classifier", f"--output={tmp_path}/found.jsonl"]
        program = Program("convnlp.predict", *flags, stdin=stdin)
        while not list(tmp_path.glob("found.jsonl.*.tmp")):
            assert program.poll() is None
            time.sleep(0.05)
        os.kill(program.pid, signal.SIGTERM)
        assert program.wait(300) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", ["predict", "generate"])
def test_a_reader_that_has_seen_enough_ends_the_program_without_a_word(presets, program):
    preset = presets[0] / {"predict": "classifier", "generate": "lm"}[program]
    reader, writer = os.pipe()
    os.close(reader)
    with tempfile.TemporaryFile() as stderr, open(writer, "wb") as stdout:
        done = Program(
            f"convnlp.{program}", f"--preset={preset}", "--text=the river", stdout=stdout, stderr=stderr
        )
        assert done.wait(300) == 128 + signal.SIGPIPE
        stderr.seek(0)
        assert stderr.read() == b""


def test_more_texts_than_are_read_at_once(presets, tmp_path):
    number = asking.CHUNK + 3
    rows = [{"id": i, "text": TEXTS[i % 3]} for i in range(number)]
    source = f"--source=jsonl:{corpus.write_jsonl(tmp_path / 'in.jsonl', rows)}"
    flags = [f"--preset={presets[0]}/classifier", source, f"--output={tmp_path}/out.jsonl.gz"]
    run("predict", *flags)
    packed = (tmp_path / "out.jsonl.gz").read_bytes()
    found = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    assert [(row["id"], row["text"]) for row in found] == [(row["id"], row["text"]) for row in rows]
    expected = [LABELS[i] for i in probabilities(presets[1]["classifier"]).argmax(1)]
    assert [row["label"] for row in found] == [expected[i % 3] for i in range(number)]

    corpus.write_jsonl(tmp_path / "in.jsonl", [*rows, {"text": 7}])  # found when the first are written
    line = error("predict", *flags)
    assert line.endswith(f"in.jsonl, line {number + 1}: `text` must be a string. Received: 7")
    assert (tmp_path / "out.jsonl.gz").read_bytes() == packed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl.gz"]


def test_an_output_is_not_written_over_the_input(presets, tmp_path):
    path = corpus.write_jsonl(tmp_path / "in.jsonl", [{"text": "the river"}])
    line = error("predict", f"--preset={presets[0]}/classifier", f"--source=jsonl:{path}", f"--output={path}")
    assert "must not overwrite the input" in line


def test_a_line_that_is_no_text(presets):
    line = error("predict", f"--preset={presets[0]}/classifier", stdin="fine\n\udcff")
    assert line == "error: standard input, line 2: not UTF-8 (byte 1)"


def test_questions_are_answered_from_their_contexts(presets, tmp_path):
    folder, models = presets
    contexts = [" ".join(corpus.documents(3)), "Gr\u00fc\u00dfe from the river"]
    rows = [{"question": "who", "context": text, "answer": "x"} for text in contexts]
    source = corpus.write_jsonl(tmp_path / "a.jsonl", rows)
    fields = "--text_fields=question,context"
    found = run("predict", f"--preset={folder}/answerer", f"--source=jsonl:{source}", fields)
    expected = models["answerer"].predict(["who"] * 2, contexts)
    for row, record, answer in zip(found, rows, expected, strict=True):
        assert {name: row[name] for name in record} == record
        assert row["predicted_answer"] == answer["answer"] == record["context"][row["start"] : row["end"]]
        assert row["score"] == pytest.approx(answer["score"], rel=1e-4)
    message = error("predict", f"--preset={folder}/answerer", "--text=who")
    assert "`text_pair` must be given with `text`" in message
