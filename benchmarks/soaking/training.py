"""The soak of a training run: one fault after the other, and then a comparison with an undisturbed run.

Each fault happens to the training process at a random moment. The last output of the process, the files
that it leaves, and the output and behaviour of the next process must be as expected. When the time is over,
the run is killed once more and finishes a few steps later; the undisturbed run makes as many steps.
"""

import dataclasses
import json
import random
import re
import shutil
import signal
import time

import h5py
import numpy as np

from benchmarks import tiny_run
from benchmarks.soaking import mounts, soundness
from benchmarks.soaking.processes import Sampler
from benchmarks.soaking.training_faults import FAULTS, Place
from benchmarks.soaking.training_run import EVERY, NothingHappensError, Run, start_process

DISK_MEGABYTES = 256
_MANY_STEPS = 10**8  # more than there is time for
_LAST_STEPS = 2 * EVERY  # made without a fault
_FLAG_OF_LAST_STEPS = "--resume_with_changes"


@dataclasses.dataclass
class Event:
    """A fault and its effects.

    Attributes:
        fault: str, a key of `FAULTS`.
        seconds: float, when it happened, from the beginning of the soak.
        step: int, the last step of the run before it.
        code: int, the exit code; None if the process continued.
        last_words: str, the last line of the process.
        first_words: str, what the next process said about the fault.
        resumed_at: int, the step from which that one continued.
        problems: list of str, everything unexpected.
    """

    fault: str
    seconds: float
    step: int
    code: int | None = None
    last_words: str = ""
    first_words: str = ""
    resumed_at: int | None = None
    problems: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Outcome:
    """The result of a soak.

    Attributes:
        events: list of `Event`.
        rows: list of dict, samples of the processes with faults.
        alone_rows: list of dict, samples of the undisturbed run.
        steps: int, at the end.
        seconds: float, with faults.
        lives: int, processes.
        refused: dict, name of a fault that could not be made here -> the reason.
        problems: list of str, what is wrong at the end.
        losses: dict, what a fault may take according to the documentation -> the step until which it is
            missing.
    """

    events: list
    rows: list
    alone_rows: list
    steps: int
    seconds: float
    lives: int
    refused: dict
    problems: list
    losses: dict

    def all_problems(self):
        """Returns everything unexpected."""
        return [
            f"{event.fault} at step {event.step}: {problem}"
            for event in self.events
            for problem in event.problems
        ] + self.problems


def place_for(folder):
    """Returns a `Place` for the run, on a small disk of its own if one can be mounted."""
    disk = mounts.Disk(folder / "disk", DISK_MEGABYTES) if mounts.is_private() else None
    run_folder = folder / "disk" / "run"
    if disk is None and run_folder.exists():
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
    """Trains with faults, then without, and compares.

    Args:
        folder: pathlib.Path, for all files.
        minutes: float, how long there are faults. Each of them happens at least once.
        seconds_between: float, mean time that a process trains before the next fault.
        seed: int, decides the order of the faults and their details.
        names: names of faults.
        started: as for `Run`.
        say: function of a str, called with each event.

    Returns:
        `Outcome`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    place = place_for(folder)
    names, refused = possible(names, place)
    for name, reason in refused.items():
        say(f"{name} is skipped: {reason}")
    for leftover in ("faults.log", "faults.clock", "alone.log", "alone.clock"):
        (folder / leftover).unlink(missing_ok=True)
    run = Run(place.folder, folder / "faults.log", _MANY_STEPS, started)
    sampler = Sampler(max(1.0, min(10.0, minutes)), began)
    events = []
    try:
        _start(run, sampler)
        if not run.wait_until_it_trains():
            raise NothingHappensError(f"the run did not start; see {run.log}")
        for name in order(names, seed):
            if len(events) >= len(names) and time.monotonic() > began + 60 * minutes:
                break
            draw = random.Random(f"{seed}/{len(events)}")
            time.sleep(seconds_between * draw.uniform(0.5, 1.5))
            event = Event(name, round(time.monotonic() - began, 1), run.step())
            events.append(event)
            _suffer(run, place, FAULTS[name], event, draw, sampler)
            say(json.dumps(dataclasses.asdict(event)))
        seconds = time.monotonic() - began
        run.signal(signal.SIGKILL)
        run.wait_for_end()
        steps = run.checkpoints()[-1] // EVERY * EVERY + _LAST_STEPS
        _start(run, sampler, _FLAG_OF_LAST_STEPS, num_steps=steps)
        problems = _problems_of_end(run)
        kept = folder / "faults"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(place.folder, kept)  # the small disk disappears with this process
        alone = _run_alone(folder, steps, started, sampler)
    finally:
        sampler.close()
        run.close()
    losses = {FAULTS[event.fault].loses: event.resumed_at for event in events if FAULTS[event.fault].loses}
    if not problems:
        problems = compare(kept, alone, steps, losses.get("metrics.jsonl"))
    with_faults = [row for row in sampler.rows if row["run"] == "faults"]
    alone_rows = [row for row in sampler.rows if row["run"] == "alone"]
    return Outcome(events, with_faults, alone_rows, steps, seconds, run.life, refused, problems, losses)


def _start(run, sampler, *flags, **arguments):
    run.start(*flags, **arguments)
    sampler.watch(run.process.pid, run=run.log.stem, life=run.life, step=run.step)


def _suffer(run, place, fault, event, draw, sampler):
    """Lets a fault happen, restarts the run if that ended it, and notes everything unexpected."""
    try:
        fault.happen(run, place, draw)
    except NothingHappensError as error:
        event.problems.append(str(error))
        run.close()
    event.code = run.process.poll()
    said = run.said()
    lines = said.strip().splitlines()
    event.last_words = lines[-1] if lines else ""
    event.problems += problems_of_words(fault, event.code, said)
    if event.code is None:
        fault.undo(run, place)
        return
    event.problems += soundness.unsound(run.workdir)
    left = soundness.half_written(run.workdir)
    event.problems += problems_of_leftovers(fault, event.code, left)
    fault.undo(run, place)
    facts = fault.spoil(run, draw)
    _start(run, sampler)
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


def _run_alone(folder, steps, started, sampler):
    """Trains without a fault; returns the directory."""
    workdir = folder / "alone"
    shutil.rmtree(workdir, ignore_errors=True)
    run = Run(workdir, folder / "alone.log", steps, started)
    try:
        _start(run, sampler)
        if run.wait_for_last_step():
            raise NothingHappensError(f"the undisturbed run failed; see {run.log}")
    finally:
        run.close()
    return workdir


def compare(workdir, alone, steps, lost_until=None):
    """Returns the differences between the two runs at their end.

    Args:
        workdir: pathlib.Path, of the run with faults.
        alone: pathlib.Path, of the undisturbed run.
        steps: int, of both.
        lost_until: int, the step until which lines of the metrics may be missing. Default None: none may.

    Returns:
        list of str.
    """
    problems = [
        f"{name} differs in the last checkpoint" for name in tiny_run.different_values(workdir, alone, steps)
    ]
    lines, others = tiny_run.metrics_lines(workdir), tiny_run.metrics_lines(alone)
    if lost_until is not None:  # the remaining lines must be the last ones, without a gap
        needed = [line for line in others if json.loads(line)["step"] > lost_until]
        others = others[len(others) - max(len(lines), len(needed)) :]
    if lines != others:
        problems.append("metrics.jsonl differs")
    return problems + [f"preset: {name} differs" for name in _different_weights(workdir, alone)]


def _different_weights(workdir, alone):
    weights, others = (_weights(each / "preset" / "model.weights.h5") for each in (workdir, alone))
    return sorted(name for name in {*weights, *others} if weights.get(name) != others.get(name))


def _weights(path):
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, item: (
                found.update({name: np.asarray(item).tobytes()}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found
