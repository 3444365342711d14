"""The table of tasks, and the functions that read it."""

import dataclasses

from convnlp import options, tables
from convnlp.data import fields
from convnlp.models import Seq2SeqLM, preset_names, presets
from convnlp.tasks.classification import Classification
from convnlp.tasks.continuation import Continuation
from convnlp.tasks.multi_label import MultiLabelClassification
from convnlp.tasks.question_answering import QuestionAnswering
from convnlp.tasks.regression import Regression
from convnlp.tasks.task import Task
from convnlp.tasks.text_to_text import TextToText

TASKS = {
    cls.name: cls
    for cls in (
        Classification,
        MultiLabelClassification,
        Regression,
        QuestionAnswering,
        TextToText,
        Continuation,
    )
}


def task_named(name):
    """Returns the class of the task of this name.

    Raises:
        ValueError: if there is none.
    """
    if name not in TASKS:
        raise ValueError(f"`task.kind` must be one of {', '.join(TASKS)}. Received: {name!r}")
    return TASKS[name]


def check_options(config):
    """Checks the options of a config's task, before anything is read or built, and returns them.

    Args:
        config: ConfigDict, see `configs/common.py`.

    Returns:
        Dict, name of an option -> value.

    Raises:
        ValueError: if there is no such task, if it has no such option, or if a value breaks its rule.
    """
    cls, given = task_named(config.task.kind), config.task.options.to_dict()
    options.check_names(given, options.options_of(cls), f"task {cls.name}")
    options.check_values(cls, given)
    return given


def build_task(config, tokenizer, train):
    """Returns an experiment's task with its options; arguments and errors are those of `Task.from_config`."""
    given = check_options(config)
    task = task_named(config.task.kind).from_config(config, tokenizer, train)
    return dataclasses.replace(task, **given) if given else task


def task_of(model):
    """Returns the class of the task that a model, or a class of models, was made for.

    Raises:
        ValueError: if there is none.
    """
    cls = model if isinstance(model, type) else type(model)
    for task in TASKS.values():
        if cls is task.model_cls:
            return task
    for task in TASKS.values():
        if issubclass(cls, task.model_cls):
            return task
    known = ", ".join(task.model_cls.__name__ for task in TASKS.values())
    raise ValueError(f"`model` must be one of {known}. Received: a {cls.__name__}")


def load(preset, **kwargs):
    """Loads a preset by name or directory, whatever its task; takes the arguments of `from_preset`.

    A backbone alone is loaded as a `Seq2SeqLM`.

    Raises:
        ValueError: if a file is missing or damaged (the message names it), or if the preset is an encoder
            alone, which cannot answer anything.
    """
    return saved_class(preset).from_preset(preset_names.locate(preset), **kwargs)


def saved_class(preset):
    """Returns the class of the model that `load` gives, before anything is loaded; raises its errors."""
    preset = preset_names.locate(preset)
    found = presets.task_class(preset)
    if found is not None:
        return found
    if presets.entry(preset, "config.json", "config", "num_decoder_layers") == 0:
        raise ValueError(
            f"preset {preset}: an encoder alone has no classes to choose from and writes no text. "
            "Fine-tune it with convnlp finetune and take that"
        )
    return Seq2SeqLM


def register_task(cls):
    """Adds a task of your own to `TASKS`, under its `name`.

    It holds for this process: a program does it for the modules of `--modules`.

    Args:
        cls: a subclass of `Task` with a `name`. Running the same definition again, as in a notebook,
            replaces it.

    Returns:
        `cls`, so that the function can serve as a decorator.

    Raises:
        ValueError: if it is not such a class, if its name is taken, or if it looks for unknown fields.
    """
    return tables.register(TASKS, Task, cls, check=_check_found_fields)


def _check_found_fields(cls):
    if not {*cls.found_fields} <= {*fields.ROLES}:
        raise ValueError(
            f"`found_fields` of {cls.__name__} must be of {', '.join(fields.ROLES)}. "
            f"Received: {', '.join(cls.found_fields)}"
        )
