"""Each fault of the training soak, on a little process that behaves as a run does; bad ends."""

import collections
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

from benchmarks.soaking import mounts, processes, soundness, stepped_clock, training, training_run
from benchmarks.soaking import training_faults as faults
from tests.run_program import ROOT

# Writes a line and a checkpoint of two bytes again and again, and ends as a run does.
STAND_IN = """
import json, os, pathlib, signal, sys, time
workdir = pathlib.Path(sys.argv[1])
def stop(*_):
    print("stopped by SIGTERM at step 7, checkpoint saved; the same command continues the run", flush=True)
    os._exit(143)
signal.signal(signal.SIGTERM, stop)
grown = []
step = 0
while True:
    try:
        step += 1
        if len(sys.argv) > 2:
            grown.append(bytearray(1 << 22))
        partial = workdir / "checkpoints" / f".{step:08d}"
        partial.mkdir()
        (partial / "model.data").write_bytes(bytes(100_000))
        partial.rename(workdir / "checkpoints" / f"{step:08d}")
        time.sleep(0.02)
    except (OSError, MemoryError) as error:
        words = "out of memory or threads: " if isinstance(error, MemoryError) else ""
        print(f"error: {words}{error} {workdir}/x", flush=True)
        os._exit(1)
"""


class StandIn:
    """What the faults need of `benchmarks.soaking.training_run.Run`."""

    def __init__(self, workdir, *arguments):
        self.workdir, self.clock = workdir, workdir.with_name("clock")
        (workdir / "checkpoints").mkdir(parents=True)
        self.log = workdir.with_name("log")
        self._file = open(self.log, "a+")  # noqa: SIM115 - closed by `close`
        command = [sys.executable, "-c", STAND_IN, str(workdir), *arguments]
        self.process = subprocess.Popen(command, stdout=self._file, stderr=self._file)
        self.wait_for_checkpoint()

    def checkpoints(self):
        return sorted(int(path.name) for path in (self.workdir / "checkpoints").glob("[0-9]*"))

    def checkpoint(self, step):
        return self.workdir / "checkpoints" / f"{step:08d}"

    def wait_for_checkpoint(self):
        before = max(self.checkpoints(), default=0)
        while self.process.poll() is None and max(self.checkpoints(), default=0) == before:
            time.sleep(0.01)
        return self.process.poll() is None

    def wait_for_end(self):
        return self.process.wait(60)

    def signal(self, signum):
        self.process.send_signal(signum)

    def said(self):
        return self.log.read_text()

    def close(self):
        self.process.kill()
        self.process.wait()
        self._file.close()


@pytest.fixture
def stand_in(tmp_path):
    runs = []

    def start(*arguments):
        runs.append(StandIn(tmp_path / "run", *arguments))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


@pytest.mark.multiprocess
@pytest.mark.parametrize(
    "name", ["killed", "terminated", "file_too_large", "read_only", "address_space", "memory_limit"]
)
def test_what_ends_a_process(stand_in, name):
    fault = faults.FAULTS[name]
    run = stand_in(*["grows"] * (name in ("address_space", "memory_limit")))
    place = faults.Place(run.workdir)
    if reason := fault.refusal(place):
        pytest.skip(reason)
    fault.happen(run, place, random.Random(0))
    assert training.problems_of_words(fault, run.process.poll(), run.said()) == []
    fault.undo(run, place)
    (run.workdir / "again").write_text("")  # as the next process needs it


@pytest.mark.multiprocess
def test_a_process_that_needs_no_more_memory_goes_on_and_may_have_more_again(stand_in):
    run, fault = stand_in(), faults.FAULTS["address_space"]
    fault.happen(run, faults.Place(run.workdir), random.Random(0))
    assert run.process.poll() is None
    assert resource.prlimit(run.process.pid, resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    assert training.problems_of_words(fault, None, run.said()) == []


@pytest.mark.multiprocess
def test_what_was_said_before_does_not_count_as_a_large_file(stand_in):
    run = stand_in()
    with open(run.log, "a") as log:
        log.write("step\n" * 14_000)
    fault = faults.FAULTS["file_too_large"]
    fault.happen(run, faults.Place(run.workdir), random.Random(0))
    assert "error: " in run.said().splitlines()[-1]


def steps_every(seconds, number):
    """Starts a process that writes so many steps into the metrics, in place of `convnlp pretrain`."""

    def started(arguments, environment, log):
        workdir = next(each for each in arguments if each.startswith("--workdir=")).partition("=")[2]
        code = (
            "import pathlib, sys, time\n"
            f"for step in range({number}):\n"
            f"    time.sleep({seconds})\n"
            f"    with open({workdir!r} + '/metrics.jsonl', 'a') as file:\n"
            "        file.write('{\"step\": %d}\\n' % step)\n"
        )
        return subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log)

    return started


@pytest.mark.multiprocess
def test_a_long_run_has_time_as_long_as_it_makes_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(training_run, "PATIENCE_SECONDS", 1.5)
    monkeypatch.setattr(training_run, "_QUIET_SECONDS", 0.1)
    run = training_run.Run(tmp_path, tmp_path / "log", 10, steps_every(0.3, 10))
    run.start()
    assert run.wait_for_last_step() == 0
    assert run.step() == 9
    run = training_run.Run(tmp_path, tmp_path / "log", 10, steps_every(60, 1))
    run.start()
    try:
        with pytest.raises(training_run.NothingHappensError, match="there was no step after step 9"):
            run.wait_for_last_step()
    finally:
        run.close()


@pytest.mark.multiprocess
def test_the_clock_steps_back_while_the_process_goes_on(stand_in):
    run = stand_in()
    for hours in (1, 2):
        faults.FAULTS["clock_steps_back"].happen(run, faults.Place(run.workdir), random.Random(0))
        assert run.process.poll() is None
        assert int(run.clock.read_text()) == 3600 * hours
    assert run.checkpoint(1).stat().st_mtime > time.time() + 7000


def test_a_process_has_the_clock_that_was_stepped_back(tmp_path):
    code = """
import time
before = time.time()
import benchmarks.soaking.stepped_clock
print(before - time.time() > 3000, before - time.time_ns() / 1e9 > 3000)
"""
    (tmp_path / "clock").write_text("3600")
    for environment, expected in (
        ({stepped_clock.FILE: str(tmp_path / "clock")}, "True True"),
        ({}, "False False"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected


class Spoilt:
    """A run that does not run, with two checkpoints."""

    def __init__(self, workdir):
        self.workdir = workdir
        for step in (50, 100):
            write_checkpoint(self.checkpoint(step))

    def checkpoints(self):
        return sorted(int(path.name) for path in (self.workdir / "checkpoints").glob("[0-9]*"))

    def checkpoint(self, step):
        return self.workdir / "checkpoints" / f"{step:08d}"


def write_checkpoint(folder):
    import hashlib

    folder.mkdir(parents=True)
    files = {"model.data-0": bytes(1000), "model.index": b"index"}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    facts = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
    }
    (folder / "manifest.json").write_text(json.dumps({"step": int(folder.name), "files": facts}))


@pytest.mark.parametrize(
    "name", [name for name in faults.FAULTS if name.startswith(("checkpoint_", "manifest"))]
)
def test_what_damages_the_newest_checkpoint(tmp_path, name):
    fault, kinds = faults.FAULTS[name], set()
    for seed in range(8):
        run = Spoilt(tmp_path / str(seed))
        assert soundness.unsound(run.workdir) == []
        facts = fault.spoil(run, random.Random(seed))
        re.compile(fault.first_words.format(**facts))
        kinds.add(json.dumps(facts))
        if name == "checkpoint_gone":
            assert run.checkpoints() == [50]
            continue
        (found,) = soundness.unsound(run.workdir)
        assert found.startswith("checkpoint 00000100: ")
        assert soundness.unsound(run.workdir) == [found]
    assert len(kinds) > 1 or name in ("manifest_gone", "checkpoint_gone")


def test_what_is_half_written_is_seen(tmp_path):
    for name in ("checkpoints/.00000100", "checkpoints/.removed-00000050", "checkpoints/00000050"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".config.json.partial").touch()
    (tmp_path / ".hidden").touch()  # somebody else's
    assert soundness.half_written(tmp_path) == {
        "checkpoints/.00000100",
        "checkpoints/.removed-00000050",
        ".config.json.partial",
    }


FULL = faults.FAULTS["full_disk"]


@pytest.mark.parametrize(
    ("fault", "code", "said", "problem"),
    [
        (FULL, 1, "step 2\nerror: /run/x; No space left on device", None),
        (FULL, 0, "error: /run/x; No space left on device", "ended with 0 instead of 1"),
        (FULL, 1, "error: /run/x; No space left on device\nand more", "does not name the cause: 'and more'"),
        (FULL, 1, "error: [Errno 28] No space left on device", "does not name the cause"),  # of which file?
        (FULL, 1, "error: something", "does not name the cause"),
        (FULL, 1, "", "does not name the cause"),
        (FULL, 1, "Traceback (most recent call last)\nerror: /run/x; No space left on device", "traceback"),
        (faults.FAULTS["clock_steps_back"], None, "step 2", None),
        (faults.FAULTS["clock_steps_back"], 1, "step 2", "process ended with 1"),
        (faults.FAULTS["killed"], -signal.SIGKILL, "step 2", None),
        (faults.FAULTS["address_space"], None, "step 2", None),  # it has what it needs
        (faults.FAULTS["address_space"], -signal.SIGKILL, "step 2", "ended with -9 instead of 1 or -6"),
    ],
)
def test_what_is_wrong_with_an_end(fault, code, said, problem):
    found = training.problems_of_words(fault, code, said)
    assert bool(found) == (problem is not None)
    assert problem is None or problem in found[0]


@pytest.mark.parametrize(
    ("fault", "code", "problems"),
    [
        ("full_disk", 1, ["checkpoints/.00000002 is half-written"]),
        ("terminated", 143, ["checkpoints/.00000002 is half-written"]),
        ("killed", -9, []),
        ("read_only", 1, []),  # it cannot be removed
        ("address_space", -6, []),  # TensorFlow aborts
    ],
)
def test_when_a_process_may_leave_a_half_written_checkpoint(fault, code, problems):
    assert training.problems_of_leftovers(faults.FAULTS[fault], code, {"checkpoints/.00000002"}) == problems


def test_a_fault_that_cannot_be_made_is_refused_with_a_reason(tmp_path):
    names, refused = training.possible(["killed", "full_disk"], faults.Place(tmp_path))
    assert names == ["killed"]
    assert "mount namespace" in refused["full_disk"]


def test_the_order_follows_the_seed_and_has_every_fault_in_each_round():
    names = list(faults.FAULTS)
    first, again, other = (
        [name for name, _ in zip(training.order(names, seed), range(2 * len(names)), strict=False)]
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert set(collections.Counter(first).values()) == {2}


@pytest.mark.multiprocess
def test_a_disk_of_its_own_is_full_read_only_and_gone(tmp_path):
    """In a program of its own, as the soak is."""
    code = """
import errno, os, pathlib, sys
from benchmarks.soaking import mounts
folder = pathlib.Path(sys.argv[1])
disk = mounts.Disk(folder / "disk", 4)
(disk.path / "run").mkdir()
disk.fill(left=100_000)
written = os.open(disk.path / "run" / "file", os.O_CREAT | os.O_WRONLY)
print(0 < os.write(written, bytes(200_000)) < 200_000)
disk.free()
print(os.write(written, bytes(200_000)) == 200_000)
mounts.make_read_only(disk.path / "run")
try:
    (disk.path / "run" / "other").touch()
except OSError as error:
    print(error.errno == errno.EROFS)
mounts.make_writable(disk.path / "run")
mounts.make_writable(disk.path / "run")
(disk.path / "run" / "other").touch()
"""
    (tmp_path / "program.py").write_text(
        "import sys\nfrom benchmarks.soaking import mounts\nmounts.enter('program')\n"
        f"if not mounts.is_private(): sys.exit(7)\n{code}"
    )
    done = subprocess.run(
        [sys.executable, "-m", "program", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 7:
        pytest.skip("no mount namespace can be made here")
    assert (done.returncode, done.stdout.split()) == (0, ["True"] * 3), done.stderr
    assert list((tmp_path / "disk").iterdir()) == []  # nobody else has seen it
    assert not mounts.is_private()


@pytest.mark.multiprocess
def test_a_process_is_sampled_and_its_end_is_seen(tmp_path):
    code = """
import socket, sys, threading
held = bytearray(b"x" * (64 << 20)), open("/dev/null"), socket.socket()
threading.Thread(target=sys.stdin.read, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        found = processes.sample(process.pid)
        process.kill()
        process.wait()
    assert found["memory_mb"] > 64
    assert (found["threads"], found["files"], found["sockets"]) == (2, 5, 1)
    assert processes.sample(process.pid) is None
