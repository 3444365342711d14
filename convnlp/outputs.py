"""Files that a program writes: looked at before the work begins, and there whole or not at all."""

import contextlib
import os
import pathlib

from convnlp.models import preset_names

RUN_FILES = (
    "config.json",
    "metrics.jsonl",
    "times.jsonl",
    "results.json",
    "report.html",
    "report.json",
    "adapted",
    "run.lock",
    "checkpoints",
    "tensorboard",
    "preset",
)


def check_file(name, path, inputs=()):
    """Raises where a file could not be written, or would be written over what is read.

    Args:
        name: string, the flag or argument of the path.
        path: string. It need not exist, nor its folder.
        inputs: iterable of paths that the program reads, files or folders.

    Raises:
        ValueError: names the argument, the rule and the path.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        raise ValueError(f"`{name}` must be a file, not a directory. Received: {name}={path}")
    place = path if path.exists() else next(parent for parent in path.absolute().parents if parent.exists())
    if not os.access(place, os.W_OK) or not (path.exists() or place.is_dir()):
        raise ValueError(
            f"`{name}` must be where files can be written, and {place} is not. Received: {name}={path}"
        )
    for other in inputs:
        if _is_within(path, other):
            raise ValueError(f"`{name}` must not be what is read, {other}. Received: {name}={path}")


def check_run_folder(workdir, preset, inputs):
    """Raises where a run would write over what it reads.

    Args:
        workdir: string, the directory of a run.
        preset: string, the preset that it starts from, by name or directory; "" for none.
        inputs: iterable of paths of files that it reads.

    Raises:
        ValueError: names the argument, the rule and the path.
    """
    if preset in preset_names.names():
        preset = preset_names.locate(preset)
    written = [pathlib.Path(workdir, name) for name in RUN_FILES]
    for name, path in (("init_from", preset), *(("source", path) for path in inputs)):
        if path and any(_is_within(path, folder) for folder in written):
            raise ValueError(
                f"`workdir` must not be where the run reads from: it would write over {path}. "
                f"Received: workdir={workdir}, {name}={path}"
            )


def write_file(path, data):
    """Writes bytes to a file that appears when it is complete; makes its folder where there is none."""
    with writing(path) as file:
        file.write(data)


@contextlib.contextmanager
def writing(path):
    """A binary file that appears under its name when the block ends, and not at all where that fails."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _is_within(path, folder):
    """Whether `path` is `folder` or lies in it, whatever links lead there."""
    return pathlib.Path(path).resolve().is_relative_to(pathlib.Path(folder).resolve())
