"""Finds the fields of the data that a task reads, if the config or the flags leave them open."""

from convnlp.data import SourceError, fields, lengths, sources
from convnlp.models import presets
from convnlp.tasks.scored_fields import texts_of
from convnlp.tasks.table import TASKS, task_named, task_of
from convnlp.tasks.task import Task

_FLAGS = {"texts": "text_fields", "label": "label_field", "target": "target_field"}  # arguments of `Fields`


def open_fields(config):
    """Returns the names of the config's fields that `take` and `take_length` may set: "task.text_field", ...

    Args:
        config: ConfigDict, see `configs/common.py`.
    """
    roles = task_named(config.task.kind).open_roles(config)
    names = tuple(f"task.{role}" for role in roles if config.task[role] == fields.ROLES[role].default)
    return names + ("data.input_length",) * (config.data.input_length is None)


def take(config, train):
    """Sets the fields that the config leaves at their default and the data do not have; logs its choice.

    Args:
        config: ConfigDict, changed in place.
        train: `convnlp.data.Source`, which decides for all sources.

    Raises:
        SourceError: if it is not clear which fields are meant; see `convnlp.data.fields`.
        ValueError: if the texts of a pair, or a text and its label, are the same field.
    """
    roles = task_named(config.task.kind).open_roles(config)
    if {*open_fields(config)} - {"data.input_length"}:
        given = {role: config.task[role] for role in (*roles, "second_text_field")}
        config.task.update(fields.take(train, given))
    _check_differ(config)


def _check_differ(config):
    """Raises ValueError if a field is read twice, and nothing could be learned from it."""
    task, cls, role_of = config.task, task_named(config.task.kind), {}
    # A target may be the input, to be copied; and with listed classes, a text may be its label.
    has_label = "label_field" in cls.open_roles(config) and not task.label_names
    for role in (*cls.text_roles, *("label_field",) * has_label):
        other = role_of.setdefault(task[role], role)
        if task[role] and other != role:
            raise ValueError(
                f"`task.{role}` must be another field than task.{other}. Received: task.{role}={task[role]}"
            )


def take_length(config, tokenizer, train, backbone):
    """Sets `data.input_length`, if it is None, so that most training texts fit, up to the model's limit.

    Args:
        config: ConfigDict, after `take`; changed in place.
        tokenizer: `convnlp.models.Tokenizer`.
        train: `convnlp.data.Source`.
        backbone: `Seq2SeqBackbone` that reads the texts.

    Raises:
        SourceError: if an example cannot be read.
    """
    if config.data.input_length is None:
        task = task_named(config.task.kind)
        texts, most = texts_of(config.task, task.text_roles), task.longest_input(config, backbone)
        config.data.input_length = lengths.fitting(train, texts, tokenizer, most)


def texts_of_preset(directory, source, given=None):
    """Returns the fields of the texts to ask a preset about: one, or two for pairs.

    Args:
        directory: str, the preset.
        source: `convnlp.data.Source`.
        given: tuple of str, or None if the user has named none.

    Returns:
        Tuple of str: the given fields, else those that the preset was trained on, else those of the data.

    Raises:
        SourceError: if it is not clear which fields are meant.
    """
    if given:
        return tuple(given)
    trained = trained_on(directory)
    if trained and set(trained) <= set(sources.Sample(source, 1).fields):
        return trained
    if len(trained) > 1:
        raise SourceError(f"{source}: no fields {' and '.join(trained)}, which the preset was trained on")
    roles = _text_roles(_recorded(directory).get("kind"))
    names = {role: fields.ROLES[role].default for role in roles if role in fields.ROLES}
    return tuple({**names, **fields.take(source, names)}.values())


def trained_on(directory):
    """Returns the fields of the texts that a preset was trained on, a tuple; empty if it does not say."""
    task = _recorded(directory)
    return texts_of(task, _text_roles(task.get("kind")))


def _text_roles(kind):
    return TASKS.get(kind, Task).text_roles


def of_preset(model, directory, source, **given):
    """Returns the fields to score a model on: those given, else those of its training, else the data's.

    Args:
        model: the preset's model.
        directory: str, the preset.
        source: `convnlp.data.Source`.
        **given: arguments of `Fields`; None if not given.

    Returns:
        `Fields`.

    Raises:
        ValueError: if the task does not use one of those given.
        SourceError: as for `take`.
    """
    task, given = task_of(model), {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        if name not in task.scored_by:
            raise ValueError(
                f"`{_FLAGS.get(name, name)}` must not be given for a {type(model).__name__}, which is scored "
                f"without it. Received: {value!r}"
            )
    return task.scored_fields(model, source, _recorded(directory), given)


def _recorded(directory):
    """Returns the `task` of the config that a preset was trained by; an empty dict if it does not say."""
    found = presets.entry(directory, "experiment.json", "task")
    return found if isinstance(found, dict) else {}
