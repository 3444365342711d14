"""A server in processes of its own, from its start to its first answers: the time and memory it takes."""

import contextlib
import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

from benchmarks import processes

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_REQUESTS = 64  # for each worker, before its memory is read
_PAUSE_SECONDS = 0.02  # between two attempts to get an answer


def measure(version, folder, num_models=1, num_workers=1, flags=()):
    """Starts a server, sends requests until all workers have answered enough of them, and ends it.

    Args:
        version: path, the directory of a version. Each model is a copy of it, files and all.
        folder: str, the directory to write to.
        num_models: int.
        num_workers: int.
        flags: list of str, further flags of the server.

    Returns:
        dict: "seconds" from the start of the process to the first answer; "cpu_seconds" of all processes up
        to then; "load_seconds" and, as part of that, "warm_up_seconds" of the first worker's models;
        "request_ms", the median over requests; "processes", a list of `memory`, the first for the process
        that was started.

    Raises:
        RuntimeError: if the server ends.
    """
    folder = pathlib.Path(folder)
    names = [f"model_{number}" for number in range(num_models)]
    for name in names:
        shutil.copytree(version, folder / name / "1")
    config = 'config {{ name: "{0}" base_path: "{1}/{0}" model_platform: "tensorflow" }}'
    models = " ".join(config.format(name, folder.absolute()) for name in names)
    (folder / "models.config").write_text(f"model_config_list {{ {models} }}")
    (folder / "monitoring.config").write_text("prometheus_config { enable: true }")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "serving.server", f"--rest_api_port={port}", "--port=0", *flags]
    command += [f"--model_config_file={folder}/models.config", f"--num_workers={num_workers}"]
    command += [f"--monitoring_config_file={folder}/monitoring.config"]
    started = time.perf_counter()
    with open(folder / "server.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=_ROOT, stdout=log, stderr=log)
    try:
        while (answered := _ask(port, names[0])) is None:
            if process.poll() is not None:
                raise RuntimeError(f"the server ended: {(folder / 'server.log').read_text()[-2000:]}")
            time.sleep(_PAUSE_SECONDS)
        seconds = time.perf_counter() - started
        cpu_seconds = sum(map(processes.cpu_seconds, [process.pid, *processes.children(process.pid)]))
        times = [answered]
        while min(_answers(port).values(), default=0) < _REQUESTS or len(_answers(port)) < num_workers:
            times += [_ask(port, name) for name in names for _ in range(8)]
        page = _get(port, "/monitoring/prometheus/metrics")
        return {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "load_seconds": _sum(page, ":tensorflow:cc:saved_model:load_latency") / 1e6,
            "warm_up_seconds": _sum(page, ":tensorflow:serving:model_warmup_latency_sum") / 1e6,
            "request_ms": 1000 * sorted(times)[len(times) // 2],
            "processes": [memory(pid) for pid in (process.pid, *processes.children(process.pid))],
        }
    finally:
        process.terminate()
        process.wait()


def memory(pid):
    """Returns the bytes of a process according to /proc/PID/smaps_rollup.

    Returns:
        dict: "rss", everything in memory; "pss", each page divided by the number of processes of this
        machine that have it; "anonymous" and "pss_anonymous", the same for pages that belong to no file,
        which only forked processes share.
    """
    keys = {"Rss": "rss", "Pss": "pss", "Anonymous": "anonymous", "Pss_Anon": "pss_anonymous"}
    found = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in keys:
                found[keys[name]] = int(value.split()[0]) * 1024
    return found


def own(found):
    """Returns the bytes of processes without those of files, a page that they share counted once."""
    return sum(each["pss_anonymous"] for each in found)


def together(found):
    """Returns the same with the files, which all of them map: those of the process with the most."""
    return own(found) + max(each["rss"] - each["anonymous"] for each in found)


def _ask(port, name):
    """Returns the seconds that a request took, on a connection of its own; None without an answer."""
    body = json.dumps({"instances": ["I was charged twice for the same coffee this morning."]})
    started = time.perf_counter()
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", f"/v1/models/{name}:predict", body)
            response = connection.getresponse()
            response.read()
            if response.status == 200:
                return time.perf_counter() - started
    return None


def _get(port, path):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def _answers(port):
    """Returns {worker: number of requests it has answered}; a server of one process is worker ""."""
    page = _get(port, "/monitoring/prometheus/metrics")
    found = {}
    for labels, count in re.findall(r':request_count{(.*),status="OK"} (\d+)', page):
        worker = next(iter(re.findall(r'worker="(\d+)"', labels)), "")
        found[worker] = found.get(worker, 0) + int(count)
    return found


def _sum(page, name):
    """Returns the sum of a metric over the models of the first worker."""
    lines = [line for line in page.splitlines() if line.startswith(f"{name}{{")]
    return sum(float(line.split()[-1]) for line in lines if 'worker="' not in line or 'worker="1"' in line)
