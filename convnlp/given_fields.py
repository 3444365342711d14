"""Refuses fields that a command gives in vain, because something else determines what they would set."""

from absl import flags

# The fields of a model that a preset takes, too; all but the first are those of a decoder that it gets.
_OF_ANY_MODEL = (
    "dropout",
    "num_decoder_layers",
    "decoder_mixer",
    "decoder_kernel_size",
    "cross_attention_init",
)
_COUNTS = ("train.num_steps", "train.eval_every", "train.checkpoint_every")
# What shapes training alone, except for the fields below.
_OF_TRAINING = ("objective.", "optimizer.", "train.", "task.num_epochs", "task.head_dropout")
_OF_TRAINING += (
    "task.options.r_drop",
    "task.options.teachers",
    "data.group_by_length",
    "data.shuffle_buffer",
)
_OF_ALL = ("train.batch_size", "train.dtype", "train.deterministic")


def given():
    """Returns the fields that flags of this command set, dict, name such as "train.num_steps" -> value."""
    return dict(flags.FLAGS["config"].override_values)


def check_model(config, fields):
    """Refuses a field of the model beside a preset, which has its own: it would be trained unchanged.

    Args:
        config: ConfigDict, see `configs/common.py`.
        fields: dict, as `given` returns it.

    Raises:
        ValueError: names the field.
    """
    for name, value in fields.items():
        section, _, field = name.partition(".")
        if config.init_from and section == "model" and field not in _OF_ANY_MODEL:
            raise ValueError(
                f"`{name}` must not be given when `init_from` names a preset, which has its own model; an "
                "empty init_from (--config.init_from=) trains from random weights. "
                f"Received: {name}={value!r}, init_from={config.init_from!r}"
            )


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


def without_effect_on_a_head(fields):
    """Returns the names of the fields that have no effect if only a head is fitted to a frozen encoder.

    Example:
    >>> without_effect_on_a_head({"seed": 1, "optimizer.learning_rate": 0.1, "train.batch_size": 8})
    ['optimizer.learning_rate']
    """
    return [name for name in fields if name.startswith(_OF_TRAINING) and name not in _OF_ALL]
