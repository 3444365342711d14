"""Turns a config into the parts of a training run; pretrain and finetune share it."""

import contextlib
import copy
import difflib
import os
import pathlib
import platform
import re
import shlex
import shutil
import sys
import tempfile

import keras
import tensorflow as tf
from absl import flags
from ml_collections import config_flags

from convnlp import config_files, config_help, config_rules, inputs, stages
from convnlp.configs import common
from convnlp.data import Shard
from convnlp.layers.mixer_options import route_options
from convnlp.models import SIZES, Seq2SeqBackbone, Tokenizer, model_card, preset_names, presets
from convnlp.models.layouts import layer_mixers
from convnlp.training import checkpoints, heartbeat, run_config, run_lock, shards, storage
from convnlp.training import strategy as strategy_lib

# Fields that hold the options of mixers, objectives and tasks, which define their names.
OPEN_FIELDS = ("model.mixer_options", "objective.options", "task.options")
# Fields that may always change: they affect neither the weights nor what is known about them.
_ALWAYS = (
    *("data.data_dir", "data.test_source", "data.test_split", "inputs.data.test_source"),
    *("train.checkpoint_every", "train.keep_checkpoints", "train.num_samples"),
)
# Fields that may change on request: they affect only what follows the last checkpoint, and fit its state.
_ON_REQUEST = (
    *("optimizer.schedule", "optimizer.learning_rate", "optimizer.warmup_steps", "optimizer.decay_steps"),
    *("optimizer.weight_decay", "optimizer.clip_norm", "optimizer.beta_2", "optimizer.layer_decay"),
    *(
        "train.num_steps",
        "train.stage_steps",
        "train.accumulate_steps",
        "train.eval_every",
        "task.num_epochs",
    ),
    "objective.masked_lm_weight",
    *("strategy.num_workers", "strategy.num_replicas"),  # dropout depends on them, the data do not
    *("inputs.data.source", "inputs.data.validation_source"),
)
_MOST_LAYERS = max(size["num_layers"] for size in SIZES.values())  # enough for all mixers of a layout


def define_flags(default_config=None):
    """Defines the flags of a training program.

    Args:
        default_config: str, the name of the shipped config to use without --config. Default None: --config
            must be given.
    """
    about = (
        f"The experiment: one of {', '.join(config_files.names())}, or a file of your own. Its argument, if "
        "it takes one, follows a colon. Each of its fields is a flag, such as --config.train.batch_size=64; "
        "--help_config lists them."
    )
    config_flags.DEFINE_config_file("config", None, about, lock_config=True)
    flags.FLAGS["config"].parser = config_files.ConfigParser("config")
    if default_config and not any(re.fullmatch(r"--?config(=.*)?", argument) for argument in sys.argv):
        # A default of the flag would be parsed here, where nothing turns an error into a plain sentence.
        sys.argv.insert(1, f"--config={default_config}")
    flags.DEFINE_boolean("help_config", False, "Prints all fields of --config and exits.")
    flags.DEFINE_string("workdir", None, "Directory of the run; the same command continues it.")
    flags.DEFINE_enum("strategy", "one_device", strategy_lib.STRATEGIES, "Where the replicas run.")
    flags.DEFINE_string("tpu", "", "Name or address of the TPU; empty for that of this TPU VM.")
    flags.DEFINE_integer(
        "num_virtual_devices",
        0,
        "Splits the CPU into this many devices, for --strategy=mirrored without a GPU.",
    )
    flags.DEFINE_boolean(
        "resume_with_changes",
        False,
        "Continues the run in --workdir with another learning rate, schedule or length (docs/training.md).",
    )


def define_finish_flag():
    """Defines the flag of a program whose runs can be ended early."""
    flags.DEFINE_boolean(
        "finish",
        False,
        "Ends the run in --workdir where it stands: writes scores and preset without more training.",
    )


def start(open_fields=lambda config: ()):
    """Begins the run that the flags describe: sets up config, strategy, determinism and seeds.

    Args:
        open_fields: function of a config that returns the names of the fields that the program sets from
            its data.

    Returns:
        (config, workdir, strategy).

    Raises:
        ValueError: if a field does not exist, is missing or out of range, if the strategy is not available,
            or if the directory is in use or holds a run with a different config.
    """
    args = flags.FLAGS
    if args.help_config:
        print(config_help.page(args.config or common.get_config(), args["config"].parser.about))
        sys.exit(0)
    for name in ("config", "workdir"):  # not by absl, because --help_config needs neither
        if args[name].value is None:
            raise ValueError(f"`--{name}` must be given; see --help")
    workdir = storage.normal(args.workdir)
    strategy = prepare(
        args.config,
        workdir,
        args.strategy,
        args.tpu,
        args.num_virtual_devices,
        open_fields=open_fields(args.config),
        resume_with_changes=args.resume_with_changes,
    )
    return args.config, workdir, strategy


def prepare(
    config,
    workdir,
    strategy_name="one_device",
    tpu="",
    num_virtual_devices=0,
    *,
    open_fields=(),
    resume_with_changes=False,
    strategy=None,
):
    """Does what `start` does for a config that does not come from a flag: a process may do several runs.

    Args:
        config: ConfigDict.
        workdir: directory of the run.
        strategy_name: str, one of `convnlp.training.strategy.STRATEGIES`. Defaults to "one_device".
        tpu: str, see `--tpu`.
        num_virtual_devices: int, see `--num_virtual_devices`.
        open_fields: names of fields, such as "train.num_steps", that the program sets from its data and
            passes to `write_resolved`. They are not compared with those of the run in the directory.
        resume_with_changes: bool, see `--resume_with_changes`.
        strategy: the strategy of that name, if the process already has it. Default None: it is made.

    Returns:
        The strategy. The directory belongs to this process until `finish` is called or the process ends.

    Raises:
        ValueError: as for `start`.
    """
    heartbeat.begin()
    workdir = storage.normal(workdir)
    check_fields(config.to_dict(), common.get_config().to_dict())
    config_rules.check(config)
    check_mixer_options(config)
    if config.data.input_length is None and "data.input_length" not in open_fields:
        raise ValueError("`data.input_length` must be an integer >= 2 here. Received: data.input_length=None")
    if config.init_from:
        preset_names.locate(config.init_from)
    with contextlib.ExitStack() as stack:
        if strategy_lib.worker_index(strategy_name) == 0 and not run_lock.is_held(workdir):
            run_lock.hold(workdir)
            stack.callback(run_lock.release, workdir)
        heartbeat.mark(connecting=True)
        strategy = strategy or strategy_lib.build(strategy_name, tpu, num_virtual_devices)
        heartbeat.mark(connecting=False)
        _check_config(config, workdir, strategy_name, strategy, open_fields, resume_with_changes)
        stack.pop_all()  # the lock stays with the run
    if config.train.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(config.seed)
    return strategy


def _check_config(config, workdir, strategy_name, strategy, open_fields, resume_with_changes):
    worker, num_workers = strategy_lib.workers(strategy)
    num_replicas = strategy.num_replicas_in_sync
    train = config.train
    for name, size in [
        ("batch_size", train.batch_size),
        *(("stage_batch_sizes", size) for size in train.stage_batch_sizes),
    ]:
        if size % num_replicas:
            raise ValueError(
                f"`train.{name}` must be a multiple of the number of replicas. "
                f"Received: train.{name}={size}, {num_replicas} replicas"
            )
        is_trained_on = name == "stage_batch_sizes" or not train.stage_batch_sizes
        if is_trained_on and size // num_replicas % train.accumulate_steps:
            raise ValueError(
                f"`train.{name}` must be a multiple of train.accumulate_steps for each replica. Received: "
                f"train.{name}={size}, {num_replicas} replicas, "
                f"train.accumulate_steps={train.accumulate_steps}"
            )
    part = {"name": strategy_name, "num_workers": num_workers, "num_replicas": num_replicas}
    asked = {**config.to_dict(), "strategy": part}
    asked = _with_fields(asked, _recorded_fields(workdir, open_fields))
    if worker == 0:
        asked[run_config.INPUTS] = inputs.fingerprints(config)
    run_config.check_config(
        workdir,
        asked,
        write=worker == 0,
        always=_ALWAYS,
        on_request=_ON_REQUEST,
        requested=resume_with_changes,
        defaults=common.get_config().to_dict(),
    )


def own_shards(workdir, strategy):
    """Returns the shards of the run's data that this process reads; see `convnlp.training.shards`.

    Returns:
        list of `Shard`, whose count is the number of workers with which the run began.
    """
    worker, num_workers = strategy_lib.workers(strategy)
    count = checkpoints.num_shards(workdir) or num_workers
    return [Shard(count, index) for index in shards.read_by(worker, num_workers, count)]


def finish(workdir):
    """Ends the run: releases the directory that `prepare` took."""
    run_lock.release(storage.normal(workdir))


def write_resolved(config, workdir, strategy, open_fields):
    """Writes the fields that follow from the data to WORKDIR/config.json, so that the record is complete."""
    if strategy_lib.workers(strategy)[0] == 0:
        flat = {name: config[name.split(".")[0]][name.split(".")[1]] for name in open_fields}
        path = storage.join(workdir, "config.json")
        storage.write_json(path, _with_fields(storage.read_json(path), flat))


def _recorded_fields(workdir, names):
    """Returns the recorded values of the fields "SECTION.FIELD" of a run; an empty dict without a record."""
    try:
        recorded = storage.read_json(storage.join(workdir, "config.json"))
        return {name: recorded[name.split(".")[0]][name.split(".")[1]] for name in names}
    except (*storage.ERRORS, ValueError, LookupError, TypeError):  # the comparison reports the cause
        return {}


def _with_fields(config, values):
    config = copy.deepcopy(config)
    for name, value in values.items():
        section, field = name.split(".")
        config[section][field] = value
    return config


def check_fields(config, default, prefix=""):
    """Raises ValueError unless the nested dict `config` has exactly the fields of `default`.

    A config file can set any field of a `ConfigDict`, even a misspelt one; ml_collections checks only the
    command line.
    """
    for name in sorted({*config, *default}):
        if name not in default:
            near = difflib.get_close_matches(name, default, n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            raise ValueError(f"unknown config field {prefix}{name}{hint}")
        if name not in config:
            raise ValueError(
                f"config field {prefix}{name} is missing; start from convnlp.configs.common.get_config()"
            )
        if isinstance(default[name], dict) and prefix + name not in OPEN_FIELDS:
            check_fields(config[name], default[name], f"{prefix}{name}.")


def check_mixer_options(config):
    """Raises ValueError if `model.mixer_options` do not belong to the mixers, or if a preset has its own."""
    model = config.model.to_dict()
    options = model["mixer_options"]
    if options and config.init_from:
        raise ValueError(
            "`model.mixer_options` must be empty when `init_from` names a preset, which has its own. "
            f"Received: model.mixer_options={options}"
        )
    names = []
    for field in ("mixer", "encoder_mixer", "decoder_mixer"):
        for name in (model[field] or "").split(","):
            for is_decoder in (False, True):
                found = layer_mixers(name, _MOST_LAYERS, is_decoder)
                names += [found] if isinstance(found, str) else found
    route_options(options, names)


def dtype_policy(config, strategy):
    """Returns the dtype policy of `train.dtype`; "auto" is mixed_bfloat16 if the hardware multiplies it."""
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
    """Returns the tokenizer of `config.tokenizer` or the preset `config.init_from`; they must not differ."""
    given = Tokenizer.from_file(config.tokenizer) if config.tokenizer else None
    if config.init_from:
        found = Tokenizer.from_preset(_local_preset(config))
        if given is not None and given.get_vocabulary() != found.get_vocabulary():
            raise ValueError(
                "`tokenizer` must be empty, or the vocabulary of the preset that `init_from` names; an empty "
                "init_from (--config.init_from=) trains from random weights. "
                f"Received: tokenizer={config.tokenizer!r}, init_from={config.init_from!r}"
            )
        return found
    if given is not None:
        return given
    raise ValueError(
        "`tokenizer` must be the path of a SentencePiece model when `init_from` is empty. Received: ''"
    )


def backbone(config, vocabulary_size, dtype):
    """Returns the backbone of `config.init_from` with the config's dropout, or a new one.

    Call it in the strategy's scope. An encoder without a decoder gets the decoder layers that the config
    asks for.
    """
    if config.init_from:
        found = Seq2SeqBackbone.from_preset(_local_preset(config), dropout=config.model.dropout, dtype=dtype)
        if found.decoder is not None or not config.model.num_decoder_layers:
            return found
        mixer = config.model.decoder_mixer and _one_or_list(config.model.decoder_mixer.split(","))
        kernel_size = _one_or_list(config.model.decoder_kernel_size) or None
        return found.with_decoder(
            config.model.num_decoder_layers, mixer, config.model.cross_attention_init, kernel_size
        )
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
    arguments["decoder_kernel_size"] = _one_or_list(arguments["decoder_kernel_size"]) or None
    return Seq2SeqBackbone(vocabulary_size, **arguments, dtype=dtype)


def _local_preset(config):
    return storage.local(preset_names.locate(config.init_from))


def _one_or_list(values):
    return values[0] if len(values) == 1 else list(values)


def loop_arguments(config):
    """Returns the arguments of `convnlp.training.loop.train` that the config sets."""
    return {
        "seed": config.seed,
        "clip_norm": config.optimizer.clip_norm,
        "accumulate_steps": config.train.accumulate_steps,
        "ema_momentum": config.optimizer.ema_momentum,
        "num_steps": config.train.num_steps,
        "steps_per_call": config.train.steps_per_call,
        "eval_every": config.train.eval_every,
        "checkpoint_every": config.train.checkpoint_every,
        "keep": config.train.keep_checkpoints,
    }


def card(config, summary, backbone, target_length):
    """Returns the model card's entries from a config and a summary: the loop's, or "seconds" alone."""
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


def save_preset(task, workdir, card, tokenizer=None):
    """Saves WORKDIR/preset with its model card and the run's resolved config, as experiment.json.

    The preset is first written under another name, so that on a disk it appears as a whole or not at all. For
    a URL, it is written on this machine, and config.json, without which it is not a preset, is copied last.
    For a `task` without a preprocessor, such as an encoder alone, the `tokenizer` is saved too.

    Raises:
        ValueError: if a weight is not finite; an existing preset is kept.
    """
    directory = storage.join(workdir, "preset")
    remote = storage.is_remote(workdir)
    partial = tempfile.mkdtemp() if remote else storage.join(workdir, ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    made = os.path.join(partial, "preset")
    try:
        with presets.saving(made):
            task.save_to_preset(made)
            if tokenizer is not None:
                tokenizer.save_to_preset(made)
            model_card.write(made, card)
            experiment = storage.read(storage.join(workdir, "config.json"))
            pathlib.Path(made, "experiment.json").write_bytes(experiment)
        if storage.gfile.exists(directory):
            storage.gfile.rmtree(directory)
        if remote:
            storage.copy(made, directory, last="config.json")
        else:
            storage.rename(made, directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


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
