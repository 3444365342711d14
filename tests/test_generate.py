import json
import shutil

import pytest

from convnlp.models import (
    PrefixLM,
    PrefixLMPreprocessor,
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
)
from tests import corpus
from tests.run_program import run_program

pytestmark = pytest.mark.multiprocess
TEXTS = ["the river", "", "an old 😀 </s>"]


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets")
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16, dropout=0.0)
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 8))
    lm.save_to_preset(str(folder / "lm"))
    classifier = TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 12))
    classifier.save_to_preset(str(folder / "classifier"))
    return folder, lm


def test_one_line_per_text(presets):
    folder, lm = presets
    done = run_program("convnlp.generate", f"--preset={folder}/lm", *[f"--text={text}" for text in TEXTS])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == lm.generate(TEXTS)


def test_lines_of_the_standard_input_in_batches(presets):
    folder, lm = presets
    texts = [*TEXTS, "one\u2028line\fonly"]
    flags = ["--sampler=beam", "--num_beams=1", "--max_length=5", "--batch_size=2"]
    done = run_program("convnlp.generate", f"--preset={folder}/lm", *flags, stdin="\ufeff" + "\n".join(texts))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == lm.generate(texts, max_length=5)


def test_a_preset_of_another_class_is_one_line(presets, tmp_path):
    preset = tmp_path / "classifier"
    preset.mkdir()
    shutil.copy(presets[0] / "classifier" / "task.json", preset)  # nothing else is read
    done = run_program("convnlp.generate", f"--preset={preset}", "--text=a")
    assert done.returncode == 1
    expected = f"Received: preset={preset}, a TextClassifier"
    assert done.stderr.splitlines()[-1] == f"error: `preset` must hold a model that writes text. {expected}"
    assert "Traceback" not in done.stderr


def test_a_prompt_is_printed_as_it_was_given(presets, tmp_path):
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16, num_decoder_layers=0)
    lm = PrefixLM(backbone, PrefixLMPreprocessor(tokenizer, 12))
    lm.save_to_preset(str(tmp_path / "lm"))
    texts = ["the  ﬁne 😀", "", "the old\nriver ", "the captain paints the garden " * 9]
    flags = [*(f"--text={text}" for text in texts), "--max_length=9", "--batch_size=3"]
    done = run_program("convnlp.generate", f"--preset={tmp_path}/lm", *flags)
    assert done.returncode == 0, done.stderr
    added = lm.generate(texts, max_length=9, strip_prompt=True)
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == 4
    for line, text, more in zip(lines, texts, added, strict=True):
        prompt = text.rstrip().replace("\n", " ")
        assert line.startswith(prompt)
        assert line[len(prompt) :].lstrip() == more
    assert added[0]
    assert "only the last 8 tokens of 1 of 4 inputs are read" in done.stderr
    done = run_program("convnlp.generate", f"--preset={tmp_path}/lm", "--text=the river")
    assert "are read" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--text=b\udcffd"], r"`text` must be UTF-8. Received: text='b\udcffd'"),
        (["--text=a", "--sampler=top_k", "--top_k=201"], "`top_k` must be at most the vocabulary, 200."),
        (
            ["--text=a", "--num_beams=3"],
            "`num_beams` must only be given with --sampler=beam. Received: num_beams=3, sampler=greedy",
        ),
        (
            ["--text=a", "--sampler=beam", "--seed=3"],
            "`seed` must only be given with --sampler=top_k or top_p. Received: seed=3, sampler=beam",
        ),
    ],
)
def test_a_flag_that_cannot_be_is_one_line(presets, flags, message):
    done = run_program("convnlp.generate", f"--preset={presets[0]}/lm", *flags)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"error: {message}")


def test_a_preset_trained_on_pairs_is_not_asked_about_single_texts(presets):
    folder, lm = presets
    lm.save_to_preset(str(folder / "pairs"))
    task = {"kind": "text_to_text", "input_field": "question", "second_text_field": "passage"}
    (folder / "pairs" / "experiment.json").write_text(json.dumps({"task": task}))
    done = run_program("convnlp.generate", f"--preset={folder}/pairs", "--text=a")
    assert done.returncode == 1
    assert "was trained on question and passage; give both texts to convnlp predict" in done.stderr


def test_what_is_no_text_is_named_before_the_preset_is_read(tmp_path):
    done = run_program("convnlp.generate", f"--preset={tmp_path}/none", stdin="good\nb\udcffd\n")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: standard input, line 2: not UTF-8 (byte 2)"
