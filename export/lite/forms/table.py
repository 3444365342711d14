"""The table of forms, and what reads it."""

from convnlp import tables
from convnlp.export.lite.forms.dynamic_range import DynamicRange
from convnlp.export.lite.forms.float16 import Float16
from convnlp.export.lite.forms.float32 import Float32
from convnlp.export.lite.forms.form import INPUTS, Form
from convnlp.export.lite.forms.full_int8 import FullInt8

FORMS = {
    "dynamic": DynamicRange,
    "fp32": Float32,
    "fp16": Float16,
    "int8": FullInt8,
}


def form_named(name):
    """The form of that name, a `Form`.

    Raises:
        ValueError: if there is none.
    """
    if name not in FORMS:
        raise ValueError(f"`mode` must be one of {', '.join(FORMS)}. Received: mode={name!r}")
    return FORMS[name]()


def register_form(cls):
    """Adds a form of your own to `FORMS`, under its `name`.

    It holds for this process: a program does it for the modules of `--modules`.

    Args:
        cls: a subclass of `Form` with a `name` and a `summary`. Running the same definition again, as in a
            notebook, replaces it.

    Returns:
        `cls`, so that it can decorate the class.

    Raises:
        ValueError: if it is not such a class, or its name is taken.
    """
    return tables.register(FORMS, Form, cls, check=_check)


def _check(cls):
    """Raises ValueError if the programs could not show a form, or give it what it takes."""
    summary = getattr(cls, "summary", None)
    if not isinstance(summary, str) or not summary:
        raise ValueError(f"`summary` of {cls.__name__} must be a text. Received: summary={summary!r}")
    if not cls.inputs or not set(cls.inputs) <= set(INPUTS):
        raise ValueError(
            f"`inputs` of {cls.__name__} must be of {', '.join(INPUTS)}. Received: inputs={cls.inputs!r}"
        )
