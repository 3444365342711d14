"""Runs the command-line programs, each in a process of its own, as a user would."""

import concurrent.futures
import functools
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile

from tests import fork_server

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What nearly every program imports.
_LIBRARIES = ("tensorflow", "keras_nlp", "absl.app", "ml_collections", "tensorflow_datasets")


def run_program(program, *arguments, stdin="", timeout=300, directory=ROOT, environment=None, prefix=()):
    """`python -m module arguments`, once TensorFlow is imported (see `tests.fork_server`).

    Args:
        program: str, the module; or the path of a file, which runs as `python -I file.py arguments`.
        *arguments: its flags.
        stdin: str; half a surrogate pair, such as U+DCFF, stands for the byte 0xff.
        timeout: seconds.
        directory: where it runs.
        environment, prefix: as of `Program`.

    Returns:
        The finished process as of `subprocess.run`, with its outputs as text.
    """
    with tempfile.TemporaryFile() as given, concurrent.futures.ThreadPoolExecutor() as readers:
        given.write(stdin.encode("utf-8", "surrogateescape"))
        given.seek(0)
        (stdout, its_stdout), (stderr, its_stderr) = os.pipe(), os.pipe()
        try:
            process = Program(
                program,
                *arguments,
                directory=directory,
                environment=environment,
                prefix=prefix,
                stdin=given,
                stdout=its_stdout,
                stderr=its_stderr,
            )
        finally:
            os.close(its_stdout)
            os.close(its_stderr)
            texts = [readers.submit(_read, descriptor) for descriptor in (stdout, stderr)]
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess([program, *arguments], code, *(text.result() for text in texts))


def run_code(code, *arguments, **options):
    """`python -c code arguments`, likewise, except that the code is a module's, and with options as above."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "given_code.py"), "w", encoding="utf-8") as file:
            file.write(code)
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path}
        return run_program("given_code", *arguments, environment=environment, **options)


def _read(descriptor):
    with open(descriptor, encoding="utf-8") as file:
        return file.read()


class Program:
    """A running program, forked by `tests.fork_server`, with what tests need of `subprocess.Popen`.

    Args:
        program, *arguments, directory: as of `run_program`.
        environment: dict, its variables. Default: those of this process.
        prefix: tuple of strings, such as the command nsenter: what starts the server that forks the program.
        stdin, stdout, stderr: files or their descriptors.

    Attributes:
        pid: int.
        returncode: int, -N where signal N has ended it; None as long as it runs.
    """

    def __init__(
        self,
        program,
        *arguments,
        directory=ROOT,
        environment=None,
        prefix=(),
        stdin=None,
        stdout=None,
        stderr=None,
    ):
        request = pickle.dumps(
            {
                "program": str(program),
                "arguments": list(map(str, arguments)),
                "environment": dict(os.environ if environment is None else environment),
                "directory": str(directory),
            }
        )
        assert len(request) <= fork_server.LARGEST
        self._news, its_news = os.pipe()
        with open(os.devnull, "r+b") as nothing:
            files = [nothing if file is None else file for file in (stdin, stdout, stderr)]
            descriptors = [file if isinstance(file, int) else file.fileno() for file in files]
            its_server, _ = _server(str(program).endswith(".py"), prefix)
            socket.send_fds(its_server, [request], [*descriptors, its_news])
        os.close(its_news)
        self.returncode = None
        self.pid = self._number()

    def wait(self, timeout=None):
        """The exit code; raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            if not select.select([self._news], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self.returncode = self._number()
            os.close(self._news)
        return self.returncode

    def poll(self):
        """The exit code, None as long as it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, signum):
        """Sends a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self):
        """Ends it by SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _number(self):
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self._news, 1)
            if not byte:
                raise RuntimeError(f"{fork_server.__file__} has ended: run it to see why")
            line += byte
        return int(line)


@functools.cache
def _server(is_isolated, prefix):
    """(socket of the fork server, which ends with this process; its `subprocess.Popen`)."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    libraries = ("tensorflow",) if is_isolated else _LIBRARIES
    with its:
        command = [*prefix, sys.executable, *["-I"] * is_isolated, fork_server.__file__, *libraries]
        quiet = subprocess.DEVNULL
        return ours, subprocess.Popen(command, cwd=ROOT, stdin=its, stdout=quiet, stderr=quiet)
