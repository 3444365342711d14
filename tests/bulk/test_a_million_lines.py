"""A million lines of real text, killed in the middle: each has one answer or one reason why not."""

import gzip
import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from convnlp.data import pydocs
from tests import corpus
from tests.run_program import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.beam,
    pytest.mark.multiprocess,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not importlib.util.find_spec("apache_beam"), reason="Apache Beam is not installed"),
]
COUNT, SHARD = 1_000_000, 10_000
KILL_AT = 30  # shards
# TensorFlow, Keras and Beam have some 1.2 GB; to that come a few shards.
MAX_MEGABYTES = 2000
BAD = {0: b"\n", 1: b'{"id": 1, "text": \n', 2: b'{"id": 2}\n', 3: b"\xff\n"}


def real_lines():
    """Lines of the documentation of the installed Python, again from the first one where they end."""
    with gzip.open(pydocs.path(), "rt", encoding="utf-8") as file:
        documents = [json.loads(line)["text"] for line in file]
    lines = [line for text in documents for line in text.splitlines() if len(line) > 20]
    return itertools.cycle(lines)


def write(folder):
    """Writes three files; returns {id: text} of the good lines, and (file, line) of the bad ones."""
    texts, bad, source = {}, set(), enumerate(itertools.islice(real_lines(), COUNT))
    files = ("a.jsonl", 600_000, open), ("b.jsonl", 50_000, open), ("c.jsonl.gz", None, gzip.open)
    for name, count, open_file in files:
        path = f"{folder}/{name}"
        with open_file(path, "wb") as file:
            for line, (i, text) in enumerate(itertools.islice(source, count), 1):
                if i % 20_000 < len(BAD):
                    file.write(BAD[i % 20_000])
                    bad.add((path, line))
                else:
                    file.write(json.dumps({"id": i, "text": text}).encode() + b"\n")
                    texts[i] = text
    return texts, bad


def save_model(folder):
    """Exports the smallest classifier there is."""
    from convnlp.export.saved_models import versions
    from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer

    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), 1, 1, 8, 8, num_decoder_layers=0, max_sequence_length=32
    )
    classifier = TextClassifier(
        backbone, 2, TextClassifierPreprocessor(tokenizer, 32), labels=["bad", "good"]
    )
    classifier.save_to_preset(f"{folder}/preset")
    return versions.export(f"{folder}/preset", f"{folder}/model", check=False)[0]


def start(folder, model):
    command = [sys.executable, "-m", "convnlp.batch_predict", f"--model={model}", f"--shard_size={SHARD}"]
    command += [f"--input=jsonl:{folder}/*.jsonl*", f"--output={folder}/out", "--batch_size=256"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def done(folder):
    """{name: inode} of the predictions that are there."""
    if not os.path.isdir(f"{folder}/out"):
        return {}
    files = [file for file in os.scandir(f"{folder}/out") if file.name.startswith("predictions-")]
    return {file.name: file.inode() for file in files if file.name.endswith(".jsonl")}


def peak_megabytes(process):
    """The most memory that a running process has had; 0 after its end."""
    try:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            return max((int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM")), default=0)
    except FileNotFoundError:
        return 0


def test_each_line_has_one_answer_although_the_run_was_killed(tmp_path):
    texts, bad = write(tmp_path)
    assert len(texts) + len(bad) == COUNT
    model = save_model(tmp_path)
    started = time.monotonic()
    process = start(tmp_path, model)
    while len(done(tmp_path)) < KILL_AT:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = time.monotonic()
    kept = done(tmp_path)

    process, peak = start(tmp_path, model), 0
    while process.poll() is None:
        peak = max(peak, peak_megabytes(process))
        time.sleep(0.5)
    summary = process.stdout.read().splitlines()[-1]
    print(f"{killed - started:.0f} s to the kill, {time.monotonic() - killed:.0f} s after it, {peak} MB")
    print(summary)
    assert process.returncode == 0
    assert summary.startswith(f"{COUNT} examples: {len(texts)} predictions, {len(bad)} bad; 100 shards")
    files = done(tmp_path)
    assert len(files) == 100
    assert kept.items() <= files.items()  # a file that is written again has another inode
    assert peak < MAX_MEGABYTES

    for name in sorted(files):
        with open(f"{tmp_path}/out/{name}", encoding="utf-8") as file:
            for row in map(json.loads, file):
                assert texts.pop(row["input"]["id"]) == row["input"]["text"]  # there once, so not twice
                assert row["label"] in ("bad", "good")
                assert sum(row["scores"]) == pytest.approx(1, abs=1e-5)
    assert not texts
    for entry in os.scandir(f"{tmp_path}/out"):
        if entry.name.startswith("bad-"):
            with open(entry, encoding="utf-8") as file:
                for row in map(json.loads, file):
                    bad.remove((row["file"], row["line"]))
    assert not bad
