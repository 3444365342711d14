"""The table of forms, and functions to look up and register a form."""

from convnlp import tables
from convnlp.export.lite.forms.dynamic_range import DynamicRange
from convnlp.export.lite.forms.float16 import Float16
from convnlp.export.lite.forms.float32 import Float32
from convnlp.export.lite.forms.form import INPUTS, Form
from convnlp.export.lite.forms.full_int8 import FullInt8

FORMS = {cls.name: cls for cls in (DynamicRange, Float32, Float16, FullInt8)}


def form_named(name):
    """Returns the `Form` of this name.

    Raises:
        ValueError: if there is none.
    """
    if name not in FORMS:
        raise ValueError(f"`mode` must be one of {', '.join(FORMS)}. Received: mode={name!r}")
    return FORMS[name]()


def register_form(cls):
    """Adds a form of your own to `FORMS`, under its `name`.

    It applies to the current process; a program imports the modules of `--modules` for this purpose.

    Args:
        cls: a subclass of `Form` with a `name` and a `summary`. Running the same definition again, as in a
            notebook, replaces the class.

    Returns:
        `cls`, so that it can decorate the class.

    Raises:
        ValueError: if it is not such a class, or its name is taken.
    """
    return tables.register(FORMS, Form, cls, check=_check)


def _check(cls):
    """Raises ValueError if `summary` or `inputs` is not usable by the programs."""
    summary = getattr(cls, "summary", None)
    if not isinstance(summary, str) or not summary:
        raise ValueError(f"`summary` of {cls.__name__} must be a str, not empty. Received: {summary!r}")
    if not cls.inputs or not set(cls.inputs) <= set(INPUTS):
        raise ValueError(
            f"`inputs` of {cls.__name__} must be some of {', '.join(INPUTS)}. Received: inputs={cls.inputs!r}"
        )
