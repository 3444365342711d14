"""The rules for a config: which fields it must have, the values of each, and rules that span fields.

They are checked before anything is opened or built.
"""

import difflib

from convnlp.data import Source
from convnlp.runs.config_fields import FIELDS
from convnlp.runs.config_files import OTHER_NAMES
from convnlp.training import schedules

MAX_STEPS = 2**31  # the loop counts in int32


def check(config):
    """Checks a config, and raises a one-line ValueError for the first value that breaks a rule.

    Args:
        config: ConfigDict with the fields of `configs/common.py`.

    Raises:
        ValueError: if a value breaks a rule; the message names the field, the rule and the value.
        SourceError: if a source or split is malformed.
    """
    for path, field in FIELDS.items():
        if field.rule:
            field.rule.check(path, value_of(config, path))
    _check_steps(config)
    _check_stages(config)
    _check_sources(config.data)
    if config.data.input_length is None and not config.init_from:
        raise ValueError(
            "`data.input_length` must be given if `init_from` is empty: a new model is built for it. "
            "Received: data.input_length=None, init_from=''"
        )
    if config.task.unlabelled_source:
        Source(config.task.unlabelled_source, data_dir=config.data.data_dir)
        if not config.init_from:
            raise ValueError(
                "`task.unlabelled_source` must be empty if `init_from` is: it trains that preset further. "
                f"Received: task.unlabelled_source={config.task.unlabelled_source!r}, init_from=''"
            )


def value_of(config, path):
    """Returns the value of a field, such as "train.num_steps"."""
    for name in path.split("."):
        config = config[name]
    return config


def _check_steps(config):
    """Checks the step counts, unless they follow from the data."""
    train, per_call = config.train, config.train.steps_per_call
    if config.task.num_epochs != 0:
        return
    for name in ("num_steps", "eval_every", "checkpoint_every"):
        if train[name] % per_call:
            raise ValueError(
                f"`train.{name}` must be a multiple of `train.steps_per_call`. "
                f"Received: train.{name}={train[name]}, train.steps_per_call={per_call}"
            )
    optimizer = config.optimizer
    names = "schedule", "learning_rate"
    schedules.Schedule(
        *(optimizer[name] for name in names), train.num_steps, optimizer.warmup_steps, optimizer.decay_steps
    )


def _check_stages(config):
    """Checks the stages against each other and against the fields that they divide."""
    train, steps = config.train, tuple(config.train.stage_steps)
    for name in ("stage_batch_sizes", "stage_input_lengths"):
        if train[name] and len(train[name]) != len(steps):
            raise ValueError(
                f"`train.{name}` must be empty or have one entry per stage of train.stage_steps. "
                f"Received: train.{name}={tuple(train[name])}, train.stage_steps={steps}"
            )
    if not steps:
        return
    if config.task.num_epochs != 0:
        raise ValueError(
            "`train.stage_steps` must be empty if task.num_epochs sets the number of steps. "
            f"Received: train.stage_steps={steps}, task.num_epochs={config.task.num_epochs}"
        )
    if any(count % train.steps_per_call for count in steps):
        raise ValueError(
            "`train.stage_steps` must be multiples of `train.steps_per_call`. "
            f"Received: train.stage_steps={steps}, train.steps_per_call={train.steps_per_call}"
        )
    if sum(steps) != train.num_steps:
        raise ValueError(
            f"`train.stage_steps` must sum to `train.num_steps`. Received: train.stage_steps={steps}, "
            f"which sum to {sum(steps)}, train.num_steps={train.num_steps}"
        )
    lengths = tuple(train.stage_input_lengths)
    if lengths and max(lengths) != config.data.input_length:
        raise ValueError(
            "`train.stage_input_lengths` must have data.input_length as its maximum. Received: "
            f"train.stage_input_lengths={lengths}, data.input_length={config.data.input_length}"
        )
    for name, options in config.objective.to_dict()["options"].items():
        if lengths and isinstance(options, dict) and "input_length" in options:
            raise ValueError(
                "`train.stage_input_lengths` must be empty if an objective has its own input_length. "
                f"Received: train.stage_input_lengths={lengths}, "
                f"objective.options.{name}.input_length={options['input_length']}"
            )


def _check_sources(data):
    """Checks only the form of the sources; opening them shows whether they exist."""
    Source(data.source, data.split, data.data_dir)
    if data.validation_split:
        Source(data.validation_source or data.source, data.validation_split, data.data_dir)
    elif data.validation_source:
        raise ValueError(
            "`data.validation_split` must name a split of data.validation_source. "
            f"Received: data.validation_split='', data.validation_source={data.validation_source!r}"
        )
    if data.test_source:
        Source(data.test_source, data.test_split, data.data_dir)


def check_fields(config, default, prefix=""):
    """Raises ValueError unless the nested dict `config` has exactly the fields of `default`.

    A config file can set any field of a `ConfigDict`, even a misspelt one; ml_collections checks only the
    command line.
    """
    for name in sorted({*config, *default}):
        if name not in default:
            near = [f"{prefix}{each}" for each in difflib.get_close_matches(name, default, n=1)]
            known = OTHER_NAMES.get(name, *near)
            hint = f"; did you mean {known}?" if known else ""
            raise ValueError(f"unknown config field {prefix}{name}{hint}")
        if name not in config:
            raise ValueError(
                f"config field {prefix}{name} is missing; start from convnlp.configs.common.get_config()"
            )
        if isinstance(default[name], dict) and prefix + name not in FIELDS:  # options are their owners'
            check_fields(config[name], default[name], f"{prefix}{name}.")
