"""The JSON files of docs/ that keep finished results, one per line, so that none is computed again."""

import json

from convnlp.training import storage


def read(path, name):
    """Returns the results that a file keeps.

    Args:
        path: pathlib.Path, which need not exist; or None for none.
        name: str, the key under which they are kept.

    Returns:
        dict; empty if there is no file.
    """
    if path is None or not path.exists():
        return {}
    return json.loads(path.read_text(encoding="utf-8"))[name]


def write(path, machine, name, results):
    """Writes the file completely or not at all.

    Args:
        path: pathlib.Path; its folder is made if it is missing.
        machine: dict that describes the machine on which the results were computed.
        name: str, the key under which they are kept.
        results: dict of JSON values, in the order of the lines.
    """
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in results.items())
    text = f'{{"machine": {json.dumps(machine)},\n{json.dumps(name)}: {{\n{lines}\n}}}}\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    storage.write(str(path), text.encode())
