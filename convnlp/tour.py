"""Runs the programs of the library as a user would: one command after another, each shown before it runs."""

import contextlib
import shlex
import socket
import subprocess
import sys
import time

from convnlp.serving.client import Client, RequestError

_SERVER_START_SECONDS = 120


class Tour:
    """Runs commands one after another, and records the time and the result of each.

    Attributes:
        rows: list of (title, seconds, result, path).
    """

    def __init__(self):
        self.rows = []

    def run(self, title, command, result=None, path=""):
        """Runs a command to its end.

        Args:
            title: str, what the command does.
            command: str, `python -m ...`.
            result: function from the lines that the command printed to what the table shows. Default None:
                the last line.
            path: str, what the command makes.

        Raises:
            ChildProcessError: if the command fails.
        """
        started = time.monotonic()
        process = _start(command, stdout=subprocess.PIPE, text=True)
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.strip())
        if process.wait():
            raise ChildProcessError(f"{title}: ended with exit code {process.returncode}, see above")
        result = result or (lambda lines: next(filter(None, reversed(lines)), ""))
        self.rows.append((title, time.monotonic() - started, result(lines), path))

    @contextlib.contextmanager
    def served(self, name, command, url, log):
        """Runs a server's command for the length of a block, which begins once the model is served.

        Args:
            name: str. The model's name.
            command: str.
            url: str. Where the server answers.
            log: path. What it prints goes to this file.

        Raises:
            ChildProcessError: if it does not serve the model.
        """
        started = time.monotonic()
        with open(log, "w", encoding="utf-8") as file:
            server = _start(command, " &", stdout=file, stderr=file)
        try:
            Client(url).wait(name, _SERVER_START_SECONDS, lambda: server.poll() is None)
            self.rows.append(("start the server", time.monotonic() - started, f"serves {name}", url))
            yield
        except RequestError as error:
            raise ChildProcessError(f"start the server: {error}, see {log}") from error
        finally:
            server.terminate()
            server.wait()

    def table(self):
        """Returns a table of what was done."""
        total = ("all", sum(seconds for _, seconds, _, _ in self.rows), "", "")
        rows = [(title, f"{seconds:.0f}", *rest) for title, seconds, *rest in [*self.rows, total]]
        rows.insert(0, ("step", "seconds", "result", "path"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _start(command, mark="", **pipes):
    """Shows a command, and starts it with this Python."""
    print(f"\n$ {command}{mark}", flush=True)
    _, *arguments = shlex.split(command)
    # The terminal's own stderr, for progress bars: file descriptor 2 is the filter's of `convnlp.startup`.
    return subprocess.Popen([sys.executable, *arguments], **{"stderr": sys.__stderr__, **pipes})


def free_port():
    """Returns a TCP port of this machine on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
