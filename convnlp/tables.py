"""The tables to which users add classes of their own: mixers, objectives, tasks, forms."""

import inspect


def register(table, base, cls, check=None):
    """Adds a class to a table, under its `name`.

    Args:
        table: dict, name -> class.
        base: the class that all classes in the table extend.
        cls: the new class. It replaces an earlier one of the same definition, as when a notebook's cell is
            run twice.
        check: function of the class that raises ValueError if the class breaks another rule of the table.

    Returns:
        `cls`, so that the function can serve as a decorator.

    Raises:
        ValueError: if the class does not extend the base with all its methods, has no name, or its name is
            taken.
    """
    if not (inspect.isclass(cls) and issubclass(cls, base)) or inspect.isabstract(cls):
        methods = " with all its methods" if inspect.isabstract(base) else ""
        raise ValueError(f"`cls` must be a subclass of {base.__name__}{methods}. Received: cls={cls!r}")
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"`name` of {cls.__name__} must be an identifier. Received: name={name!r}")
    if check is not None:
        check(cls)
    taken = table.get(name)
    if taken and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(
            f"`name` must not be taken: {name!r} is {taken.__module__}.{taken.__qualname__}. Received: {cls}"
        )
    table[name] = cls
    return cls
