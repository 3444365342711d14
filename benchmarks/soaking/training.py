"""The soak of a training run: one fault after the other, and then a comparison with an undisturbed run.

Each fault happens to the training process at a random moment. The last output of the process, the files
that it leaves, and the output and behaviour of the next process must be as expected. When the time is over,
the run is killed once more and finishes a few steps later; the undisturbed run makes as many steps.
"""

import dataclasses
import itertools
import json
import random
import re
import shutil
import signal
import time

from benchmarks.soaking import mounts, sittings, soundness
from benchmarks.soaking.comparison import compare
from benchmarks.soaking.outcome import Event
from benchmarks.soaking.processes import Sampler
from benchmarks.soaking.training_faults import FAULTS, Place
from benchmarks.soaking.training_run import EVERY, NothingHappensError, Run, start_process

DISK_MEGABYTES = 256
_MANY_STEPS = 10**8  # more than there is time for
_LAST_STEPS = 2 * EVERY  # made without a fault
_FLAG_OF_LAST_STEPS = "--resume_with_changes"


def place_for(folder):
    """Returns a `Place` for the run, on a small disk of its own if one can be mounted."""
    disk = mounts.Disk(folder / "disk", DISK_MEGABYTES) if mounts.is_private() else None
    run_folder = folder / "disk" / "run"
    if disk is None and run_folder.exists():
        FAULTS["read_only"].undo(None, Place(run_folder))  # a soak that was killed may have left it so
        shutil.rmtree(run_folder)
    run_folder.mkdir(parents=True)
    return Place(run_folder, disk)


def possible(names, place):
    """Returns the faults that can be made here, and why the others cannot.

    Returns:
        (list of names, dict of the others -> the reason).
    """
    refused = {name: reason for name in names if (reason := FAULTS[name].refusal(place))}
    return [name for name in names if name not in refused], refused


def order(names, seed):
    """Yields names of faults without end: all of them in random order, then again."""
    draw = random.Random(f"order/{seed}")
    while True:
        yield from draw.sample(names, len(names))


def soak(folder, minutes, seconds_between, seed, names=tuple(FAULTS), started=start_process, say=print):
    """Trains with faults, then without, and compares; continues a soak that was stopped.

    Args:
        folder: pathlib.Path, for all files. `sittings.remove` lets the next soak in it begin anew.
        minutes: float, how long there are faults. Each of them happens at least once.
        seconds_between: float, mean time that a process trains before the next fault.
        seed: int, decides the order of the faults and their details.
        names: names of faults.
        started: as for `Run`.
        say: function of a str, called with each event.

    Returns:
        `Outcome`.

    Raises:
        ValueError: if the soak to continue has another seed or other faults, or suffered one that cannot be
            made on this machine.
    """
    saved = sittings.Saved(folder, seed, names)
    folder.mkdir(parents=True, exist_ok=True)
    place = place_for(folder)
    names, refused = possible([name for name in names if name not in saved.outcome.refused], place)
    if saved.is_empty:
        saved.outcome.refused = refused
    for name, reason in refused.items():
        if not saved.is_empty:
            raise ValueError(
                f"the soak in {folder} must continue where {name} can be made, as before. Received: {reason}"
            )
        say(f"{name} is skipped: {reason}")
    with saved.stoppable():
        this = _Soak(folder, place, saved, seed, max(1.0, min(10.0, minutes)), started, say)
        try:
            if saved.outcome.steps is None:
                this.make_faults(60 * minutes, seconds_between, names)
            this.finish()
        finally:
            this.close()
    return saved.outcome


class _Soak:
    """One sitting: the run, what watches it, and the results of all sittings so far."""

    def __init__(self, folder, place, saved, seed, seconds_between_samples, started, say):
        self._folder, self._place, self._saved, self._seed = folder, place, saved, seed
        self._started, self._say = started, say
        self._outcome = saved.outcome
        self._run = Run(place.folder, folder / "faults.log", _MANY_STEPS, started)
        if saved.is_empty:
            for leftover in ("faults.log", "faults.clock", "alone.log", "alone.clock"):
                (folder / leftover).unlink(missing_ok=True)
        else:
            saved.restore(self._run)
        self._began = time.monotonic() - self._outcome.seconds
        rows = self._outcome.rows + self._outcome.alone_rows
        self._sampler = Sampler(seconds_between_samples, self._began, rows)

    def close(self):
        """Ends the processes and the thread."""
        self._sampler.close()
        self._run.close()

    def make_faults(self, seconds, seconds_between, names):
        """Lets faults happen until the time is over, and ends the run."""
        events = self._outcome.events
        if events:  # the last one was saved before the next process
            self._go_on(events[-1])
        else:
            self._start(self._run)
            if not self._run.wait_until_it_trains():
                raise NothingHappensError(f"the run did not start; see {self._run.log}")
        for name in itertools.islice(order(names, self._seed), len(events), None):
            if len(events) >= len(names) and time.monotonic() > self._began + seconds:
                break
            draw = random.Random(f"{self._seed}/{len(events)}")
            time.sleep(seconds_between * draw.uniform(0.5, 1.5))
            events.append(Event(name, round(time.monotonic() - self._began, 1), self._run.step()))
            self._suffer(events[-1], draw)
        self._run.signal(signal.SIGKILL)
        self._run.wait_for_end()
        self._outcome.steps = self._run.checkpoints()[-1] // EVERY * EVERY + _LAST_STEPS
        shutil.rmtree(self._folder / "alone", ignore_errors=True)
        self._save()

    def _start(self, run, *flags, **arguments):
        run.start(*flags, **arguments)
        self._sampler.watch(run.process.pid, run=run.log.stem, life=run.life, step=run.step)

    def _save(self):
        self._outcome.seconds = time.monotonic() - self._began
        self._count()
        self._saved.save(self._run)

    def _count(self):
        self._outcome.rows, self._outcome.lives = self._samples("faults"), self._run.life

    def _samples(self, name):
        return [row for row in self._sampler.rows if row["run"] == name]

    def _suffer(self, event, draw):
        """Lets a fault happen, restarts the run if that ended it, and notes everything unexpected."""
        run, fault = self._run, FAULTS[event.fault]
        try:
            fault.happen(run, self._place, draw)
        except NothingHappensError as error:
            event.problems.append(str(error))
            run.close()
        event.code = run.process.poll()
        said = run.said()
        lines = said.strip().splitlines()
        event.last_words = lines[-1] if lines else ""
        event.problems += problems_of_words(fault, event.code, said)
        if event.code is not None:
            event.problems += soundness.unsound(run.workdir)
            event.problems += problems_of_leftovers(fault, event.code, soundness.half_written(run.workdir))
        fault.undo(run, self._place)
        if event.code is None:
            self._say(json.dumps(dataclasses.asdict(event)))
            return
        self._save()
        self._go_on(event)

    def _go_on(self, event):
        """Starts the next process after a fault, and notes everything unexpected."""
        run, fault = self._run, FAULTS[event.fault]
        left = soundness.half_written(run.workdir)
        facts = fault.spoil(run, random.Random(f"{self._seed}/{len(self._outcome.events) - 1}/spoil"))
        self._start(run)
        if not run.wait_until_it_trains():
            raise NothingHappensError(f"the run did not continue after {event.fault}; see {run.log}")
        event.resumed_at = run.resumed_at()
        event.problems += [
            f"{name} is still there" for name in sorted(left & soundness.half_written(run.workdir))
        ]
        if fault.first_words:
            found = re.search(f"^{fault.first_words.format(**facts)}", run.said(), re.M)
            event.first_words = found[0] if found else ""
            if not found:
                event.problems.append("the next process did not say what was wrong")
        self._say(json.dumps(dataclasses.asdict(event)))

    def finish(self):
        """Makes the last steps, trains without a fault, and compares."""
        outcome, kept, alone = self._outcome, self._folder / "faults", self._folder / "alone"
        self._start(self._run, _FLAG_OF_LAST_STEPS, num_steps=outcome.steps)
        # What an earlier sitting has found stays.
        outcome.problems += [each for each in _problems_of_end(self._run) if each not in outcome.problems]
        self._note()
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self._place.folder, kept)  # the small disk disappears with this process
        self._run_alone(alone)
        self._count()  # not earlier: the last steps would count twice if this were continued
        events = [event for event in outcome.events if FAULTS[event.fault].loses]
        outcome.losses = {FAULTS[event.fault].loses: event.resumed_at for event in events}
        if not outcome.problems:
            outcome.problems = compare(kept, alone, outcome.steps, outcome.losses.get("metrics.jsonl"))

    def _note(self, now=True):
        self._outcome.alone_rows = self._samples("alone")
        self._saved.note(now)

    def _run_alone(self, workdir):
        """Trains without a fault, from where the sitting before has stopped."""
        run = Run(workdir, self._folder / "alone.log", self._outcome.steps, self._started)
        run.life = max((row["life"] for row in self._outcome.alone_rows), default=0)
        try:
            self._start(run)
            if run.wait_for_last_step(meanwhile=lambda: self._note(now=False)):
                raise NothingHappensError(f"the undisturbed run failed; see {run.log}")
        finally:
            run.close()
        self._outcome.alone_rows = self._samples("alone")


def problems_of_words(fault, code, said):
    """Returns what is wrong with the exit code and the output of a process.

    Args:
        fault: `Fault`.
        code: int, the exit code; None while it runs.
        said: str, its whole output.

    Returns:
        list of str.
    """
    problems = []
    if fault.codes is None and code is not None:
        problems.append(f"the process ended with {code}")
    if fault.codes is not None and code not in fault.codes:
        problems.append(f"the process ended with {code} instead of {' or '.join(map(str, fault.codes))}")
    if "Traceback (most recent call last)" in said:
        problems.append("there is a traceback")
    lines = said.strip().splitlines()
    if fault.last_words and code is not None and not (lines and re.fullmatch(fault.last_words, lines[-1])):
        problems.append(f"the last line does not name the cause: {lines[-1] if lines else ''!r}")
    return problems


def problems_of_leftovers(fault, code, left):
    """Returns what is wrong with the half-written files that a process has left behind, a list of str.

    After kill -9, and after faults that also prevent a process from cleaning up, nothing is: the next start
    removes them.

    Args:
        fault: `Fault`.
        code: int, the exit code.
        left: set of str, names of files.
    """
    if code == -signal.SIGKILL or not fault.can_clean_up:
        return []
    return [f"{name} is half-written" for name in sorted(left)]


def _problems_of_end(run):
    if code := run.wait_for_last_step():
        return [f"the run ended with exit code {code}; see {run.log}"]
    return soundness.unsound(run.workdir) + [
        f"{name} is half-written" for name in sorted(soundness.half_written(run.workdir))
    ]
