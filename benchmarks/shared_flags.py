"""Flags that several programs have: a name has one meaning in all of them, and paths have no default.

- `--seeds` lists the seeds themselves, as in `--seeds=0,1,2`; it never says how many there are.
- `--docs_dir` and `--docs_page` lead to a page with marks, between which the program writes what it found.
  Without one, no page is written, so that a trial run writes over nothing in docs/. A program that keeps
  its finished results beside its page requires `--docs_dir`.
- `--json` names the file for all results; without it there is none.
- An empty path is none.

What they name is checked before anything is computed.
"""

import math
import pathlib

from absl import flags

from convnlp import outputs

flags.disclaim_key_flags()  # a flag belongs to the program that calls `define_output`, so its --help shows it


class _Path(flags.ArgumentParser):
    """A path, None if it is empty."""

    def parse(self, argument):
        return argument or None


def define_output(name, description, required=False):
    """Defines a flag that names a file or a directory to write to; None if it is not given, or empty.

    Args:
        name: str, such as "json", "docs_dir" or "docs_page".
        description: str, for --help.
        required: bool, whether the program ends with a message if there is none. Defaults to False.

    Returns:
        absl's `FlagHolder`.
    """
    return flags.DEFINE(
        _Path(), name, None, description, serializer=flags.ArgumentSerializer(), required=required
    )


def check_json(path, inputs=()):
    """Checks what `--json` names, if it is given, by `convnlp.outputs.check_file`, and makes its folder."""
    if path:
        outputs.check_file("json", path, inputs)
        pathlib.Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)


def check_among(flag, names, known):
    """Checks that the names in a list flag are known ones.

    Args:
        flag: str, the name of the flag.
        names: list of str, its value.
        known: iterable of str.

    Raises:
        ValueError: if one is not, with the first that is not.
    """
    for name in names:
        if name not in known:
            raise ValueError(f"`--{flag}` must be among {', '.join(known)}. Received: {name!r}")


def read_seeds(texts):
    """Returns the tuple of seeds that `--seeds` lists: different whole numbers of 0 or more.

    Args and errors are those of `numbers`.

    Example:
    >>> read_seeds(["0", "7"])
    (0, 7)
    """
    return tuple(numbers("seeds", texts, least=0, differ=True))


def numbers(flag, texts, least, kind=int, differ=False):
    """Returns the numbers in a list flag.

    Args:
        flag: str, its name.
        texts: list of str, its value.
        least: the smallest number that is allowed.
        kind: `int` for whole numbers, or `float`. Defaults to `int`.
        differ: bool, whether no two may be the same. Defaults to False.

    Returns:
        List of numbers of that kind, at least one.

    Raises:
        ValueError: if there is none, one is not such a number, or two are the same and must not be.

    Example:
    >>> numbers("lengths", ["32", "128"], least=1)
    [32, 128]
    """
    try:
        found = [kind(text) for text in texts]
    except ValueError:
        found = []
    if not found or not all(least <= number < math.inf for number in found):
        raise ValueError(f"`--{flag}` must be numbers of {least:g} or more. Received: {','.join(texts)!r}")
    if differ and len(set(found)) < len(found):
        raise ValueError(f"`--{flag}` must be different numbers. Received: {','.join(texts)!r}")
    return found
