"""Checks, before a program starts its work, the files that it will write; writes files atomically."""

import contextlib
import errno
import os
import pathlib
import signal
import sys
import tempfile
import threading

from convnlp.models import arguments, preset_names

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # there is no room for more
RUN_FILES = (
    "config.json",
    "metrics.jsonl",
    "times.jsonl",
    "results.json",
    "report.html",
    "report.json",
    *(f"mistakes_{name}.{format}" for name in ("validation", "test") for format in ("csv", "tsv", "jsonl")),
    "adapted",
    "run.lock",
    "checkpoints",
    "tensorboard",
    "preset",
)


def check_file(name, path, inputs=()):
    """Checks that a file can be written, and that it would not overwrite what the program reads.

    Args:
        name: string, the flag or argument that gives the path.
        path: string. Neither it nor its folder needs to exist.
        inputs: iterable of paths that the program reads, files or folders.

    Raises:
        ValueError: if it cannot, or would; the message names the argument, the rule and the path.
    """
    arguments.check_local(name, path)
    path = pathlib.Path(path)
    if path.exists() and not path.is_file():  # a device would be replaced
        raise ValueError(f"`{name}` must be a file, not a directory or a device. Received: {name}={path}")
    # The folder counts even if the file exists, because `writing` renames a new file in it.
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    _require_room(name, path, folder)
    if path.exists() and not os.access(path, os.W_OK):
        raise _not_writable(name, path, path)
    for other in inputs:
        if _is_within(path, other):
            raise ValueError(f"`{name}` must not overwrite the input {other}. Received: {name}={path}")


def check_standard_output(name):
    """Raises ValueError if the standard output is closed, which takes the place of a file.

    Args:
        name: string, the flag that would give the file.
    """
    if sys.stdout is None:
        raise ValueError(f"`{name}` must be given, since the standard output is closed. Received: none")


def check_folder(name, path, takes_urls=False):
    """Checks that a folder can be made, or files in it; it need not exist.

    Args:
        name: string, the flag or argument that gives the path.
        path: string.
        takes_urls: bool, whether it may be behind a URL. Nothing is checked there.

    Raises:
        ValueError: if not; the message names the argument, the rule and the path.
    """
    if takes_urls and "://" in os.fspath(path):
        return
    arguments.check_local(name, path)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise ValueError(f"`{name}` must be a directory, not a file. Received: {name}={path}")
    whole = pathlib.Path(path).absolute()
    _require_room(name, path, next(folder for folder in (whole, *whole.parents) if folder.exists()))


def check_run_folder(workdir, preset, inputs):
    """Checks that a run does not overwrite what it reads.

    Args:
        workdir: string, the directory of a run.
        preset: string, the name or directory of the preset that it starts from; "" for none.
        inputs: iterable of paths of files that it reads.

    Raises:
        ValueError: if it does; the message names the argument, the rule and the path.
    """
    if preset in preset_names.names():
        preset = preset_names.locate(preset)
    written = [pathlib.Path(workdir, name) for name in RUN_FILES]
    for name, path in (("init_from", preset), *(("source", path) for path in inputs)):
        if path and any(_is_within(path, folder) for folder in written):
            raise ValueError(
                f"`workdir` must not contain what the run reads: it would overwrite {path}. "
                f"Received: workdir={workdir}, {name}={path}"
            )


def _require_room(name, path, folder):
    """Raises ValueError unless files can be made in a folder, where `path` or its parents are to be made."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise _not_writable(name, path, folder)
    try:
        # Root has all permissions, even where nobody can make a file, as in /proc.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        raise _not_writable(name, path, folder) from None


def _not_writable(name, path, place):
    return ValueError(f"`{name}` must be writable, but {place} is not. Received: {name}={path}")


def write_file(path, data):
    """Writes bytes to a file that appears only when it is complete; makes its folder if needed."""
    with writing(path) as file:
        file.write(data)


@contextlib.contextmanager
def writing(path):
    """Opens a binary file that appears under its name when the block ends, and not at all if it fails.

    In the main thread, SIGTERM ends the program, with exit code 143, only once what was written is removed.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with tidy_end():
        try:
            with partial.open("wb") as file:
                yield file
            partial.replace(path)
        except OSError as error:
            if error.errno in _FULL:
                error.filename = str(path)  # which Python does not say
            raise
        finally:
            partial.unlink(missing_ok=True)


@contextlib.contextmanager
def tidy_end():
    """Makes SIGTERM end the program by SystemExit(143), so that what is half-written can be removed.

    Does nothing outside the main thread, or if somebody else handles SIGTERM.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_within(path, folder):
    """Returns whether `path` is `folder` or lies in it, after following links."""
    return pathlib.Path(path).resolve().is_relative_to(pathlib.Path(folder).resolve())
