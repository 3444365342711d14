"""The command-line programs of a folder."""

def programs(names, deps):
    """Declares a py_binary for each program, and the library of them all, `programs`.

    Args:
        names: names of their files, without .py.
        deps: labels that they need.
    """
    for name in names:
        native.py_binary(
            name = name,
            srcs = [name + ".py"],
            main = name + ".py",
            deps = deps,
        )
    native.py_library(
        name = "programs",
        deps = [":" + name for name in names],
    )
