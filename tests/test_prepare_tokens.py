"""`convnlp prepare-tokens` as a user runs it, `kill -9` in its middle, and a training on its cache."""

import json
import signal

import pytest

from tests import corpus
from tests.run_program import Program, run_program
from tests.test_pretrain import TINY

pytestmark = pytest.mark.multiprocess


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Some files of documents, and a tokenizer."""
    folder = tmp_path_factory.mktemp("inputs")
    for number in range(3):
        rows = [{"body": text} for text in corpus.documents(150, seed=number)]
        corpus.write_jsonl(folder / f"{number}.jsonl.gz", rows)
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    return folder


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_killed_and_started_again_it_writes_the_same_bytes(folder, tmp_path):
    source = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in corpus.documents(400)])

    def write(name, number):
        arguments = f"jsonl:{source}", f"{folder}/spm.model", f"{tmp_path}/{name}", number
        return Program("tests.data.dying_writer", *arguments).wait(timeout=300)

    assert write("whole", 0) == 0
    # Of the job; of the tokens of the second shard; of its facts; of the manifest.
    last = len(contents(tmp_path / "whole"))
    for number in (1, 5, 3, last - 1 - 3):
        assert write("killed", number) == -signal.SIGKILL
        assert not (tmp_path / "killed" / "manifest.json").exists()
    assert write("killed", 0) == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert len(json.loads((tmp_path / "whole" / "manifest.json").read_text())["shards"]) > 4


def test_from_files_to_a_trained_model(folder, tmp_path):
    cache = tmp_path / "cache"
    flags = [f"--tokenizer={folder}/spm.model", f"--output={cache}"]
    command = ["convnlp.prepare_tokens", f"--source=jsonl:{folder}/*.jsonl.gz", *flags]
    done = run_program(*command)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{cache}: 450 documents, ")
    assert done.stdout.endswith(f" tokens in 1 shard; read it as tokens:{cache}\n")
    whole = contents(cache)
    again = run_program(*command)
    assert again.stdout == done.stdout
    assert contents(cache) == whole

    training = ["convnlp.pretrain", *TINY, "--config.train.num_steps=4", "--config.train.num_samples=0"]
    training += [f"--config.data.source=tokens:{cache}", f"--workdir={tmp_path}/run"]
    trained = run_program(*training, f"--config.tokenizer={folder}/spm.model")
    assert trained.returncode == 0, trained.stderr
    recorded = json.loads((tmp_path / "run" / "config.json").read_text())["inputs"]["data.source"]
    assert list(recorded) == ["tokens:manifest.json"]
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["valid/loss"] > 0

    others = [flag for flag in training[:-1] if not flag.startswith("--config.model.")]
    other = run_program(*others, f"--workdir={tmp_path}/other", "--config.init_from=dynamic_conv_mini_en")
    assert other.returncode == 1
    assert f"error: tokens:{cache}, split train[2%:] was made with another tokenizer" in other.stderr
    assert other.stderr.count("Traceback") == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--text_fields=text"], "Exactly one of `--tokenizer` and `--preset` must be given."),
        (["--preset=nothing"], "nothing"),
        (["--tokenizer=spm.model", "--output=gs://bucket/cache"], "`output` must be on a local disk"),
        (["--tokenizer=spm.model", "--source=tokens:other"], "holds token ids and no text"),
        (["--tokenizer=spm.model", "--output=spm.model"], "`output` must be a directory, not a file"),
    ],
)
def test_a_mistake_is_one_line(folder, tmp_path, flags, message):
    flags = [flag.replace("spm.model", f"{folder}/spm.model") for flag in flags]
    done = run_program(
        "convnlp.prepare_tokens", f"--source=jsonl:{folder}/*", f"--output={tmp_path}/cache", *flags
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert message in done.stderr.splitlines()[-1]
    assert not (tmp_path / "cache").exists()


def test_another_directory_is_refused_before_anything_is_read(folder, tmp_path):
    (tmp_path / "notes.txt").write_text("something else")
    done = run_program(
        "convnlp.prepare_tokens",
        f"--source=jsonl:{folder}/none.jsonl",
        f"--tokenizer={folder}/none.model",
        f"--output={tmp_path}",
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: `output` must be a new or empty directory. ")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
