"""`convnlp launch` with workers that train: a lost one changes nothing, and their number may change."""

import json
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from tests import corpus
from tests.launching import workers
from tests.run_program import ROOT

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]

NUM_STEPS = 40
FLAGS = (
    "--config=pretrain_encoder:lightweight_conv",
    "--config.model.num_layers=1",
    "--config.model.hidden_dim=16",
    "--config.model.intermediate_dim=32",
    "--config.model.num_heads=2",
    "--config.model.kernel_size=3,",
    "--config.model.dropout=0.1",
    "--config.data.input_length=16",
    "--config.data.shuffle_buffer=32",
    "--config.optimizer.warmup_steps=2",
    "--config.train.batch_size=12",
    f"--config.train.num_steps={NUM_STEPS}",
    "--config.train.steps_per_call=2",
    "--config.train.eval_every=20",
    "--config.train.eval_batches=1",
    "--config.train.checkpoint_every=4",
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Flags that name a corpus and a tokenizer."""
    directory = tmp_path_factory.mktemp("inputs")
    source = corpus.write_jsonl(directory / "docs.jsonl.gz", [{"text": t} for t in corpus.documents(600)])
    (directory / "spm.model").write_bytes(corpus.tiny_proto())
    return f"--config.data.source=jsonl:{source}", f"--config.tokenizer={directory}/spm.model"


def launch(workdir, num_workers, *flags, restarts=0):
    """The launcher as it runs; what it says goes to WORKDIR.log."""
    own = (f"--num_workers={num_workers}", "--threads_per_worker=1", f"--restarts={restarts}")
    with open(f"{workdir}.log", "ab") as log:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "convnlp",
                "launch",
                *own,
                "--",
                "pretrain",
                *FLAGS,
                *flags,
                f"--workdir={workdir}",
            ],
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )


def said(workdir):
    return pathlib.Path(f"{workdir}.log").read_text(encoding="utf-8")


def finish(process, workdir):
    assert process.wait(timeout=500) == 0, said(workdir)[-3000:]


def kill_a_worker(process, workdir, index):
    """Ends one by kill -9 as soon as there is a checkpoint."""
    deadline = time.monotonic() + 300
    while not list(workdir.glob("checkpoints/0*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    workers.kill(process.pid, index)


def state(workdir, step):
    reader = tf.train.load_checkpoint(str(workdir / "checkpoints" / f"{step:08d}" / "model"))
    names = [name for name in reader.get_variable_to_shape_map() if not name.startswith("_CHECKPOINTABLE")]
    return {name: np.asarray(reader.get_tensor(name)).tobytes() for name in names}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_lost_worker_changes_nothing_and_then_their_number_changes(tmp_path, inputs):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(launch(whole, 2, *inputs), whole)
    process = launch(killed, 2, *inputs, restarts=1)
    kill_a_worker(process, killed, 1)
    finish(process, killed)
    assert "launch: worker 1 of 2 was ended by SIGKILL (at step " in said(killed)
    assert "launch: restart 1 of 1" in said(killed)
    assert "[0] Resuming at step " in said(killed)
    assert state(whole, NUM_STEPS) == state(killed, NUM_STEPS)
    assert (whole / "metrics.jsonl").read_bytes() == (killed / "metrics.jsonl").read_bytes()

    longer = (*inputs, f"--config.train.num_steps={NUM_STEPS + 8}", "--config.optimizer.decay_steps=0")
    assert launch(killed, 3, *longer).wait(timeout=500) == 1
    assert "strategy.num_workers: 2 -> 3" in said(killed)
    assert "--resume_with_changes continues it from its last checkpoint" in said(killed)
    finish(launch(killed, 3, *longer, "--resume_with_changes"), killed)
    history = json.loads((killed / "config.json").read_text())["history"]
    assert history[-1]["step"] == NUM_STEPS
    assert history[-1]["changed"]["strategy.num_workers"] == [2, 3]
    shards = {
        path.name for path in (killed / "checkpoints" / f"{NUM_STEPS + 8:08d}").glob("iterator-*.index")
    }
    assert shards == {"iterator-0.index", "iterator-1.index"}
