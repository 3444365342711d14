"""Refuses, or names, fields that a command gives in vain: nothing reads them, or something else sets them."""

import inspect

from absl import flags, logging

from convnlp import options, tasks
from convnlp.layers import MIXERS
from convnlp.models import preset_names, presets
from convnlp.models.layouts import all_mixers
from convnlp.objectives import OBJECTIVES, SHARED_OPTIONS

_OF_A_DECODER = ("num_decoder_layers", "decoder_mixer", "decoder_kernel_size", "cross_attention_init")
_OF_SOME_MIXERS = ("kernel_size", "dilation_rate", "weight_softmax")
_COUNTS = ("train.num_steps", "train.eval_every", "train.checkpoint_every")
# What a head alone has no use for, except for the fields below.
_OF_NO_HEAD = (
    *("objective.", "optimizer.", "train.", "task.num_epochs", "task.head_dropout", "task.pack"),
    *("model.dropout", "data.target_length", "data.group_by_length", "data.shuffle_buffer"),
)
_OF_ALL = ("train.batch_size", "train.dtype", "train.deterministic")


def given():
    """Returns the fields that flags of this command set, dict, name such as "train.num_steps" -> value."""
    return dict(flags.FLAGS["config"].override_values)


def check_model(config, fields):
    """Refuses a field of the model beside a preset, which has its own: it would be trained unchanged.

    A preset takes another dropout and, if it has no decoder, the fields of one.

    Args:
        config: ConfigDict, see `configs/common.py`.
        fields: dict, as `given` returns it.

    Raises:
        ValueError: names the field.
    """
    if not config.init_from:
        return
    for name in fields:
        section, _, field = name.partition(".")
        is_of_decoder = field in _OF_A_DECODER
        if section != "model" or field == "dropout" or (is_of_decoder and not _has_decoder(config)):
            continue
        what = "decoder" if is_of_decoder else "model"
        raise ValueError(
            f"`{name}` must not be given when `init_from` names a preset, which has its own {what}; an empty "
            "init_from (--config.init_from=) trains from random weights. "
            f"Received: {name}={fields[name]!r}, init_from={config.init_from!r}"
        )


def _has_decoder(config):
    """Returns whether the preset that `init_from` names has a decoder."""
    directory = preset_names.locate(config.init_from)
    return presets.entry(directory, "config.json", "config", "num_decoder_layers")


def check_counts(config, fields):
    """Refuses a number of steps beside a number of epochs, which determines it.

    Args:
        config: ConfigDict.
        fields: dict, as `given` returns it.

    Raises:
        ValueError: names the field.
    """
    for name in _COUNTS:
        if name in fields and config.task.num_epochs != 0:
            raise ValueError(
                f"`{name}` must not be given unless `task.num_epochs` is 0: the epochs determine it. "
                f"Received: {name}={fields[name]!r}, task.num_epochs={config.task.num_epochs}"
            )


def check_test_split(config, fields):
    """Refuses a split to test on without a source: nothing would be tested.

    Args:
        config: ConfigDict.
        fields: dict, as `given` returns it.

    Raises:
        ValueError: names the field.
    """
    if "data.test_split" in fields and not config.data.test_source:
        raise ValueError(
            "`data.test_split` must be given with `data.test_source`. "
            f"Received: data.test_split={fields['data.test_split']!r}, data.test_source=''"
        )


def report_unread(config, fields, program):
    """Logs which fields have no effect, if there are any; arguments as for `without_effect`."""
    if unread := without_effect(config, fields, program):
        logging.warning("without effect in %s: %s", program, ", ".join(unread))


def without_effect(config, fields, program):
    """Returns the names of the fields that a program does not read.

    Args:
        config: ConfigDict.
        fields: dict, as `given` returns it.
        program: "pretrain" or "finetune".

    Example:
    >>> from convnlp.configs import pretrain_encoder
    >>> config = pretrain_encoder.get_config()
    >>> without_effect(config, {"data.test_source": "csv:a.csv", "train.batch_size": 8}, "pretrain")
    ['data.test_source']
    """
    if program == "pretrain":
        found = {name for name in fields if name.startswith("task.")} - {"task.text_field"}
        found |= {"data.test_source", "data.test_split", "data.group_by_length"}
        found |= _of_no_objective(config.objective.names)
    else:
        found = _of_others_than_finetune(config, fields)
    if config.optimizer.schedule != "warmup_flat_linear":
        found.add("optimizer.decay_steps")
    if config.optimizer.schedule == "constant":
        found.add("optimizer.warmup_steps")
    if config.optimizer.name == "adafactor":
        found.add("optimizer.beta_2")
    found |= _of_no_mixer(config.model) | _of_no_decoder(config)
    return [name for name in fields if name in found]


def _of_others_than_finetune(config, fields):
    """Returns the fields of pre-training, unless a run begins with it, and those of other tasks."""
    task = tasks.task_named(config.task.kind)
    found = _of_other_tasks(task, fields)
    if not task.reads("target_field"):
        found.add("data.target_length")
    if not config.task.unlabelled_source:
        found |= {name for name in fields if name.startswith("objective.")}
        found |= {"train.num_samples", "train.eval_batches", "data.shuffle_buffer"}
    return found


def _of_other_tasks(task, fields):
    """Returns the fields of `task` that this task does not read."""
    of_tasks = {name: name.split(".")[1] for name in fields if name.startswith("task.")}
    return {name for name, field in of_tasks.items() if not task.reads(field)}


def _of_no_objective(names):
    """Returns the fields shared by objectives that none of the named ones takes."""
    if not {*names} <= {*OBJECTIVES}:  # an unknown one is reported later
        return set()
    taken = {option for name in names for option in options.options_of(OBJECTIVES[name])}
    return {f"objective.{option}" for option in SHARED_OPTIONS if option not in taken}


def _of_no_mixer(model):
    """Returns the fields of the model that none of its mixers takes."""
    values = filter(None, (model[field] for field in ("mixer", "encoder_mixer", "decoder_mixer")))
    parts = [part for value in values for part in value.split(",")]
    names = {name for part in parts for is_decoder in (False, True) for name in all_mixers(part, is_decoder)}
    if not names <= set(MIXERS):  # an unknown one is reported later
        return set()
    taken = {name for mixer in names for name in inspect.signature(MIXERS[mixer]).parameters}
    return {f"model.{name}" for name in _OF_SOME_MIXERS if name not in taken}


def _of_no_decoder(config):
    """Returns the fields of the model that describe a decoder, if it will have none."""
    layers = config.model.num_decoder_layers
    if layers or (_has_decoder(config) if config.init_from else layers is None):  # None: as its size says
        return set()
    return {f"model.{name}" for name in _OF_A_DECODER if name != "num_decoder_layers"}


def without_effect_on_a_head(config, fields):
    """Returns the names of the fields that have no effect if only a head is fitted to a frozen encoder.

    Example:
    >>> from convnlp.configs import finetune_classification
    >>> fields = {"seed": 1, "task.options.r_drop": 0.1, "train.batch_size": 8}
    >>> without_effect_on_a_head(finetune_classification.get_config(), fields)
    ['task.options.r_drop']
    """
    task = tasks.task_named(config.task.kind)
    of_task = options.options_of(task, head=False)
    unread = (*_OF_NO_HEAD, *(f"task.options.{name}" for name in of_task), *_of_other_tasks(task, fields))
    return [name for name in fields if name.startswith(unread) and name not in _OF_ALL]
