"""The lock of a run's directory: held by one process, free when that has died."""

import fcntl
import json
import subprocess
import sys
import threading
import time

import pytest

from convnlp.training import run_lock, storage
from tests import remote
from tests.training.toy import Toy

QUICK = {"beat_seconds": 0.05, "timeout_seconds": 0.6, "settle_seconds": 0.1}


def test_a_second_lock_on_a_file_is_refused_and_names_the_first(tmp_path):
    path = str(tmp_path / "run.lock")
    lock = run_lock.FileLock(path)
    with pytest.raises(
        run_lock.LockedError, match=r"`workdir` must be a directory that no other .* process \d+ on "
    ) as caught:
        run_lock.FileLock(path)
    assert str(tmp_path) in str(caught.value)
    lock.release()
    run_lock.FileLock(path).release()


def test_a_holder_that_has_not_yet_written_its_name_is_another_process(tmp_path):
    with open(tmp_path / "run.lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(run_lock.LockedError, match=r"in use by another process$"):
            run_lock.FileLock(str(tmp_path / "run.lock"))


def test_a_lock_whose_file_was_deleted_is_taken_anew_or_lost(tmp_path):
    path = tmp_path / "run.lock"
    lock = run_lock.FileLock(str(path))
    path.unlink()
    lock.check()
    with pytest.raises(run_lock.LockedError):  # there is a file again, and it is held
        run_lock.FileLock(str(path))
    path.unlink()
    other = run_lock.FileLock(str(path))
    with pytest.raises(run_lock.LockedError, match=r"in use by process \d+ on "):
        lock.check()
    other.check()
    other.release()
    lock.release()


def test_the_argument_is_named_as_its_user_knows_it(tmp_path):
    lock = run_lock.FileLock(str(tmp_path / "run.lock"))
    with pytest.raises(run_lock.LockedError, match=r"`output` must be .* Received: output="):
        run_lock.hold(tmp_path, "output")
    lock.release()


def test_a_full_disk_is_named_by_its_file(tmp_path, monkeypatch):
    def pwrite(*_):
        raise OSError(run_lock.errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_lock.os, "pwrite", pwrite)
    with pytest.raises(OSError, match=r"No space left on device: '.*run\.lock'"):
        run_lock.FileLock(str(tmp_path / "run.lock"))
    monkeypatch.undo()
    run_lock.FileLock(str(tmp_path / "run.lock")).release()  # nothing stays locked


@pytest.mark.multiprocess
def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path):
    code = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
file.write('{"pid": 12, "host": "here"}')
file.flush()
print("held", flush=True)
time.sleep(60)
"""
    path = tmp_path / "run.lock"
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(run_lock.LockedError, match="process 12 on here"):
            run_lock.hold(tmp_path)
        holder.kill()
    run_lock.hold(tmp_path)
    assert json.loads(path.read_text())["pid"] != 12
    run_lock.release(tmp_path)


def test_training_in_a_directory_in_use_is_refused_and_touches_nothing(tmp_path):
    unfinished = tmp_path / "checkpoints" / ".00000002"
    unfinished.mkdir(parents=True)
    lock = run_lock.FileLock(str(tmp_path / "run.lock"))
    try:
        with pytest.raises(run_lock.LockedError):
            Toy().train(tmp_path)
    finally:
        lock.release()
    assert unfinished.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "run.lock"]


def test_holding_twice_is_holding_once(tmp_path):
    assert run_lock.hold(tmp_path) is run_lock.hold(f"{tmp_path}/../{tmp_path.name}")
    with run_lock.held(tmp_path):
        pass
    with pytest.raises(run_lock.LockedError):  # `held` has not given back what was held before
        run_lock.FileLock(str(tmp_path / "run.lock"))
    run_lock.release(tmp_path)
    with run_lock.held(tmp_path):
        pass
    run_lock.FileLock(str(tmp_path / "run.lock")).release()


def test_a_file_system_without_locks_gets_a_lease(tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(run_lock.errno.ENOLCK, "no locks available")

    monkeypatch.setattr(run_lock.fcntl, "flock", flock)
    monkeypatch.setattr(run_lock, "Lease", lambda path, argument: (path, argument))
    path = str(tmp_path / "run.lock")
    assert run_lock._file_lock(path, "output") == (path, "output")


@pytest.fixture
def path(request):
    return remote.url(f"locks/{request.node.name}/run.lock")


def test_a_renewed_lease_is_refused_with_its_holder_and_the_time_out(path):
    lease = run_lock.Lease(path, **QUICK)
    message = r"://.*locks/.*in use by process \d+ on .*; it becomes free 0.6 seconds after that process dies"
    with pytest.raises(run_lock.LockedError, match=message):
        run_lock.Lease(path, **QUICK)
    lease.check()
    lease.release()
    assert not storage.gfile.exists(path)


def test_a_lease_that_is_not_renewed_is_taken_over(path, caplog):
    dead = {"owner": "x", "beat": 7, "pid": 1, "host": "gone", "started": "yesterday"}
    storage.write_json(path, dead)
    lease = run_lock.Lease(path, **QUICK)
    assert "process 1 on gone" in caplog.text
    assert "0.6 seconds" in caplog.text
    assert storage.read_json(path)["owner"] != "x"
    lease.release()


def test_of_two_that_begin_at_once_one_goes_on(path):
    outcomes, begin = [], threading.Barrier(2)

    def take():
        begin.wait()
        try:
            outcomes.append(run_lock.Lease(path, **QUICK))
        except run_lock.LockedError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    leases = [outcome for outcome in outcomes if isinstance(outcome, run_lock.Lease)]
    assert len(leases) == 1
    assert len(outcomes) == 2
    leases[0].check()
    leases[0].release()


def test_a_lease_is_renewed_again_after_a_failure_without_a_message(path, monkeypatch, caplog):
    write, failed = storage.write_json, threading.Event()

    def write_or_fail(*args, **kwargs):
        if not failed.is_set():
            failed.set()
            raise TimeoutError
        write(*args, **kwargs)

    lease = run_lock.Lease(path, **QUICK)
    before = storage.read_json(path)["beat"]
    monkeypatch.setattr(storage, "write_json", write_or_fail)
    assert failed.wait(60)
    while storage.read_json(path)["beat"] == before:
        assert lease._thread.is_alive()
        time.sleep(0.01)
    lease.release()
    assert "TimeoutError" in caplog.text


def test_a_lease_that_was_taken_over_stops_the_run_before_it_writes(path, monkeypatch):
    lease = run_lock.Lease(path, **QUICK)
    thief = {**storage.read_json(path), "owner": "thief"}
    lease._stop.set()  # as if the process had been asleep
    lease._thread.join()
    storage.write_json(path, thief)
    with pytest.raises(run_lock.LockedError):
        lease.check()
    lease.release()
    assert storage.read_json(path) == thief

    workdir = remote.url("locks/stopped")
    storage.write(f"{workdir}/metrics.jsonl", b"what the other run has written")
    monkeypatch.setattr(run_lock, "hold", lambda workdir, argument: lease)
    with pytest.raises(run_lock.LockedError):
        Toy().train(workdir)
    assert storage.names(storage.join(workdir, "checkpoints")) == []
    assert storage.read(f"{workdir}/metrics.jsonl") == b"what the other run has written"
