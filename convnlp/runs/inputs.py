"""Identifies what a run reads by its content: sizes and SHA-256 sums of its data, tokenizer and preset."""

import functools
import hashlib
import itertools
import os

from absl import logging

from convnlp import options, tasks
from convnlp.data import Source, SourceError, files, sources, tfds_source
from convnlp.models import preset_names
from convnlp.training import storage

FULL_BYTES = 4 << 30  # per field; of more, only samples are hashed, so that a start stays a matter of seconds
SAMPLE_BYTES, NUM_SAMPLES = 1 << 20, 16
MAX_FILES = 256  # per field that are listed one by one
_UNREAD = ("README.md", "experiment.json")  # files of a preset that are for people


def fingerprints(config):
    """Returns fingerprints of the files that the fields of a config name.

    Args:
        config: ConfigDict of an experiment.

    Returns:
        dict field -> {name: fingerprint}. The fingerprint of a file is {"bytes": int, "sha256": hexadecimal};
        that of a TFDS data set is its version and the number of examples in each split. Names come without
        their directory, so that files may be moved. A field that names nothing, or something that cannot be
        read, is left out: reading it will say why.
    """
    data = config.data
    whole_source = functools.cache(of_source)  # most often, all names mean the same files

    def source(name, split):
        return whole_source(Source(name, split, data.data_dir).whole)

    readers = {
        "data.source": (source, data.source, data.split),
        "data.validation_source": (source, data.validation_source or data.source, data.validation_split),
        "data.test_source": (source, data.test_source, data.test_split),
        "task.unlabelled_source": (source, config.task.unlabelled_source, "train"),
        "tokenizer": (_files, [config.tokenizer]),
        "init_from": (_preset, config.init_from),
        **{f"task.options.{name}": (_presets, each) for name, each in _named_presets(config).items()},
    }
    found = {}
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)  # TFDS warns of what is missing, and will do so again on reading
    try:
        for field, (reader, *names) in readers.items():
            try:
                if names[0] not in ("", [""]) and (fingerprint := reader(*names)):
                    found[field] = fingerprint
            except (SourceError, ValueError, *storage.ERRORS):
                continue
    finally:
        logging.set_verbosity(verbosity)
    if found.get("data.validation_source") == found.get("data.source"):
        found.pop("data.validation_source", None)
    return found


def locate_presets(config):
    """Raises ValueError if a preset that a config names, to start from or in its task, does not exist."""
    for preset in filter(None, itertools.chain([config.init_from], *_named_presets(config).values())):
        preset_names.locate(preset)


def _named_presets(config):
    """Returns the presets that options of the task name: dict, option -> list. Invalid ones are left out."""
    task, found = tasks.TASKS.get(config.task.kind), {}
    for name in options.options_of(task, preset=True) if task else ():
        value = config.task.options.get(name, getattr(task, name, ()))
        value = [value] if isinstance(value, str) else value
        if isinstance(value, list | tuple):  # else the task refuses it later
            found[name] = value
    return found


def of_source(source):
    """Returns the fingerprints of a `Source`, by name; see `fingerprints`.

    Raises:
        SourceError: if its files cannot be found; other errors of `storage.ERRORS` if they cannot be read.
    """
    if source.kind == "tfds":
        info = tfds_source.builder(source.path, source.data_dir).info
        return {f"tfds:{info.full_name}": {n: s.num_examples for n, s in sorted(info.splits.items())}}
    # The file of pydocs has another name if other packages are installed.
    return {
        f"{source.kind}:{name}": fingerprint for name, fingerprint in _files(sources.paths(source)).items()
    }


def _preset(preset):
    preset = preset_names.locate(preset)
    if not storage.gfile.isdir(preset):
        return {}
    paths = [
        storage.join(folder, name)
        for folder, _, names in storage.gfile.walk(preset)
        for name in sorted(names)
        if name not in _UNREAD
    ]
    return _files(sorted(paths))


def _presets(presets):
    """Returns the fingerprints of a list of presets, each file by the place of its preset in the list."""
    return {
        f"{place}/{name}": fingerprint
        for place, preset in enumerate(presets, 1)
        for name, fingerprint in _preset(preset).items()
    }


def _files(paths):
    """Returns a dict name -> fingerprint; many files share one entry."""
    names = [os.path.basename(path) for path in paths]
    if len(set(names)) < len(names):
        names = paths
    is_large = sum(files.sizes(paths)) > FULL_BYTES
    sums = files.of_each(_sampled if is_large else storage.fingerprint, paths)
    found = dict(zip(names, sums, strict=True))
    if len(found) <= MAX_FILES:
        return found
    lines = "".join(f"{name} {each}\n" for name, each in sorted(found.items()))
    sha256 = hashlib.sha256(lines.encode()).hexdigest()
    return {f"{len(found)} files": {"bytes": sum(f["bytes"] for f in found.values()), "sha256": sha256}}


def _sampled(path):
    """Returns the size and the sum of samples from the whole file; a change of length always shows."""
    length = storage.gfile.stat(path).length
    if length <= SAMPLE_BYTES * NUM_SAMPLES:
        return storage.fingerprint(path)
    digest = hashlib.sha256()
    with storage.gfile.GFile(path, "rb") as file:
        for i in range(NUM_SAMPLES):
            file.seek((length - SAMPLE_BYTES) * i // (NUM_SAMPLES - 1))
            digest.update(file.read(SAMPLE_BYTES))
    return {"bytes": length, "sha256_of_samples": digest.hexdigest()}
