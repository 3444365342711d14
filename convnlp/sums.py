"""SHA256SUMS: the sums of a directory's files, in the format of `sha256sum --check`."""

import hashlib
import os
import re

FILE = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64}) [ *](\S.*)")


def of_file(path):
    """Returns the SHA-256 sum of a file, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(directory, found):
    """Writes SHA256SUMS, which appears as a whole or not at all.

    Args:
        directory: str or path.
        found: dict, name -> sum; names are relative to the directory, with "/" between folders.

    Returns:
        str, its path.
    """
    path = os.path.join(directory, FILE)
    with open(f"{path}.partial", "w", encoding="utf-8") as file:
        file.writelines(f"{value}  {name}\n" for name, value in found.items())
    os.replace(f"{path}.partial", path)
    return path


def parse(content):
    r"""Returns the sums in the content of such a file.

    Args:
        content: bytes.

    Returns:
        dict, name -> sum.

    Raises:
        ValueError: if a line is malformed, or its name leads out of the directory; the message says which.

    Example:
    >>> parse(b"0" * 64 + b"  ./saved_model.pb\n")
    {'saved_model.pb': '0000000000000000000000000000000000000000000000000000000000000000'}
    """
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{FILE} cannot be read ({error})") from error
    found = {}
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        name = match[2].removeprefix("./") if match else ""  # `find | xargs sha256sum` writes "./"
        if not name or os.path.isabs(name) or ".." in name.split("/"):
            raise ValueError(
                f"{FILE} line {number} must be a SHA-256 sum, two spaces and a name in this directory. "
                f"Received: {line[:100]!r}"
            )
        found[name] = match[1]
    return found
