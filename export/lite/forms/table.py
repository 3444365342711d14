"""The table of forms, and what reads it."""

import inspect

from export.lite.forms.dynamic_range import DynamicRange
from export.lite.forms.float16 import Float16
from export.lite.forms.float32 import Float32
from export.lite.forms.form import INPUTS, Form
from export.lite.forms.full_int8 import FullInt8

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
    if not (inspect.isclass(cls) and issubclass(cls, Form)) or inspect.isabstract(cls):
        raise ValueError(f"`cls` must be a subclass of Form with all its methods. Received: cls={cls!r}")
    for attribute in ("name", "summary"):
        value = getattr(cls, attribute, None)
        if not isinstance(value, str) or not value:
            raise ValueError(
                f"`{attribute}` of {cls.__name__} must be a text. Received: {attribute}={value!r}"
            )
    if not cls.name.isidentifier():
        raise ValueError(f"`name` of {cls.__name__} must be an identifier. Received: name={cls.name!r}")
    if not cls.inputs or not set(cls.inputs) <= set(INPUTS):
        raise ValueError(
            f"`inputs` of {cls.__name__} must be of {', '.join(INPUTS)}. Received: inputs={cls.inputs!r}"
        )
    taken = FORMS.get(cls.name)
    if taken and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(
            f"`name` must not be taken: {cls.name!r} is {taken.__module__}.{taken.__qualname__}. "
            f"Received: {cls}"
        )
    FORMS[cls.name] = cls
    return cls
