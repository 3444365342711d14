"""A worker process: it cannot outlive the launcher, its output is labelled, and its heartbeat is read."""

import contextlib
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import time

from convnlp.launching.pulse import Pulse

HEARTBEAT = "CONVNLP_HEARTBEAT"  # as in convnlp.training.heartbeat, which imports TensorFlow
_WITH_PARENT = str(pathlib.Path(__file__).with_name("with_parent.py"))
_LAST_WORDS_SECONDS = 2.0
_PIECE_BYTES = 1 << 16  # as much as a pipe holds


class Worker:
    """A process that trains.

    Args:
        index: int, index of the worker.
        command: list of strings, of which the first is the path of a program.
        environment: dict, the environment variables of the process.

    Attributes:
        pulse: `Pulse`.
        process: `subprocess.Popen`, in its own session, so that Ctrl-C in a terminal reaches only the
            launcher.

    Raises:
        OSError: if the process cannot be started.
    """

    def __init__(self, index, command, environment):
        self.index = index
        self.pulse = Pulse(time.monotonic())
        beats, its_beats = os.pipe()
        try:
            self.process = subprocess.Popen(
                ending_with_us(command),
                env={**environment, HEARTBEAT: str(its_beats)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(its_beats,),
                start_new_session=True,
            )
        except OSError:
            os.close(beats)
            raise
        finally:
            os.close(its_beats)
        self._beats = open(beats, "rb", buffering=0)  # noqa: SIM115 - until `close`
        self._selector = selectors.DefaultSelector()
        mark = f"[{index}] ".encode()
        for file, take in (
            (self.process.stdout, lambda line: show(sys.stdout, mark + line)),
            (self.process.stderr, lambda line: show(sys.stderr, mark + line)),
            (self._beats, lambda line: self.pulse.take(line, time.monotonic())),
        ):
            os.set_blocking(file.fileno(), False)
            self._selector.register(file, selectors.EVENT_READ, (bytearray(), take))

    def read(self):
        """Reads what the worker has written so far, at most a piece of each kind: it may write on and on."""
        for key, _ in self._selector.select(0):
            pending, take = key.data
            data = os.read(key.fd, _PIECE_BYTES)
            if not data:
                self._selector.unregister(key.fileobj)
                if pending:
                    take(bytes(pending) + b"\n")
                continue
            *lines, rest = (bytes(pending) + data).split(b"\n")
            pending[:] = rest
            for line in lines:
                take(line + b"\n")

    def code(self):
        """Returns the exit code, -N if signal N ended the process, or None while it runs."""
        return self.process.poll()

    def signal(self, signum):
        """Sends a signal, unless the process has ended."""
        self.process.send_signal(signum)

    def close(self):
        """Kills the process if it still runs, and shows its last output."""
        if self.code() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()
        # Its child processes, such as the filter of its messages, end by themselves, or else are killed.
        end = time.monotonic() + _LAST_WORDS_SECONDS
        self.read()
        while self._selector.get_map() and time.monotonic() < end:
            time.sleep(0.01)
            self.read()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for file in (self.process.stdout, self.process.stderr, self._beats):
            file.close()
        self._selector.close()


def ending_with_us(command):
    """Returns a command that ends when this process does, even after kill -9."""
    return [sys.executable, "-I", "-S", _WITH_PARENT, str(os.getpid()), *command]


def show(file, line):
    """Writes a line (bytes) to a text file and flushes it."""
    with contextlib.suppress(OSError):  # no reader any more, or a full disk: neither must end the training
        file.buffer.write(line)
        file.flush()
