"""A run of pre-training that takes seconds: its config, its progress, and differences between two runs."""

import json
import pathlib

import numpy as np
import tensorflow as tf

from convnlp.models import preset_names


def example_fields():
    """Returns the fields for a run on the texts and the vocabulary that ship with the package."""
    preset = preset_names.locate("dynamic_conv_mini_en")
    example = pathlib.Path(__file__).parents[1] / "convnlp" / "example" / "train.csv.gz"
    return {
        "data.source": f"csv:{example}",
        "data.split": "train[5%:]",
        "data.validation_split": "train[:5%]",
        "tokenizer": f"{preset}/assets/tokenizer/vocabulary.spm",
    }


def fields(num_steps, keep, **others):
    """Returns the fields for a tiny encoder on the texts that ship with the package.

    Args:
        num_steps: int.
        keep: int, number of checkpoints to keep.
        **others: further fields, with "_" for the first ".": `train_eval_every=10`.

    Returns:
        dict of "section.field" to value.
    """
    return {
        **example_fields(),
        "model.num_layers": 1,
        "model.hidden_dim": 64,
        "model.intermediate_dim": 256,
        "model.num_heads": 4,
        "model.kernel_size": "3,",
        "model.dropout": 0.1,
        "data.input_length": 128,
        "data.shuffle_buffer": 64,
        "train.batch_size": 24,
        "train.num_steps": num_steps,
        "train.steps_per_call": 2,
        "train.eval_batches": 1,
        "train.keep_checkpoints": keep,
        "train.num_samples": 0,
        "optimizer.warmup_steps": 20,
        "optimizer.schedule": "inverse_sqrt",
        **{name.replace("_", ".", 1): value for name, value in others.items()},
    }


def command(workdir, values, config="pretrain_encoder:lightweight_conv"):
    """Returns the arguments of `python -m convnlp` for training with these fields of a config."""
    flags = [f"--config.{name}={value}" for name, value in values.items()]
    return ["pretrain", f"--config={config}", f"--workdir={workdir}", *flags]


def last_step(workdir):
    """Returns the last step with written metrics, 0 if there is none."""
    path = workdir / "metrics.jsonl"
    rows = path.read_bytes().splitlines() if path.exists() else []
    for row in reversed(rows):
        try:
            return json.loads(row)["step"]
        except ValueError:  # half a line
            continue
    return 0


def checkpoints(workdir):
    """Returns the steps of the checkpoints."""
    folder = workdir / "checkpoints"
    return sorted(int(path.name) for path in folder.glob("[0-9]*")) if folder.exists() else []


def metrics_lines(workdir):
    """Returns the complete lines of the metrics."""
    text = (workdir / "metrics.jsonl").read_text(encoding="utf-8")
    return [line for line in text.splitlines(True) if line.endswith("\n")]


def different_values(workdir, other, step):
    """Returns the names of the values that differ between two runs' checkpoints of a step."""
    values, others = (_values(each / "checkpoints" / f"{step:08d}" / "model") for each in (workdir, other))
    return sorted(name for name in {*values, *others} if values.get(name) != others.get(name))


def differences(workdir, other, step):
    """Returns the names of what differs between two runs: checkpoints of a step, and metrics up to it."""
    lines, other_lines = metrics_lines(workdir), metrics_lines(other)
    of_step = [line for line in other_lines if json.loads(line)["step"] <= step]
    return different_values(workdir, other, step) + ["metrics.jsonl"] * (lines[: len(of_step)] != of_step)


def _values(path):
    reader = tf.train.load_checkpoint(str(path))
    names = [name for name in reader.get_variable_to_shape_map() if not name.startswith("_CHECKPOINTABLE")]
    return {name: np.asarray(reader.get_tensor(name)).tobytes() for name in names}
