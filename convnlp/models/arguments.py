"""Reports an argument that does not exist, or names a place that cannot be, in one clear line."""

import difflib
import inspect
import os

_OF_EVERY_MODEL = ("name", "trainable")
_ADVICE = {"activation": "The model gives logits; apply `keras.ops.softmax` to what `predict` returns"}


def names(cls):
    """Returns the arguments that a class's constructor takes by name, including those of its base classes.

    Args:
        cls: a class whose `**kwargs`, if it has them, are those of its base class.

    Returns:
        List of str.
    """
    found = []
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(base.__init__).parameters.values()
        found += [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        takes_more = any(p.kind == p.VAR_KEYWORD for p in parameters)
        if not takes_more or base.__module__.startswith("keras.src"):
            break
    return [*dict.fromkeys(found), *_OF_EVERY_MODEL]


def refuse_unknown(cls, received, also=()):
    """Raises ValueError for an argument that a class does not take, and suggests the one probably meant.

    Keras drops arguments of a functional model that it does not know: a misspelt one would silently leave
    the default in place.

    Args:
        cls: the class to build.
        received: iterable of str. Names of the arguments.
        also: iterable of str. Further names that are allowed here, besides the constructor's arguments.
    """
    known = [*names(cls), *also]
    for name in received:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f". {_ADVICE[name]}" if name in _ADVICE else f"; did you mean `{near[0]}`?" if near else ""
            raise ValueError(f"`{name}` is not an argument of {cls.__name__}{hint}")


def check_local(name, path):
    """Raises ValueError if what is to be written has no path, or is behind a URL.

    Python's own functions take "", an unset variable of a shell, for the working directory, and
    "gs://bucket/model" for a folder in it.

    Args:
        name: str. The argument.
        path: str or path-like.
    """
    if not os.fspath(path):
        raise ValueError(f"`{name}` must not be empty. Received: {name}={path!r}")
    if "://" in os.fspath(path):
        raise ValueError(
            f"`{name}` must be a path on this machine; copy it to a URL afterwards. Received: {name}={path}"
        )
