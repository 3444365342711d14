"""From a config to the parts of a training run: what pretrain and finetune share."""

import copy
import difflib
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import sys

import keras
import tensorflow as tf
from absl import flags
from ml_collections import config_flags

from configs import common
from convnlp import config_rules
from convnlp.models import SIZES, Seq2SeqBackbone, Tokenizer, model_card, presets
from convnlp.training import checkpoints
from convnlp.training import strategy as strategy_lib

# Whose names are those of a mixer's or an objective's own options.
OPEN_FIELDS = ("model.mixer_options", "objective.options")


def define_flags():
    """Defines the flags of a training program."""
    config_flags.DEFINE_config_file("config", None, "The experiment, a file of configs/.", lock_config=True)
    flags.DEFINE_string(
        "workdir", None, "Directory of the run; the same command continues it.", required=True
    )
    flags.DEFINE_enum("strategy", "one_device", strategy_lib.STRATEGIES, "Where the replicas run.")
    flags.DEFINE_string("tpu", "", "Name or address of the TPU; empty: the one of this TPU VM.")
    flags.DEFINE_integer(
        "num_virtual_devices",
        0,
        "Splits the CPU into so many devices, for --strategy=mirrored without a GPU.",
    )
    flags.mark_flag_as_required("config")


def start(open_fields=lambda config: ()):
    """Begins the run that the flags describe: config, strategy, determinism, seeds.

    Args:
        open_fields: function of a config -> names of the fields that the program sets from its data.

    Returns:
        (config, workdir, strategy).

    Raises:
        ValueError: for a field that does not exist or is missing, a strategy that cannot be had, or a
            directory that holds the run of another config.
    """
    args = flags.FLAGS
    strategy = prepare(
        args.config,
        args.workdir,
        args.strategy,
        args.tpu,
        args.num_virtual_devices,
        open_fields=open_fields(args.config),
    )
    return args.config, args.workdir, strategy


def prepare(config, workdir, strategy_name="one_device", tpu="", num_virtual_devices=0, *, open_fields=()):
    """`start` for a config that is no flag: several runs may follow each other in one process.

    Args:
        config: ConfigDict.
        workdir: directory of the run.
        strategy_name: str, of `convnlp.training.strategy.STRATEGIES`. Defaults to "one_device".
        tpu: str, see `--tpu`.
        num_virtual_devices: int, see `--num_virtual_devices`.
        open_fields: names of fields, such as "train.num_steps", that the program sets from its data and
            gives to `write_resolved`: they are not compared with those of the run in the directory.

    Returns:
        The strategy.

    Raises:
        ValueError: as `start`.
    """
    check_fields(config.to_dict(), common.get_config().to_dict())
    config_rules.check(config)
    strategy = strategy_lib.build(strategy_name, tpu, num_virtual_devices)
    worker, num_workers = strategy_lib.workers(strategy)
    num_replicas = strategy.num_replicas_in_sync
    if config.train.batch_size % num_replicas:
        raise ValueError(
            "`train.batch_size` must be a multiple of the number of replicas. "
            f"Received: train.batch_size={config.train.batch_size}, {num_replicas} replicas"
        )
    part = {"name": strategy_name, "num_workers": num_workers, "num_replicas": num_replicas}
    asked = {**config.to_dict(), "strategy": part}
    asked = _with_fields(asked, _recorded_fields(workdir, open_fields))
    checkpoints.check_config(workdir, asked, write=worker == 0)
    if config.train.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(config.seed)
    return strategy


def write_resolved(config, workdir, strategy, open_fields):
    """Sets the fields that the data have decided on in WORKDIR/config.json: it says what runs."""
    if strategy_lib.workers(strategy)[0] == 0:
        flat = {name: config[name.split(".")[0]][name.split(".")[1]] for name in open_fields}
        path = pathlib.Path(workdir) / "config.json"
        checkpoints.write_json(path, _with_fields(json.loads(path.read_text(encoding="utf-8")), flat))


def _recorded_fields(workdir, names):
    """The values that a run has recorded of fields "SECTION.FIELD"; none where there is no record of them."""
    try:
        recorded = json.loads((pathlib.Path(workdir) / "config.json").read_text(encoding="utf-8"))
        return {name: recorded[name.split(".")[0]][name.split(".")[1]] for name in names}
    except (OSError, ValueError, LookupError, TypeError):  # whose cause the comparison reports
        return {}


def _with_fields(config, values):
    config = copy.deepcopy(config)
    for name, value in values.items():
        section, field = name.split(".")
        config[section][field] = value
    return config


def check_fields(config, default, prefix=""):
    """Raises ValueError if the nested dict `config` has not exactly the fields of `default`.

    A config file can set any field of a `ConfigDict`, a misspelt one too, and only the command line is
    checked.
    """
    for name in sorted({*config, *default}):
        if name not in default:
            near = difflib.get_close_matches(name, default, n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            raise ValueError(f"unknown config field {prefix}{name}{hint}")
        if name not in config:
            raise ValueError(
                f"config field {prefix}{name} is missing; start from configs.common.get_config()"
            )
        if isinstance(default[name], dict) and prefix + name not in OPEN_FIELDS:
            check_fields(config[name], default[name], f"{prefix}{name}.")


def dtype_policy(config, strategy):
    """The dtype policy of `train.dtype`; "auto" is mixed_bfloat16 where the hardware multiplies bfloat16."""
    if config.train.dtype not in ("auto", "float32", "mixed_bfloat16"):
        raise ValueError(
            "`train.dtype` must be auto, float32 or mixed_bfloat16. "
            f"Received: train.dtype={config.train.dtype!r}"
        )
    if config.train.dtype != "auto":
        return config.train.dtype
    return "mixed_bfloat16" if _has_bfloat16(strategy) else "float32"


def _has_bfloat16(strategy):
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return True
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        capability = tf.config.experimental.get_device_details(gpus[0]).get("compute_capability", (0, 0))
        return capability >= (8, 0)
    cpu = pathlib.Path("/proc/cpuinfo")
    return cpu.exists() and not {"amx_bf16", "avx512_bf16"}.isdisjoint(cpu.read_text().split())


def tokenizer(config):
    """The tokenizer of `config.tokenizer`, or of the preset `config.init_from`."""
    if config.tokenizer:
        return Tokenizer.from_file(config.tokenizer)
    if config.init_from:
        return Tokenizer.from_preset(config.init_from)
    raise ValueError(
        "`tokenizer` must be the path of a SentencePiece model when `init_from` is empty. Received: ''"
    )


def backbone(config, vocabulary_size, dtype):
    """The backbone of `config.init_from` with the config's dropout, or a new one. To be called in scope."""
    if config.init_from:
        return Seq2SeqBackbone.from_preset(config.init_from, dropout=config.model.dropout, dtype=dtype)
    model = config.model.to_dict()
    size = model.pop("size")
    if size not in SIZES:
        raise ValueError(f"`model.size` must be one of {', '.join(SIZES)}. Received: model.size={size!r}")
    arguments = {**SIZES[size], **{name: value for name, value in model.items() if value is not None}}
    lengths = (config.data.input_length, config.data.target_length)
    longest = max(lengths) if arguments["num_layers"] else sum(lengths)  # without an encoder, of one row
    arguments.setdefault("max_sequence_length", longest)
    for name in ("mixer", "encoder_mixer", "decoder_mixer"):
        if arguments.get(name):
            arguments[name] = _one_or_list(arguments[name].split(","))
    for name in ("kernel_size", "dilation_rate", "pool_size"):
        arguments[name] = _one_or_list(arguments[name])
    return Seq2SeqBackbone(vocabulary_size, **arguments, dtype=dtype)


def _one_or_list(values):
    return values[0] if len(values) == 1 else list(values)


def loop_arguments(config):
    """The arguments of `convnlp.training.loop.train` that stand in the config."""
    return {
        "seed": config.seed,
        "clip_norm": config.optimizer.clip_norm,
        "num_steps": config.train.num_steps,
        "steps_per_call": config.train.steps_per_call,
        "eval_every": config.train.eval_every,
        "checkpoint_every": config.train.checkpoint_every,
        "keep": config.train.keep_checkpoints,
    }


def card(config, facts, backbone, target_length):
    """The facts of a model card that a config and the result of the training loop give."""
    return {
        "trained_on": f"{config.data.source} {config.data.split}",
        **({"initialised_from": config.init_from} if config.init_from else {}),
        "steps": facts["best_step"],
        "examples": facts["best_step"] * config.train.batch_size,
        "tokens": facts["tokens"] * facts["best_step"] // facts["step"],
        "seconds": facts["seconds"],
        "hardware": _hardware(),
        "cost": backbone.cost(config.data.input_length, target_length),
        "encoder_length": config.data.input_length,
        "decoder_length": target_length,
        "command": shlex.join([*_program(), *sys.argv[1:]]),
    }


def save_preset(task, workdir, card, tokenizer=None):
    """Saves WORKDIR/preset with its model card and the run's resolved config, as experiment.json.

    Under another name first: it is there whole or not at all. A `task` without a preprocessor, as an encoder
    alone, has its `tokenizer` saved beside it.
    """
    directory = pathlib.Path(workdir) / "preset"
    partial = directory.parent / ".partial" / directory.name
    shutil.rmtree(partial.parent, ignore_errors=True)
    try:
        with presets.saving(partial):
            task.save_to_preset(str(partial))
            if tokenizer is not None:
                tokenizer.save_to_preset(str(partial))
            model_card.write(str(partial), card)
            shutil.copy(directory.parent / "config.json", partial / "experiment.json")
        shutil.rmtree(directory, ignore_errors=True)
        partial.rename(directory)
    finally:
        shutil.rmtree(partial.parent, ignore_errors=True)


def _program():
    spec = sys.modules["__main__"].__spec__  # None for a file that was not started by `python -m`
    return ["python", "-m", spec.name] if spec else [sys.argv[0]]


def _hardware():
    devices = tf.config.list_physical_devices("TPU") or tf.config.list_physical_devices("GPU")
    if devices:
        return f"{len(devices)} x {devices[0].device_type}"
    cpu = pathlib.Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", cpu.read_text()) if cpu.exists() else []
    return f"{os.cpu_count()} x {names[0] if names else platform.processor()}"
