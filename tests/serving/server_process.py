"""Runs `python -m serving.server` for a test, as a user would."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from convnlp.serving.client import Client, RequestError
from tests.run_program import Program
from tests.serving.small_models import free_port

ROOT = Path(__file__).resolve().parents[2]
# Loading TensorFlow takes about five seconds; a busy machine may take many times as long.
_START_SECONDS = 180


def start(*flags):
    """Starts the server in the background and returns the process; its output is text on pipes."""
    command = [sys.executable, "-m", "serving.server", "--port=0", *flags]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextlib.contextmanager
def running(log, model, *flags):
    """Runs the server until the block ends, and yields the client of it once `model` is served.

    Args:
        log: path of the file for what it writes.
        model: str. The name of a model that it serves.
        *flags: str. Its flags, without the port.

    Yields:
        A `Client` with the attribute `port`.
    """
    port = free_port()
    with open(log, "w") as file:
        # Without gRPC, unless a later flag says otherwise: its default port may belong to another test.
        arguments = [f"--rest_api_port={port}", "--port=0", *flags]
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}
        process = Program("serving.server", *arguments, environment=environment, stdout=file, stderr=file)
        try:
            client = Client(f"http://127.0.0.1:{port}")
            client.port, client.process = port, process
            client.wait(model, _START_SECONDS, lambda process=process: process.poll() is None)
            yield client
        except RequestError as error:
            raise AssertionError(f"{error}: {Path(log).read_text()[-2000:]}") from error
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_START_SECONDS)
