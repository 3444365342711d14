"""The requests of the serving benchmarks, and the load generator that sends them."""

import json
import os
import subprocess
import sys

# Kind of input -> signature.
SIGNATURES = {"text": "serving_default", "ids": "ids"}
_WORDS = "a gripping film with a plot that never lets go and an ending nobody will see coming "


def example(name, length):
    """Returns one instance for JSON: a text that models truncate to `length` tokens, or `length` ids.

    Args:
        name: str, a key of `SIGNATURES`.
        length: int.

    Returns:
        str or list of int.
    """
    return _WORDS * (length // 8) if name == "text" else [5 + index % 100 for index in range(length)]


def write_request(name, length, folder):
    """Writes the body of a request for one example, and returns its path."""
    body = os.path.join(folder, f"{name}.json")
    with open(body, "w", encoding="utf-8") as file:
        json.dump({"signature_name": SIGNATURES[name], "instances": [example(name, length)]}, file)
    return body


def run_load(port, body, clients, seconds):
    """Runs the load generator in a process of its own and returns what it reports.

    Args:
        port: int, port of the server.
        body: str, path of the file with the body of every request.
        clients: int.
        seconds: float.

    Returns:
        dict, see `benchmarks.load_generator.generate`.

    Raises:
        RuntimeError: if a request failed.
    """
    command = [sys.executable, "-m", "benchmarks.load_generator", f"--port={port}", f"--body={body}"]
    command += [f"--clients={clients}", f"--seconds={seconds}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    if report["failures"]:
        raise RuntimeError(f"{report['failures']} of {report['requests']} requests failed")
    return report
