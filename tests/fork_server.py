"""Becomes programs: `python [-I] fork_server.py LIBRARY...`, with a socket as standard input.

Each program is a process of its own, forked from this one, which has imported the libraries, of others, and
nothing of ours. It runs and ends as `python -m module` does, or, where this one is isolated, as
`python -I file.py`; only its start is shorter. Tests of the start itself run a fresh Python:
tests/test_startup.py.

A request is a pickled dict (program, arguments, environment, directory) with four file descriptors: the
standard input, output and error of the program, and a pipe, which gets a line with the process id and one
with the exit code, -N for signal N. The server ends where its socket does.
"""

import contextlib
import gc
import os
import pickle
import runpy
import selectors
import socket
import sys

LARGEST = 1 << 16  # bytes of a request


def serve():
    """Forks a program for each request; returns in the program, with its request and its descriptors."""
    requests = socket.socket(fileno=os.dup(0))
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data:
                selector.unregister(key.fileobj)
                _tell_the_end(key.fileobj, *key.data)
                continue
            content, descriptors, *_ = socket.recv_fds(requests, LARGEST, 4)
            if not content:
                os._exit(0)
            pid = os.fork()
            if not pid:
                selector.close()
                requests.close()
                return pickle.loads(content), descriptors
            *standard, pipe = descriptors
            for descriptor in standard:
                os.close(descriptor)
            os.write(pipe, f"{pid}\n".encode())
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, pipe))


def _tell_the_end(pidfd, pid, pipe):
    os.close(pidfd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it
        os.write(pipe, f"{code}\n".encode())
    os.close(pipe)


def prepare(descriptors, program, arguments, environment, directory):
    """Makes of this process what the program finds itself in."""
    *standard, pipe = descriptors
    os.close(pipe)
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(directory)
    if not sys.flags.isolated:
        own_paths = {os.path.dirname(__file__), *_paths(os.environ)}
        installed = [path for path in sys.path if path not in own_paths]
        sys.path[:] = [os.getcwd(), *_paths(environment), *installed]
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [program, *arguments]
    sys.orig_argv = [sys.executable, "-I" if sys.flags.isolated else "-m", program, *arguments]


def write_to_stderr_of_the_moment(handler):
    """A library's log goes to Python's standard error as it is then: a program changes it when it starts."""
    late = property(lambda self: sys.stderr, lambda self, stream: None)
    handler.__class__ = type("Late", (type(handler),), {"stream": late})


def _paths(environment):
    return [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]


if __name__ == "__main__":
    for library in sys.argv[1:]:
        __import__(library)
    if "absl.logging" in sys.modules:
        write_to_stderr_of_the_moment(sys.modules["absl.logging"].get_absl_handler().python_handler)
    gc.collect()
    gc.freeze()  # or each program would look through all of TensorFlow when it ends
    request, descriptors = serve()
    prepare(descriptors, **request)
    if sys.flags.isolated:
        runpy.run_path(request["program"], run_name="__main__")
    else:
        runpy.run_module(request["program"], run_name="__main__", alter_sys=True)
