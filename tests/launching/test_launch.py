"""`convnlp launch`: every mistake is one line before the first process, and before TensorFlow is imported."""

import os
import subprocess
import sys

import pytest

from tests.run_program import ROOT

pytestmark = pytest.mark.multiprocess

PRETRAIN = ("pretrain", "--config=pretrain_mini", "--workdir=run")
# Starts `convnlp launch` where importing TensorFlow or Keras, or starting a process, raises.
ALONE = """
import runpy, subprocess, sys
sys.orig_argv = ["python", "-m", "convnlp", *sys.argv[1:]]
for name in ("keras", "tensorflow"):
    sys.modules[name] = None
subprocess.Popen = None
sys.path.insert(0, {root!r})
runpy.run_module("convnlp", run_name="__main__", alter_sys=True)
"""


def launch(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", ALONE.format(root=ROOT), "launch", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--", *PRETRAIN], "`--num_workers` must be given"),
        (["--num_workers=0", "--", *PRETRAIN], "0 is not a positive integer"),
        (["--num_workers=2", "--grace_seconds=nan", "--", *PRETRAIN], "--grace_seconds must be a number"),
        (["--num_workers=2", "--restart=2", "--", *PRETRAIN], "Unknown command line flag 'restart'"),
        (["--num_workers=2"], "`--` must be followed by one of pretrain, finetune. Received: ''"),
        (
            ["--num_workers=2", "--", "serve"],
            "`--` must be followed by one of pretrain, finetune. Received: 'serve'",
        ),
        (["--num_workers=2", "--", *PRETRAIN[::2]], "`--config` must be given after `--`"),
        (["--num_workers=2", "--", *PRETRAIN[:2]], "`--workdir` must be given after `--`"),
        (["--num_workers=2", "--", *PRETRAIN, "--workdir="], "`--workdir` must be given after `--`"),
        (["--num_workers=2", "--", *PRETRAIN, "--strategy=tpu"], "`strategy` must be multi_worker here"),
        (
            ["--num_workers=2", "--", "pretrain", "--config=nothing"],
            "`config` must be one of demo_pretrain, ",
        ),
        (
            ["--num_workers=2", "--", "pretrain", "--config=pretrain_c4:dynamic_conv", "--workdir=run"],
            "ValueError: the argument must be MIXER,SIZE, such as dynamic_conv,base. Received: 'dynamic",
        ),
        (
            ["--num_workers=2", "--", *PRETRAIN, "--config.train.bacth_size=4"],
            "unknown config field train.bacth_size; did you mean train.batch_size?",
        ),
        (
            ["--num_workers=3", "--", "finetune", "--workdir=run"],
            "`train.batch_size` must be a multiple of --num_workers. Received: train.batch_size=32, --num_",
        ),
        (
            ["--num_workers=2", "--", *PRETRAIN, "--config.train.stage_batch_sizes=(4,5)"],
            "`train.stage_batch_sizes` must be a multiple of --num_workers. Received: train.stage_batch",
        ),
        (["--num_workers=2", "--index=1", "--", *PRETRAIN], "`index` needs --address. Received: index=1"),
        (["--num_workers=2", "--address=a:1", "--", *PRETRAIN], "`address` must be HOST:PORT"),
        (["--num_workers=2", "--address=a{index}:1", "--", *PRETRAIN], "JOB_COMPLETION_INDEX must be"),
        (["--num_workers=2", "--address=a{index}:1", "--index=2", "--", *PRETRAIN], "`index` must be below"),
    ],
)
def test_a_mistake_is_one_line(arguments, message):
    done = launch(*arguments, JOB_COMPLETION_INDEX="")
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_right_arguments_get_as_far_as_the_processes():
    done = launch(
        "--num_workers=2", "--", *PRETRAIN, "--config.train.batch_size=6", "--config.optimizer.name=adamw"
    )
    assert done.stderr.splitlines()[-1] == "TypeError: 'NoneType' object is not callable"
