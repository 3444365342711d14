"""Begins and ends a training run, for pretrain and finetune: flags, config, strategy and directory."""

import contextlib
import os
import re
import sys

import keras
import tensorflow as tf
from absl import flags
from ml_collections import config_flags

from convnlp import outputs, product_speed
from convnlp.configs import common
from convnlp.data import Shard
from convnlp.objectives import OBJECTIVES
from convnlp.runs import components, config_files, config_help, config_rules, given_fields, inputs
from convnlp.runs.config_fields import ALWAYS, ON_REQUEST, that_may_change
from convnlp.training import checkpoints, heartbeat, run_config, run_lock, shards, storage
from convnlp.training import strategy as strategy_lib

# What else may always change in a resumed run, and on request, as fields do: see `config_fields`.
_ALWAYS = ("inputs.data.test_source",)
_ON_REQUEST = (
    # Dropout depends on them, and rounding; the data do not.
    *("strategy.num_workers", "strategy.num_replicas", "strategy.dtype"),
    *("inputs.data.source", "inputs.data.validation_source"),
)
# Those of them that change what the evaluations measure.
_OF_SCORES = ("inputs.data.validation_source", "inputs.data.source")
# What a start leaves in its directory before there is anything to keep.
_OF_A_START = {"config.json", "run.lock"}
_made = set()  # directories that this process has made for a run
_changed = {}  # directory -> (config.json before this start changed it, steps of the checkpoints then)


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
        "Continues the run in --workdir with changes that docs/runs.md lists, such as another length.",
    )


def define_finish_flag():
    """Defines the flag of a program whose runs can be ended early."""
    flags.DEFINE_boolean(
        "finish",
        False,
        "Ends the run in --workdir where it stands: writes scores and preset without more training.",
    )


@contextlib.contextmanager
def begun(open_fields=lambda config: (), has_steps=True):
    """Context manager for `start`: a run that is refused leaves nothing behind, as if it had not been begun.

    What is written from the first step on stays. A change to an earlier run is recorded with its first
    checkpoint; until then, an error puts the old record back.
    """
    config, workdir, strategy = start(open_fields, has_steps)
    with undone_on_error(workdir):
        yield config, workdir, strategy


@contextlib.contextmanager
def undone_on_error(workdir):
    """Context manager for what follows `prepare`: an error undoes what that wrote, as in `begun`."""
    try:
        yield
    except BaseException:
        _undo(workdir)
        raise


def start(open_fields=lambda config: (), has_steps=True):
    """Begins the run that the flags describe: sets up config, strategy, determinism and seeds.

    Args:
        open_fields: function of a config that returns the names of the fields that the program sets from
            its data.
        has_steps: bool, see `run_config.check_config`.

    Returns:
        (config, workdir, strategy).

    Raises:
        ValueError: if a field does not exist, is missing or out of range, or is given in vain, if the
            strategy is not available, or if the directory is in use or holds a run with a different config.
    """
    args = flags.FLAGS
    if args.help_config:
        print(config_help.page(args.config or common.get_config(), args["config"].parser.about))
        sys.exit(0)
    for name in ("config", "workdir"):  # not by absl, because --help_config needs neither
        if args[name].value is None:
            raise ValueError(f"`--{name}` must be given; see --help")
    given_fields.check_model(args.config, given_fields.given())
    workdir = storage.normal(args.workdir)
    strategy = prepare(
        args.config,
        workdir,
        args.strategy,
        args.tpu,
        args.num_virtual_devices,
        open_fields=open_fields(args.config),
        resume_with_changes=args.resume_with_changes,
        has_steps=has_steps,
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
    has_steps=True,
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
            passes to `write_resolved`; see `run_config.check_config`.
        resume_with_changes: bool, see `--resume_with_changes`.
        has_steps: bool, see `run_config.check_config`.
        strategy: the strategy of that name, if the process already has it. Default None: it is made.

    Returns:
        The strategy. The directory belongs to this process until `finish` is called or the process ends.

    Raises:
        ValueError: as for `start`.
    """
    heartbeat.begin()
    workdir = storage.normal(workdir)
    config_rules.check_fields(config.to_dict(), common.get_config().to_dict())
    config_rules.check(config)
    components.check_mixer_options(config)
    if config.data.input_length is None and "data.input_length" not in open_fields:
        raise ValueError("`data.input_length` must be an integer >= 2 here. Received: data.input_length=None")
    inputs.locate_presets(config)
    with contextlib.ExitStack() as stack:
        if strategy_lib.worker_index(strategy_name) == 0 and not run_lock.is_held(workdir):
            outputs.check_folder("workdir", workdir, takes_urls=True)
            run_config.check_is_free(workdir, config.to_dict())
            if not storage.gfile.exists(os.fspath(workdir)):
                _made.add(workdir)
            run_lock.hold(workdir)
            stack.callback(_undo, workdir)
        heartbeat.mark(connecting=True)
        strategy = strategy or strategy_lib.build(strategy_name, tpu, num_virtual_devices)
        heartbeat.mark(connecting=False)
        record = _check_config(
            config, workdir, strategy_name, strategy, open_fields, resume_with_changes, has_steps
        )
        _changed.pop(workdir, None)
        if record is not None:
            _changed[workdir] = record, checkpoints.steps(workdir)
        stack.pop_all()  # the lock stays with the run
    if config.train.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(config.seed)
    return strategy


def _check_config(config, workdir, strategy_name, strategy, open_fields, resume_with_changes, has_steps):
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
    _settle_dtype(config, workdir)
    part["dtype"] = components.dtype_policy(config, strategy)  # which may follow from the machine
    asked = {**config.to_dict(), "strategy": part}
    if worker == 0:
        asked[run_config.INPUTS] = inputs.fingerprints(config)
    return run_config.check_config(
        workdir,
        asked,
        write=worker == 0,
        open_fields=open_fields,
        always=(*_ALWAYS, *that_may_change(ALWAYS)),
        on_request=(*_ON_REQUEST, *_weights(), *that_may_change(ON_REQUEST)),
        requested=resume_with_changes,
        defaults={**common.get_config().to_dict(), "strategy": part},
        has_steps=has_steps,
    )


def _settle_dtype(config, workdir):
    """Keeps what `train.dtype=auto` meant when the run was begun, where that follows from a measurement."""
    path = storage.join(workdir, "config.json")
    if config.train.dtype != "auto" or not storage.gfile.exists(path):
        return
    with contextlib.suppress(*storage.ERRORS, ValueError, LookupError, TypeError):  # `check_config` names it
        begun_with = storage.read_json(path)
        if begun_with["train"]["dtype"] == "auto":
            product_speed.settle(begun_with["strategy"]["dtype"] == "mixed_bfloat16")


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


def _undo(workdir):
    """Releases the directory; if it holds nothing but what a start writes, removes that.

    If it holds an earlier run without a new checkpoint, its config.json is again as before the start.
    """
    if not run_lock.is_held(workdir):  # another process may be writing there
        return
    # The reason for ending is to be reported, and not what happens here.
    with contextlib.suppress(*storage.ERRORS, run_lock.LockedError):
        found = storage.names(workdir)
        if {*found} <= _OF_A_START:
            for name in found:
                storage.gfile.remove(storage.join(workdir, name))
            if workdir in _made and not storage.is_remote(workdir):
                os.rmdir(workdir)  # fails if another process has begun a run in it
        elif workdir in _changed:
            record, steps = _changed.pop(workdir)
            if {*checkpoints.steps(workdir)} <= {*steps}:
                run_lock.hold(workdir).check()  # another process may have taken the directory over
                storage.write_json(storage.join(workdir, "config.json"), record)
    run_lock.release(workdir)


def write_resolved(config, workdir, strategy, open_fields):
    """Writes the fields that follow from the data to WORKDIR/config.json, so that the record is complete."""
    if strategy_lib.workers(strategy)[0] == 0:
        path = storage.join(workdir, "config.json")
        found = run_config.fields_of(config.to_dict(), open_fields)
        storage.write_json(path, run_config.with_fields(storage.read_json(path), found))


def loop_arguments(config, workdir):
    """Returns the arguments of `convnlp.training.loop.train` that the config and its history set."""
    # Validation data of their own stay the same if others are trained on.
    names = _OF_SCORES[: 1 if config.data.validation_source else 2]
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
        "best_after": run_config.last_change(workdir, (*names, *_weights())),
    }


def _weights():
    """Returns the fields that weigh objectives, which may change on request, as those of `_ON_REQUEST`."""
    return [f"objective.options.{name}.weight" for name in OBJECTIVES]
