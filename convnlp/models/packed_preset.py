"""Makes a preset ready to be shared: small weights, and no traces of the machine that it comes from."""

import json
import os
import re
import shutil
import uuid

from convnlp.models import arguments, checksums, preset_names, preset_weights, presets

DTYPES = ("float16", "float32")
_CARD = "README.md"
# The folders before a name: in an absolute path within a text, and in a value that is one path or source.
_IN_TEXT = re.compile(r"(?:file://|(?<![\w./~]))/(?!/)(?:[^\s/'\"`,;]+/)+(?=[^\s/'\"`,;])")
_IN_VALUE = re.compile(r"^(\w+:)?/(?!/).*/(?=[^/])")


def pack(preset, output, dtype="float16"):
    """Copies a preset without what matters only where it was made.

    The copy leaves out the state of an optimizer, the folders of the files that the run has read (in
    experiment.json, the model card and metadata.json), and all files that do not belong to a preset. The
    weights are stored in `dtype`; see `preset_weights.copy` for the error. Models loaded from the copy
    compute in their usual type. The copy has sums of its own, and is loaded once before it appears.

    Args:
        preset: str. A name, or a directory written by `save_to_preset`. It is not changed.
        output: str. The directory to write, which must be new. Its name replaces the old one in the model
            card.
        dtype: str. "float16" (default) or "float32".

    Returns:
        dict with "num_weights", "largest_change" (of a weight), and "bytes_before" and "bytes" of all files.

    Raises:
        ValueError: if the preset is damaged, `output` exists or is a URL, or a weight does not fit into
            `dtype`. Then nothing is left behind.
    """
    if dtype not in DTYPES:
        raise ValueError(f"`dtype` must be one of {', '.join(DTYPES)}. Received: dtype={dtype!r}")
    arguments.check_local("output", output)
    directory = preset_names.locate(preset)
    output = os.path.normpath(output)
    if os.path.lexists(output):
        raise ValueError(f"`output` must be a new directory. Received: output={output!r}, which exists")
    checksums.check(directory)
    preset_weights.shapes(directory)
    if os.path.exists(os.path.join(directory, preset_weights.TASK_WEIGHTS)):
        preset_weights.shapes(directory, preset_weights.TASK_WEIGHTS)
    names = checksums.files(directory)

    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    partial = f"{output}.{uuid.uuid4().hex}.partial"  # one that was killed may have had this process's number
    os.mkdir(partial)
    try:
        facts = {"num_weights": 0, "largest_change": 0.0}
        for name in names:
            source, target = os.path.join(directory, name), os.path.join(partial, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if name.endswith(".weights.h5"):
                count, change = preset_weights.copy(source, target, dtype)
                facts["num_weights"] += count
                facts["largest_change"] = max(facts["largest_change"], change)
            elif name in (_CARD, "experiment.json", "metadata.json"):
                _copy_text(source, target, os.path.basename(os.path.abspath(directory)), output)
            else:
                shutil.copyfile(source, target)
        checksums.write(partial)
        presets.load_any(partial)
        os.rename(partial, output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return {**facts, "bytes_before": _size(directory, names), "bytes": _size(output, names)}


def without_folders(value):
    """Returns a JSON value with file names in place of absolute paths.

    Keys of a dict that become equal are numbered.

    Example:
    >>> without_folders({"source": "jsonl:/data/my news/train.jsonl", "see": "https://example.org/a/b"})
    {'source': 'jsonl:train.jsonl', 'see': 'https://example.org/a/b'}
    """
    if isinstance(value, str):
        return _IN_TEXT.sub("", _IN_VALUE.sub(r"\1", value))
    if isinstance(value, list):
        return [without_folders(each) for each in value]
    if not isinstance(value, dict):
        return value
    renamed = {}
    for key, each in value.items():
        name, number = without_folders(key), 2
        while name in renamed:
            name, number = f"{without_folders(key)} ({number})", number + 1
        renamed[name] = without_folders(each)
    return renamed


def _copy_text(source, target, old_name, output):
    with open(source, encoding="utf-8") as file:
        text = file.read()
    if source.endswith(".json"):
        text = json.dumps(without_folders(json.loads(text)), indent=2, sort_keys=True) + "\n"
    else:
        new_name = os.path.basename(output)
        text = _IN_TEXT.sub("", text).replace(f'from_preset("{old_name}")', f'from_preset("{new_name}")')
        text = re.sub(f"^# {re.escape(old_name)}$", lambda _: f"# {new_name}", text, flags=re.MULTILINE)
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)


def _size(directory, names):
    return sum(os.path.getsize(os.path.join(directory, name)) for name in names)
