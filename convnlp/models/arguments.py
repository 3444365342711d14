"""One clear line for an argument that does not exist."""

import difflib
import inspect

_OF_EVERY_MODEL = ("name", "trainable")
_ADVICE = {"activation": "The model gives logits; apply `keras.ops.softmax` to what `predict` returns"}


def names(cls):
    """The arguments that the constructor of a class takes by name, those of its base classes included.

    Args:
        cls: a class whose `**kwargs`, where it has them, are those of its base class.

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
    """Raises ValueError for an argument that a class does not take, with the one that was probably meant.

    Keras drops what it does not know from the arguments of a functional model: a misspelt one would leave
    its default in place without a word.

    Args:
        cls: the class that is to be built.
        received: iterable of str. Names of the arguments.
        also: iterable of str. Names that are arguments here beside those of the constructor.
    """
    known = [*names(cls), *also]
    for name in received:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f". {_ADVICE[name]}" if name in _ADVICE else f"; did you mean `{near[0]}`?" if near else ""
            raise ValueError(f"`{name}` is not an argument of {cls.__name__}{hint}")
