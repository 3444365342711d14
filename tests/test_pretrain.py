"""`convnlp.pretrain` as a user runs it: what it writes, and how it goes on after `kill -9`."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import time

import keras_nlp
import numpy as np
import pytest
import tensorflow as tf

import convnlp
from convnlp import programs
from tests import corpus
from tests.run_program import Program, run_program

pytestmark = pytest.mark.multiprocess

TINY = (
    "--config=configs/pretrain_mini.py:lightweight_conv",
    "--config.model.num_layers=1",
    "--config.model.num_decoder_layers=1",
    "--config.model.hidden_dim=16",
    "--config.model.intermediate_dim=32",
    "--config.model.num_heads=2",
    "--config.model.kernel_size=3,",
    "--config.model.dropout=0.1",
    "--config.data.input_length=16",
    "--config.data.shuffle_buffer=32",
    "--config.optimizer.warmup_steps=2",
    "--config.optimizer.decay_steps=4",
    "--config.train.batch_size=4",
    "--config.train.num_steps=8",
    "--config.train.steps_per_call=2",
    "--config.train.eval_every=4",
    "--config.train.eval_batches=1",
    "--config.train.checkpoint_every=2",
    "--config.train.num_samples=1",
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Flags that name a corpus and a tokenizer."""
    directory = tmp_path_factory.mktemp("inputs")
    source = corpus.write_jsonl(
        directory / "docs.jsonl.gz", [{"text": text} for text in corpus.documents(300)]
    )
    (directory / "spm.model").write_bytes(corpus.tiny_proto())
    return f"--config.data.source=jsonl:{source}", f"--config.tokenizer={directory}/spm.model"


ADAFACTOR = (
    "--config.optimizer.name=adafactor",
    "--config.optimizer.schedule=inverse_sqrt",
    "--config.optimizer.learning_rate=1.0",
    "--config.optimizer.warmup_steps=100",
)
MIRRORED = ("--strategy=mirrored", "--num_virtual_devices=2", *ADAFACTOR)
TWO_WORKERS = ("--strategy=multi_worker", *ADAFACTOR)


def start(workdir, *flags):
    """The process of a run, or its two with --strategy=multi_worker; errors go to WORKDIR.log."""
    command = ["convnlp.pretrain", *TINY, *flags, f"--workdir={workdir}"]
    environments = [{}]
    if "--strategy=multi_worker" in flags:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
            addresses = [f"127.0.0.1:{listener.getsockname()[1]}" for listener in sockets]
        tasks = [{"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}} for i in range(2)]
        environments = [{"TF_CONFIG": json.dumps(task)} for task in tasks]
    with open(f"{workdir}.log", "a", encoding="utf-8") as log:
        return [
            Program(*command, environment={**os.environ, **environment}, stderr=log)
            for environment in environments
        ]


def finish(processes, workdir):
    """Waits for processes that have to succeed; returns what all runs of the directory have logged."""
    codes = [process.wait(timeout=500) for process in processes]
    log = pathlib.Path(f"{workdir}.log").read_text(encoding="utf-8")
    assert codes == [0] * len(processes), log[-2000:]
    return log


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="one device"),
        pytest.param(MIRRORED, id="mirrored", marks=pytest.mark.slow),
        pytest.param(TWO_WORKERS, id="two workers", marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_and_continued_is_the_run_left_alone(tmp_path, inputs, flags):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert "prediction:" in finish(start(whole, *inputs, *flags), whole)

    flags = (*inputs, *flags, "--config.train.num_samples=0")  # which do not reach the metrics
    victims = start(killed, *flags)
    deadline = time.monotonic() + 300
    while not list(killed.glob("checkpoints/0*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    for victim in victims:
        victim.kill()
    assert [victim.wait() for victim in victims] == [-signal.SIGKILL] * len(victims)
    assert not (killed / "preset").exists()
    if "--strategy=mirrored" in flags:  # of the slow ones
        finish(start(killed, *flags, "--finish"), killed)
        keras_nlp.models.Seq2SeqLM.from_preset(str(killed / "preset"))
    assert "Resuming at step" in finish(start(killed, *flags), killed)

    assert (whole / "metrics.jsonl").read_bytes() == (killed / "metrics.jsonl").read_bytes()
    values, others = (_checkpoint(workdir) for workdir in (whole, killed))
    assert {name for name in values if values[name] != others[name]} == set()
    _check_outputs(whole)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_worker_is_called_that_with_its_number(tmp_path, inputs, lost):
    workdir = tmp_path / "run"
    workers = start(workdir, *inputs, *TWO_WORKERS, "--config.train.num_steps=100000")
    deadline = time.monotonic() + 300
    while not list(workdir.glob("checkpoints/0*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    workers[lost].kill()
    assert workers[1 - lost].wait(timeout=300) == programs.LOST_WORKER
    workers[lost].wait()
    last = pathlib.Path(f"{workdir}.log").read_text(encoding="utf-8").splitlines()[-1]
    expected = f"error: worker {lost} was lost; start all workers again to continue from the last checkpoint"
    assert last == expected


def _checkpoint(workdir):
    reader = tf.train.load_checkpoint(str(workdir / "checkpoints" / "00000008" / "model"))
    names = [name for name in reader.get_variable_to_shape_map() if not name.startswith("_CHECKPOINTABLE")]
    return {name: np.asarray(reader.get_tensor(name)).tobytes() for name in names}


def _check_outputs(workdir):
    assert json.loads((workdir / "config.json").read_text())["model"]["hidden_dim"] == 16
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert {"valid/loss", "valid/encoder_use", "valid/span_corruption", "valid/masked_lm"} < set(rows[-1])
    lm = keras_nlp.models.Seq2SeqLM.from_preset(str(workdir / "preset"))
    assert isinstance(lm, convnlp.models.Seq2SeqLM)
    assert isinstance(lm.generate("the old river", max_length=4), str)
    assert (workdir / "preset" / "experiment.json").read_text() == (workdir / "config.json").read_text()
    card = (workdir / "preset" / "README.md").read_text()
    for text in ("encoder_use", "convnlp.pretrain", "span_corruption + masked_lm", "Wall time"):
        assert text in card
    assert not (workdir / ".partial").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--config.train.num_steps=many"], "invalid literal for int"),
        (["--config=configs/nothing.py"], "configs/nothing.py"),
        (["--config.train.num_steps=7"], "`train.num_steps` must be a multiple of `train.steps_per_call`"),
        (["--config.tokenizer="], "`tokenizer` must be the path of a SentencePiece model"),
        (["--strategy=multi_worker"], "TF_CONFIG"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, inputs, flags, message):
    process = run_program("convnlp.pretrain", *TINY, *inputs, f"--workdir={tmp_path}/run", *flags)
    assert process.returncode == 1
    lines = process.stderr.strip().splitlines()
    assert "Traceback" not in process.stderr
    assert [line for line in lines if line.startswith("error: ")] == lines[-1:]
    assert message in lines[-1]
    assert not (pathlib.Path(tmp_path) / "run" / "preset").exists()


def test_a_misspelt_field_in_a_file(tmp_path, inputs):
    path = tmp_path / "misspelt.py"
    path.write_text(
        "from convnlp.configs import common\n\n\ndef get_config():\n    config = common.get_config()\n"
        "    config.train.bacth_size = 4\n    return config\n"
    )
    process = run_program("convnlp.pretrain", f"--config={path}", *inputs, f"--workdir={tmp_path}/run")
    assert process.returncode == 1
    last = process.stderr.strip().splitlines()[-1]
    assert last == "error: unknown config field train.bacth_size; did you mean train.batch_size?"
    assert not os.path.exists(tmp_path / "run")
