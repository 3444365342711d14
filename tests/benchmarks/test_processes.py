"""Processes are found and bound to processors, and their CPU time is read; a thread that strayed is named."""

import os
import pathlib
import subprocess
import sys

import pytest

from benchmarks import processes

THREADS = """
import sys, threading, time
end = threading.Event()
def work():
    while not end.is_set():
        sum(range(1000))
started = [threading.Thread(target=work) for _ in range(3)]
for thread in started:
    thread.start()
print("ready", flush=True)
sys.stdin.readline()
end.set()
for thread in started:
    thread.join()
print(time.process_time(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def process():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", THREADS], **pipes) as started:
        assert started.stdout.readline() == "ready\n"
        yield started
        started.kill()


def test_all_threads_are_bound(process):
    (cpu, *_) = os.sched_getaffinity(0)
    processes.pin(process.pid, {cpu})
    processes.require_pinned(process.pid, {cpu})
    tasks = [int(task) for task in os.listdir(f"/proc/{process.pid}/task")]
    assert len(tasks) == 4
    assert all(os.sched_getaffinity(task) == {cpu} for task in tasks)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_thread_that_is_elsewhere_is_named(process):
    cpu, other = sorted(os.sched_getaffinity(0))[:2]
    processes.pin(process.pid, {cpu})
    strayed = max(int(task) for task in os.listdir(f"/proc/{process.pid}/task"))
    os.sched_setaffinity(strayed, {other})
    with pytest.raises(RuntimeError, match=rf"thread {strayed} of process {process.pid} must run only on"):
        processes.require_pinned(process.pid, {cpu})


def test_cpu_time_is_that_of_all_threads(process):
    process.stdin.write("\n")
    process.stdin.flush()
    own = float(process.stdout.readline())
    assert processes.cpu_seconds(process.pid) == pytest.approx(
        own, abs=0.05
    )  # user and system, each in ticks
    assert processes.machine_cpu_seconds() > own


def test_workers_are_found_by_their_index():
    with subprocess.Popen(
        [
            "sh",
            "-c",
            'TF_CONFIG=\'{"task": {"type": "worker", "index": 3}}\' sleep 60 & sleep 60 & echo; wait',
        ],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as launcher:
        launcher.stdout.readline()
        try:
            found = {}
            while not found:  # until the child is that program
                found = processes.workers(launcher.pid)
            assert list(found) == [3]
            assert b"sleep" in pathlib.Path(f"/proc/{found[3]}/cmdline").read_bytes()
        finally:
            os.killpg(launcher.pid, 9)
    assert processes.workers(launcher.pid) == {}


def test_one_processor_of_each_core(tmp_path):
    allowed = sorted(os.sched_getaffinity(0))
    assert processes.cores(tmp_path) == allowed  # the system does not tell
    for cpu in allowed:
        (tmp_path / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text("all of them\n")
    assert processes.cores(tmp_path) == allowed[:1]
