"""The sittings of a training soak: the same command continues a soak that was stopped or killed.

Whenever a fault has ended the process of the run, everything that the soak goes on with is copied from the
small disk, which disappears with the soak, into its folder:

    saved/00000012/run/         the directory of the run, as the fault has left it
    saved/00000012/clock        by how many seconds the run's clock was set back, if it was
    saved/00000012/state.json   the results so far (`Outcome`), and the flags that have to stay the same

The number counts the copies. A copy has a temporary name until it is complete, and only then is the previous
one removed, so a soak may be killed at any moment.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import sys
import threading
import time

from benchmarks.soaking.outcome import Outcome

_FOLDER = "saved"
_PARTIAL = ".partial"
_STATE = "state.json"
_NOTE_SECONDS = 60.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Saved:
    """What earlier sittings have saved, and what this one saves.

    Args:
        folder: pathlib.Path, the soak's. Nothing in it is changed here.
        seed: int.
        names: names of all faults that are asked for.

    Attributes:
        outcome: `Outcome` so far; a new one if nothing is saved.
        is_empty: bool, whether nothing is saved.

    Raises:
        ValueError: if the saved soak has another seed or other faults.
    """

    def __init__(self, folder, seed, names):
        self._folder = folder / _FOLDER
        self._flags = {"seed": seed, "faults": list(names)}
        self._newest = max(self._folder.glob("[0-9]*"), default=None)
        self._noted = time.monotonic()
        self.outcome = Outcome()
        if not self.is_empty:
            state = json.loads((self._newest / _STATE).read_text(encoding="utf-8"))
            _check(self._flags, state["flags"], folder)
            self.outcome = Outcome.from_dict(state["outcome"])
            self.outcome.sittings += 1
        self._faults = len(self.outcome.events)

    @property
    def is_empty(self):
        return self._newest is None

    def restore(self, run):
        """Copies what is saved to where a run expects it.

        Args:
            run: `benchmarks.soaking.training_run.Run` without a process, whose directory is empty.
        """
        shutil.copytree(self._newest / "run", run.workdir, dirs_exist_ok=True)
        run.clock.unlink(missing_ok=True)
        if (self._newest / "clock").exists():
            shutil.copy(self._newest / "clock", run.clock)
        run.life = self.outcome.lives

    def save(self, run):
        """Saves `outcome` and the files of a run, of which no process may be running."""
        partial = self._folder / _PARTIAL
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(run.workdir, partial / "run")
        if run.clock.exists():
            shutil.copy(run.clock, partial / "clock")
        self._write(partial / _STATE)
        _sync(partial, *partial.rglob("*"))  # the machine may end too
        number = 1 if self.is_empty else int(self._newest.name) + 1
        self._newest = partial.rename(self._folder / f"{number:08d}")
        _sync(self._folder)
        self._faults = len(self.outcome.events)
        for path in self._folder.iterdir():
            if path != self._newest:
                shutil.rmtree(path)

    def note(self, now=True):
        """Saves `outcome` for the same files of the run; unless `now`, only if a minute has passed."""
        if now or time.monotonic() > self._noted + _NOTE_SECONDS:
            partial = self._newest / _PARTIAL
            self._write(partial)
            _sync(partial)
            partial.replace(self._newest / _STATE)
            self._noted = time.monotonic()

    @contextlib.contextmanager
    def stoppable(self):
        """Lets a signal end the program with one line about the next sitting; a second one ends it as usual.

        Raises:
            SystemExit: after a signal, when the body has cleaned up; the code is 128 + the signal's number.
        """
        received, previous = [], {}

        def receive(signum, frame):
            received.append(signum)
            for each in previous:
                signal.signal(each, signal.SIG_DFL)
            raise KeyboardInterrupt

        if threading.current_thread() is threading.main_thread():  # only this one may set handlers
            for each in _SIGNALS:
                if signal.getsignal(each) not in (signal.SIG_IGN, None):
                    previous[each] = signal.signal(each, receive)
        try:
            yield
        except BaseException:  # cleaning up may have raised another exception
            if not received:
                raise
            name = signal.Signals(received[0]).name
            does = "begins anew" if self.is_empty else f"continues the soak after fault {self._faults}"
            print(f"stopped by {name}; the same command {does}", file=sys.stderr, flush=True)
            sys.exit(128 + received[0])
        finally:
            for each, handler in previous.items():
                signal.signal(each, handler)

    def _write(self, path):
        state = {"flags": self._flags, "outcome": dataclasses.asdict(self.outcome)}
        path.write_text(json.dumps(state), encoding="utf-8")


def remove(folder):
    """Removes what is saved in the soak's folder, if anything is, so that the next command begins anew."""
    removed = folder / f".{_FOLDER}.removed"
    shutil.rmtree(removed, ignore_errors=True)
    if (folder / _FOLDER).exists():
        (folder / _FOLDER).rename(removed)  # at once: a part of it would be taken for a soak
        shutil.rmtree(removed)


def _check(flags, saved, folder):
    for name, ones in (("seed", "one"), ("faults", "ones")):
        if flags[name] != saved[name]:
            before, received = (
                ",".join(value) if isinstance(value, list) else value for value in (saved[name], flags[name])
            )
            raise ValueError(
                f"`--{name}` must be the {ones} that the soak in {folder} began with, {before}. "
                f"Received: {received}"
            )


def _sync(*paths):
    """Waits until files or directories are on the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
