"""The rules for a config: which fields it must have, the values of each, and rules that span fields.

They are checked before anything is opened or built. Names and options that have a table of their own
(mixers, sizes, objectives, tasks) are checked where the table is used.
"""

import difflib

from convnlp.data import Source, labels, rules
from convnlp.data.rules import Rule
from convnlp.training import optimizers, schedules

MAX_STEPS = 2**31  # the loop counts in int32

# Fields that hold the options of mixers, objectives and tasks, which define their names.
OPEN_FIELDS = ("model.mixer_options", "objective.options", "task.options")

_POSITIVE, _NATURAL = rules.integer(1), rules.integer(0)
_RATE = rules.number("[0, 1)")  # of dropout
_UNIT = rules.number("(0, 1)")
_SIZES = Rule(
    "one integer >= 1, or one per layer",
    lambda value: isinstance(value, list | tuple) and bool(value) and all(map(_POSITIVE.holds, value)),
)


def _sequence(rule):
    """Returns the rule for a field that is empty or has one value per stage."""
    return Rule(
        f"empty, or a sequence whose every entry is {rule.text}",
        lambda value: isinstance(value, list | tuple) and all(map(rule.holds, value)),
    )


def _optional(rule):
    return Rule(f"None or {rule.text}", lambda value: value is None or rule.holds(value))


RULES = {
    "seed": _NATURAL,
    "tokenizer": rules.STRING,
    "init_from": rules.STRING,
    "model.size": rules.NAME,
    "model.num_layers": _optional(_NATURAL),
    "model.num_decoder_layers": _optional(_NATURAL),
    "model.num_heads": _optional(_POSITIVE),
    "model.hidden_dim": _optional(_POSITIVE),
    "model.intermediate_dim": _optional(_POSITIVE),
    "model.mixer": rules.NAME,
    "model.encoder_mixer": _optional(rules.STRING),
    "model.decoder_mixer": _optional(rules.STRING),
    "model.kernel_size": _SIZES,
    "model.decoder_kernel_size": Rule(
        "empty, one integer >= 1, or one per layer",
        lambda value: value in ((), []) or _SIZES.holds(value),
    ),
    "model.dilation_rate": _SIZES,
    "model.pool_size": _SIZES,
    "model.weight_softmax": _optional(rules.BOOL),
    "model.residual_form": rules.NAME,
    "model.dropout": _RATE,
    "model.max_sequence_length": _optional(_POSITIVE),
    "model.cross_attention_init": rules.NAME,
    "model.position_embedding": rules.one_of(("auto", "none", "learned", "sinusoidal")),
    "data.source": rules.NAME,
    "data.data_dir": rules.STRING,
    "data.split": rules.NAME,
    "data.validation_source": rules.STRING,
    "data.validation_split": rules.STRING,
    "data.test_source": rules.STRING,
    "data.test_split": rules.NAME,
    "data.input_length": _optional(rules.integer(2)),
    "data.target_length": rules.integer(2),
    "data.shuffle_buffer": _NATURAL,
    "data.group_by_length": rules.BOOL,
    "objective.names": rules.sequence_of(rules.NAME, at_least=1),
    "objective.noise_density": _UNIT,
    "objective.mean_span_length": rules.number("[1, inf)"),
    "objective.freeze_encoder": rules.BOOL,
    "optimizer.name": rules.one_of(optimizers.OPTIMIZERS),
    "optimizer.schedule": rules.one_of(schedules.SCHEDULES),
    "optimizer.learning_rate": rules.number("(0, inf)"),
    "optimizer.warmup_steps": _NATURAL,
    "optimizer.decay_steps": _NATURAL,
    "optimizer.weight_decay": rules.number("[0, inf)"),
    "optimizer.clip_norm": rules.number("[0, inf)"),
    "optimizer.beta_2": _RATE,
    "optimizer.layer_decay": rules.number("(0, 1]"),
    "optimizer.ema_momentum": rules.number("[0, 1)"),
    "train.batch_size": _POSITIVE,
    "train.accumulate_steps": _POSITIVE,
    "train.num_steps": _POSITIVE,
    "train.stage_steps": _sequence(_POSITIVE),
    "train.stage_batch_sizes": _sequence(_POSITIVE),
    "train.stage_input_lengths": _sequence(rules.integer(2)),
    "train.steps_per_call": _POSITIVE,
    "train.eval_every": _POSITIVE,
    "train.eval_batches": _POSITIVE,
    "train.checkpoint_every": _POSITIVE,
    "train.keep_checkpoints": _POSITIVE,
    "train.dtype": rules.one_of(("auto", "float32", "mixed_bfloat16")),
    "train.deterministic": rules.BOOL,
    "train.num_samples": _NATURAL,
    "task.kind": rules.NAME,
    "task.unlabelled_source": rules.STRING,
    "task.text_field": rules.NAME,
    "task.second_text_field": rules.STRING,
    "task.label_field": rules.NAME,
    "task.label_names": Rule(
        f"empty, or {labels.CLASS_NAMES.text}",
        lambda value: isinstance(value, list | tuple) and (not value or labels.CLASS_NAMES.holds(value)),
    ),
    "task.label_threshold": _optional(rules.number("(-inf, inf)")),
    "task.input_field": rules.NAME,
    "task.target_field": rules.NAME,
    "task.question_field": rules.NAME,
    "task.context_field": rules.NAME,
    "task.answers_field": rules.NAME,
    "task.pack": rules.BOOL,
    "task.num_epochs": _optional(rules.number("[0, inf)")),
    "task.pooling": rules.NAME,
    "task.head_dropout": _RATE,
}


def check(config):
    """Checks a config, and raises a one-line ValueError for the first value that breaks a rule.

    Args:
        config: ConfigDict with the fields of `configs/common.py`.

    Raises:
        ValueError: if a value breaks a rule; the message names the field, the rule and the value.
        SourceError: if a source or split is malformed.
    """
    for path, rule in RULES.items():
        value = config
        for name in path.split("."):
            value = value[name]
        rule.check(path, value)
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
            near = difflib.get_close_matches(name, default, n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            raise ValueError(f"unknown config field {prefix}{name}{hint}")
        if name not in config:
            raise ValueError(
                f"config field {prefix}{name} is missing; start from convnlp.configs.common.get_config()"
            )
        if isinstance(default[name], dict) and prefix + name not in OPEN_FIELDS:
            check_fields(config[name], default[name], f"{prefix}{name}.")
