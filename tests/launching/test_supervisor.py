"""The launcher, with workers that need no TensorFlow: what it says of a lost one, and that all ends well."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from convnlp.launching import supervisor
from convnlp.launching import worker as worker_lib
from convnlp.launching.pulse import Pulse
from tests.launching.run_fakes import NUM_STEPS, run
from tests.run_program import ROOT

pytestmark = pytest.mark.multiprocess


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """A fake worker beats ten times a second."""
    monkeypatch.setattr(Pulse.is_silent, "__defaults__", (2.0,))
    monkeypatch.setattr(supervisor, "_SETTLE_SECONDS", 3.0)


def pids(folder):
    return [int(path.read_text()) for path in pathlib.Path(folder).glob("*/pid-*")]


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(holds):
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    assert holds()


def saved(folder):
    path = pathlib.Path(folder) / "saved"
    return int(path.read_text()) if path.exists() else 0


def test_workers_that_succeed(tmp_path, capfd):
    said = []
    assert run(tmp_path, 3, "none:9:0", said.append, patience=60) == 0
    assert said == []
    assert saved(tmp_path) == NUM_STEPS
    assert sorted(capfd.readouterr().out.splitlines()) == [f"[{i}] worker {i} of 3" for i in range(3)]


def test_a_worker_that_writes_on_and_on_leaves_time_for_the_others(monkeypatch):
    """There is always more to read: whoever read all of it would notice no signal and no other worker."""
    shown = []

    def show(file, line):
        shown.append(line)
        time.sleep(0.002)  # a terminal or a file takes longer than the worker

    monkeypatch.setattr(worker_lib, "show", show)
    flood = "import os\nwhile True: os.write(1, b'a' * 999 + b'\\n')"
    worker = worker_lib.Worker(0, [sys.executable, "-c", flood], dict(os.environ))
    try:
        reader = threading.Thread(target=lambda: wait_until(lambda: worker.read() or shown), daemon=True)
        reader.start()
        reader.join(10)
        assert not reader.is_alive()
        assert set(shown) == {b"[0] " + b"a" * 999 + b"\n"}
    finally:
        worker.signal(signal.SIGKILL)
        reader.join()
        worker.close()


def test_output_that_nobody_can_have_ends_no_training():
    full = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 - closing it may fail too
    receiver, sender = os.pipe()
    os.close(receiver)
    unread = os.fdopen(sender, "w")
    for file in (full, unread):
        for _ in range(3):
            worker_lib.show(file, b"a line\n" * 10_000)
        with contextlib.suppress(OSError):
            file.close()


@pytest.mark.parametrize(
    ("fault", "sentence", "step"),
    [
        ("kill:1:6", "worker 1 of 3 was ended by SIGKILL (at step 6)", 4),
        ("kill:0:6", "worker 0 of 3 was ended by SIGKILL (at step 6)", 4),
        ("kill:2:0", "worker 2 of 3 was ended by SIGKILL (before its first step)", None),
        ("terminate:1:6", "worker 1 of 3 was stopped by SIGTERM, and all have saved (at step 6)", 6),
        ("stop:2:6", "worker 2 of 3 hangs: it does not answer, and another has given it up (at step 6)", 4),
    ],
)
def test_a_lost_worker_is_named_and_all_start_again(tmp_path, fault, sentence, step):
    said = []
    assert run(tmp_path, 3, fault, said.append) == 0
    state = "" if step is None else f"; the last saved state is that of step {step}"
    assert said == [sentence, f"restart 1 of 2{state}"]
    assert saved(tmp_path) == NUM_STEPS
    assert len(pids(tmp_path)) == 6
    assert not any(map(is_alive, pids(tmp_path)))


def test_a_worker_that_answers_but_goes_no_further(tmp_path):
    """The others wait for it without end here, as where TensorFlow still hears from it."""
    said = []
    assert run(tmp_path, 3, "stuck:1:6", said.append, hang_timeout=4.0, grace=0.5, patience=60) == 0
    assert said[0] == "worker 1 of 3 hangs: it answers, but has made no progress for 4 s (at step 6)"
    assert said[-1] == "restart 1 of 2; the last saved state is that of step 4"
    assert saved(tmp_path) == NUM_STEPS


def test_a_worker_that_does_not_end_is_ended(tmp_path):
    said = []
    assert run(tmp_path, 2, "deaf:1:6", said.append, restarts=0, grace=0.2) == 75
    assert said == [
        "worker 0 of 2 has lost another worker (at step 6)",
        "worker 1 did not end within 0.2 s and is killed",
        "giving up; the last saved state is that of step 4; the same command continues the run",
    ]
    assert not any(map(is_alive, pids(tmp_path)))


def test_an_error_is_not_met_again(tmp_path, capfd):
    said = []
    assert run(tmp_path, 2, "error:1:6", said.append) == 1
    assert said == [
        "worker 1 of 2 has ended with exit code 1 (at step 6)",
        "not restarted: the same error would occur again",
    ]
    assert "[1] error: no space left" in capfd.readouterr().err.splitlines()


def test_a_worker_that_cannot_be_started_is_no_traceback(tmp_path, monkeypatch):
    said, started = [], []

    def start(index, command, environment):
        if index == 1:
            monkeypatch.setattr(worker_lib, "ending_with_us", lambda command: [f"{tmp_path}/python"])
        started.append(worker_lib.Worker(index, command, environment))
        return started[-1]

    monkeypatch.setattr(supervisor, "Worker", start)
    assert run(tmp_path, 2, "none:9:0", said.append) == 1
    assert said == [
        f"the workers cannot be started: [Errno 2] No such file or directory: '{tmp_path}/python'",
        "not restarted: the same error would occur again",
    ]
    (first,) = started
    assert first.code() is not None  # it has been ended


def test_the_last_restart_is_the_last(tmp_path):
    said = []
    assert run(tmp_path, 2, "kill:0:6", said.append, restarts=0) == 75
    assert said[-1] == "giving up; the last saved state is that of step 4; the same command continues the run"
    assert run(tmp_path, 2, "kill:0:6", said.append, restarts=0) == 0  # the same command


def launcher(folder, fault):
    command = [sys.executable, "-m", "tests.launching.run_fakes", str(folder), "3", fault]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on_and_the_state_is_saved(tmp_path, signum):
    with launcher(tmp_path, "none:9:0") as process:
        wait_until(lambda: saved(tmp_path) >= 4)
        process.send_signal(signum)
        assert process.wait(20) == 128 + signum
        assert f"stopped by {signum.name}; the last saved state is that of step" in process.stdout.read()
    assert len(pids(tmp_path)) == 3
    assert not any(map(is_alive, pids(tmp_path)))


def test_a_second_signal_ends_all_at_once(tmp_path):
    with launcher(tmp_path, "deaf:1:6") as process:
        wait_until(lambda: (tmp_path / "failed").exists())
        process.terminate()
        time.sleep(0.2)
        process.terminate()
        assert process.wait(20) == 143
    assert not any(map(is_alive, pids(tmp_path)))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers notice by their heartbeat")
@pytest.mark.parametrize("fault", ["none:9:0", "stop:1:6"])
def test_no_worker_outlives_a_launcher_that_is_killed(tmp_path, fault):
    with launcher(tmp_path, fault) as process:
        wait_until(
            lambda: len(pids(tmp_path)) == 3 and (fault[:4] == "none" or (tmp_path / "failed").exists())
        )
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
    wait_until(lambda: not any(map(is_alive, pids(tmp_path))))
