"""The tables that users add classes of their own to: objectives, tasks, forms."""

import inspect


def register(table, base, cls):
    """Adds a class to a table under its `name`.

    Args:
        table: dict, name -> class.
        base: the class that all in the table extend.
        cls: the new class. The same definition again, as when a notebook's cell is run twice, replaces it.

    Returns:
        `cls`, so that it can decorate the class.

    Raises:
        ValueError: if it does not extend the base with all its methods, has no name, or its name is taken.
    """
    if not (inspect.isclass(cls) and issubclass(cls, base)) or inspect.isabstract(cls):
        raise ValueError(
            f"`cls` must be a subclass of {base.__name__} with all its methods. Received: cls={cls!r}"
        )
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"`name` of {cls.__name__} must be an identifier. Received: name={name!r}")
    taken = table.get(name)
    if taken and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(
            f"`name` must not be taken: {name!r} is {taken.__module__}.{taken.__qualname__}. Received: {cls}"
        )
    table[name] = cls
    return cls
