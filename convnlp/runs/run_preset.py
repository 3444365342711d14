"""The preset that a training run leaves behind, with its model card."""

import os
import pathlib
import platform
import re
import shlex
import shutil
import sys
import tempfile

import tensorflow as tf

from convnlp.models import model_card, presets
from convnlp.runs import stages
from convnlp.training import storage


def card(config, summary, backbone, target_length):
    """Returns the model card's entries, a dict; see `convnlp.models.model_card`.

    Args:
        config: the run's config.
        summary: dict. What `loop.train` returned, or "seconds" alone, for a preset that no loop has trained.
        backbone: `Seq2SeqBackbone`.
        target_length: int. Decoder tokens of an example, 0 without a decoder.
    """
    return {
        "trained_on": f"{config.data.source} {config.data.split}",
        **({"initialised_from": config.init_from} if config.init_from else {}),
        **(_steps(config, summary) if "best_step" in summary else {}),
        "seconds": summary["seconds"],
        **({"cpu_seconds": summary["cpu_seconds"]} if "cpu_seconds" in summary else {}),
        "hardware": _hardware(),
        "cost": backbone.cost(config.data.input_length, target_length),
        "encoder_length": config.data.input_length,
        "decoder_length": target_length,
        "command": shlex.join([*_program(), *sys.argv[1:]]),
    }


def _steps(config, summary):
    best_step = summary["best_step"]
    best_tokens = stages.tokens_until(config, best_step)
    return {
        "steps": best_step,
        "examples": stages.examples_until(config, best_step),
        "tokens": summary["tokens"] * best_tokens // stages.tokens_until(config, summary["step"]),
    }


def save(task, workdir, card, tokenizer=None):
    """Saves WORKDIR/preset with its model card and the run's resolved config, as experiment.json.

    The preset is first written under another name, so that on a disk it appears as a whole or not at all; an
    older one, or a link to one, is set aside until then. For a URL, it is written on this machine, and
    config.json, without which it is not a preset, is copied last.
    For a `task` without a preprocessor, such as an encoder alone, the `tokenizer` is saved too.

    Raises:
        ValueError: if a weight is not finite; an existing preset is kept.
    """
    directory = storage.join(workdir, "preset")
    remote = storage.is_remote(workdir)
    partial = tempfile.mkdtemp() if remote else storage.join(workdir, ".partial")
    made, old = os.path.join(partial, "preset"), os.path.join(partial, "old")
    _put_back(old, directory)  # of a save that was killed before the new one had its name
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with presets.saving(made):
            task.save_to_preset(made)
            if tokenizer is not None:
                tokenizer.save_to_preset(made)
            model_card.write(made, card)
            experiment = storage.read(storage.join(workdir, "config.json"))
            pathlib.Path(made, "experiment.json").write_bytes(experiment)
        if remote:
            if storage.gfile.exists(directory):
                storage.remove_directory(directory)
            storage.copy(made, directory, last="config.json")
        else:
            if os.path.lexists(directory):
                os.rename(directory, old)
            os.rename(made, directory)
    finally:
        _put_back(old, directory)
        shutil.rmtree(partial, ignore_errors=True)


def _put_back(old, directory):
    if os.path.lexists(old) and not os.path.lexists(directory):
        os.rename(old, directory)


def _program():
    spec = sys.modules["__main__"].__spec__  # None for a file that was not started by `python -m`
    return ["python", "-m", spec.name] if spec else [sys.argv[0]]


def _hardware():
    devices = tf.config.list_physical_devices("TPU") or tf.config.list_physical_devices("GPU")
    if devices:
        return f"{len(devices)} x {devices[0].device_type}"
    cpu = pathlib.Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", cpu.read_text()) if cpu.exists() else []
    return f"{os.cpu_count()} x {names[0] if names else platform.processor() or platform.machine()}"
