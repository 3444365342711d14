"""SIGTERM ends a process that would not end by itself."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import hashlib, os, signal, sys, threading, time
from convnlp.serving.core.drain import drain

called = threading.Event()
signal.signal(signal.SIGTERM, {handler})
drain({seconds}, lambda: print("begins", flush=True))
threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGTERM]).start()
{work}
"""
END = "lambda *_: sys.exit(0)"


def ended(handler=END, seconds=0.5, work="time.sleep(600)"):
    """Runs the program, which sends itself the signal; returns the code and what it wrote."""
    program = PROGRAM.format(handler=handler, seconds=seconds, work=work)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


STUCK = {
    "thread": {
        "work": "threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start(); time.sleep(600)"
    },
    # One call, during which Python runs no handler.
    "call": {"work": "hashlib.pbkdf2_hmac('sha256', b'x', b'x', 2**31 - 1)"},
    "handler": {"handler": "lambda *_: None", "work": "while True: time.sleep(600)"},
    # As from Python 3.12 on when the main thread has come to its end.
    "no_new_thread": {
        "handler": "lambda *_: None",
        "work": "threading.Thread.start = None\nwhile True: time.sleep(600)",
    },
}


@pytest.mark.parametrize("stuck", STUCK.values(), ids=STUCK)
def test_what_does_not_end_is_ended(stuck):
    code, output, errors = ended(**stuck)
    assert (code, output) == (1, "begins\n")
    line = "SIGTERM: giving up what is not finished after 0.5 s (--drain_timeout_in_ms)"
    assert errors.splitlines() == [line]


def test_an_end_that_is_stuck_is_ended():
    """When Python itself has ended, its threads are dead, and so is the one that would have ended it."""
    at_exit = "import ctypes; libc = ctypes.CDLL(None); libc.__cxa_atexit(libc.pause, None, None)"
    code, _, _ = ended(work=f"{at_exit}; time.sleep(600)")
    assert code == -signal.SIGALRM


def test_what_ends_is_left_alone():
    code, _, errors = ended(seconds=600)
    assert (code, errors) == (0, "")
    code, output, errors = ended("lambda *_: called.set()", seconds=600, work="called.wait(); print('end')")
    assert (code, errors) == (0, "")
    assert "end" in output
