"""A worker without TensorFlow: counts steps, waits for the others in each, and fails where it is told to.

    python fake_worker.py FOLDER FAULT:WORKER:STEP NUM_STEPS PATIENCE_SECONDS

What it saves is the number of its step, in FOLDER/saved. A fault happens once, whatever is started again:
kill, stop, terminate (a signal to itself), stuck (goes no further), deaf (does that, and ignores SIGTERM)
and error (exit code 1). A worker gives up another one that does not move for PATIENCE_SECONDS.
"""

import json
import os
import pathlib
import signal
import sys
import threading
import time

SAVED_EVERY = 4

folder, (fault, victim, when) = pathlib.Path(sys.argv[1]), sys.argv[2].split(":")
num_steps, patience_seconds = int(sys.argv[3]), float(sys.argv[4])
config = json.loads(os.environ["TF_CONFIG"])
index, addresses = config["task"]["index"], config["cluster"]["worker"]
shared = folder / addresses[0].rpartition(":")[2]  # of this start
heartbeat = int(os.environ["CONVNLP_HEARTBEAT"])
signals = []


def mark(**values):
    os.write(heartbeat, json.dumps(values).encode() + b"\n")


def beat():
    while True:
        mark()
        time.sleep(0.1)


def at(worker):
    """The step of a worker, or what it has said instead."""
    try:
        return (shared / str(worker)).read_text()
    except FileNotFoundError:
        return "-1"


def write(path, text):
    """Whole or not at all: others read it at any time."""
    partial = path.with_name(f".{path.name}")
    partial.write_text(text)
    partial.rename(path)


def tell(text):
    write(shared / str(index), text)


def wait_for_all(step):
    """Waits until nobody is behind; ends as a worker of TensorFlow's does that has lost another."""
    end = time.monotonic() + patience_seconds
    for worker in range(len(addresses)):
        while (said := at(worker)) != "stopped" and int(said) < step:
            if time.monotonic() > end:
                print(f"error: worker {worker} was lost", file=sys.stderr, flush=True)
                os._exit(75)
            time.sleep(0.005)
    return any(at(worker) == "stopped" for worker in range(len(addresses)))


def save(step):
    if index == 0:
        write(folder / "saved", str(step))
    mark(saved=step)


def fail(step):
    if (index, step) != (int(victim), int(when)) or (folder / "failed").exists():
        return
    while len(list(shared.glob("pid-*"))) < len(addresses):  # the loss of one ends those that still start
        time.sleep(0.005)
    (folder / "failed").touch()
    if fault in ("stuck", "deaf"):
        if fault == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if fault == "error":
        print("error: no space left", file=sys.stderr, flush=True)
        os._exit(1)
    names = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "terminate": signal.SIGTERM}
    os.kill(os.getpid(), names[fault])


for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(each, lambda signum, frame: signals.append(signum))
shared.mkdir(parents=True, exist_ok=True)
write(shared / f"pid-{index}", str(os.getpid()))
threading.Thread(target=beat, daemon=True).start()
print(f"worker {index} of {len(addresses)}", flush=True)
step = int((folder / "saved").read_text()) if (folder / "saved").exists() else 0
while step < num_steps:
    fail(step)
    mark(ready=step)
    tell("stopped" if signals else str(step))
    if wait_for_all(step):
        stopped = next(worker for worker in range(len(addresses)) if at(worker) == "stopped")
        save(step)
        mark(stopped=stopped)
        sys.exit(128 + (*signals, signal.SIGTERM)[0])
    step += 1
    mark(step=step)
    if step % SAVED_EVERY == 0:
        save(step)
    time.sleep(0.02)
mark(done=step)
tell(str(num_steps + 1))
