r"""Does bulk prediction on a cluster give every line once, although a worker is killed in the middle?

    python -m benchmarks.cluster --workdir=runs/cluster

needs requirements-beam.txt. The program starts a Dask cluster of worker processes on this machine, and
`convnlp.batch_predict --runner=DaskRunner` predicts a million numbered lines on it with a tiny classifier.
When a random number of shards is done, between a fifth and three fifths of them, a random busy worker gets
kill -9, and the cluster starts another one in its place. Finally the program looks for each line, and
compares each answer with that of a plain loop. If anything is wrong, it is printed as a problem, and the
exit code is 1.
"""

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import dask
from absl import flags
from dask.utils import key_split
from distributed import LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin

from benchmarks import bulk_lines, machine
from benchmarks.exported import export_classifier
from benchmarks.shared_flags import check_json, define_output
from convnlp import outputs, programs
from convnlp.launching.worker import ending_with_us

SIZE = {"num_layers": 1, "hidden_dim": 8, "intermediate_dim": 8, "num_heads": 1}
LENGTH = 32
PACKAGES = ("apache_beam", "dask", "distributed", "tensorflow")
EARLIEST, LATEST = 0.2, 0.6  # when to kill a worker: shares of the shards
_PATIENCE_SECONDS = 4 * 3600.0
# On a busy machine, a worker takes over a minute to start; by default, the cluster gives up after 15 s.
_DASK = {
    "distributed.comm.timeouts.connect": "600s",
    "distributed.deploy.lost-worker-timeout": "600s",
    "distributed.scheduler.worker-ttl": "1800s",
}


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory for all files, new or empty.", required=True)
    flags.DEFINE_integer("num_lines", 1_000_000, "Lines to predict.", lower_bound=1000)
    flags.DEFINE_integer("num_workers", 2, "Worker processes.", lower_bound=1)
    flags.DEFINE_integer("num_kills", 1, "Number of workers to kill, one after the other.", lower_bound=0)
    flags.DEFINE_integer("shard_size", 10_000, "Lines per shard.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Decides which worker is killed, and when.")
    define_output("json", "File to write the result to.")


class Ledger(SchedulerPlugin):
    """Records what the scheduler does with tasks.

    Attributes:
        begun: `collections.Counter`, how often each task was given to a worker.
        lost: list of str, the addresses of the workers that the scheduler lost.
    """

    def __init__(self):
        self.begun, self.lost = collections.Counter(), []

    def transition(self, key, start, finish, *args, **kwargs):
        self.begun[key] += finish == "processing"

    def remove_worker(self, scheduler, worker, **kwargs):
        self.lost.append(worker)


class Run:
    """A bulk prediction in progress.

    Args:
        folder: pathlib.Path, directory of the input; the output is in its subdirectory `out`.
        model: pathlib.Path.
        address: str, address of the scheduler.
        shard_size: int.
    """

    def __init__(self, folder, model, address, shard_size):
        self.output = folder / "out"
        self._log = folder / "batch_predict.log"
        command = [sys.executable, "-m", "convnlp.batch_predict", f"--model={model}", "--batch_size=256"]
        command += [f"--input=jsonl:{folder}/*.jsonl*", f"--output={self.output}", "--runner=DaskRunner"]
        command += [f"--shard_size={shard_size}", "--", f"--dask_client_address={address}"]
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(ending_with_us(command), stdout=log, stderr=log)

    def done(self):
        """Returns the finished shards: dict, name -> inode."""
        files = self.output.glob("predictions-*.jsonl")
        return {path.name: path.stat().st_ino for path in files}

    def last_line(self):
        """Returns the last line that the program printed."""
        return (self._log.read_text(encoding="utf-8").splitlines() or [""])[-1]


def kill_one(cluster, run, when, draw):
    """Waits until this many shards are done, and kills a worker that is busy.

    Args:
        cluster: `LocalCluster`.
        run: `Run`.
        when: int, number of shards.
        draw: `random.Random`.

    Returns:
        dict of what was killed and when, or None if the run ended before.
    """
    workers = cluster.scheduler.workers
    end = time.monotonic() + _PATIENCE_SECONDS
    while run.process.poll() is None and time.monotonic() < end:
        busy = [nanny for nanny in cluster.workers.values() if _running(workers, nanny.worker_address)]
        if len(run.done()) < when or not busy:
            time.sleep(0.01)
            continue
        nanny = draw.choice(busy)
        address, pid, running = nanny.worker_address, nanny.pid, _running(workers, nanny.worker_address)
        in_memory = len(workers[address].has_what)
        os.kill(pid, signal.SIGKILL)
        kept, partial = run.done(), len(list(run.output.glob("*.partial-*")))
        return {
            "worker": str(nanny.name),
            "pid": pid,
            "address": address,
            "shards_there": len(kept),
            "tasks_given_to_it": running,
            "results_it_held": in_memory,
            "partial_files": partial,
            "kept": kept,
        }
    return None


def _running(workers, address):
    return len(workers[address].processing) if address in workers else 0


def predict(folder, model, num_shards, args):
    """Predicts on a cluster whose workers are killed; returns the outcome as a dict, and the problems."""
    draw = random.Random(args.seed)
    shares = sorted(draw.uniform(EARLIEST, LATEST) for _ in range(args.num_kills))
    kills, problems, ledger = [], [], Ledger()
    with (
        dask.config.set(_DASK),
        LocalCluster(n_workers=args.num_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
    ):
        cluster.scheduler.add_plugin(ledger)
        pids = {nanny.pid for nanny in cluster.workers.values()}
        run = Run(folder, model, cluster.scheduler_address, args.shard_size)
        try:
            for share in shares:
                if found := kill_one(cluster, run, max(int(share * num_shards), 1), draw):
                    print(json.dumps({name: value for name, value in found.items() if name != "kept"}))
                    kills.append(found)
            code = run.process.wait(_PATIENCE_SECONDS)
        finally:
            run.process.kill()
        new_pids = {nanny.pid for nanny in cluster.workers.values() if nanny.pid} - pids
        lost = list(ledger.lost)
    done = run.done()
    if code:
        problems.append(f"the program ended with exit code {code}: {run.last_line()}")
    if len(kills) < args.num_kills:
        problems.append(f"only {len(kills)} of {args.num_kills} workers were killed before the run ended")
    for found in kills:
        if found["shards_there"] >= num_shards:
            problems.append(f"worker {found['worker']} was killed after all shards were done")
        if found["address"] not in lost:
            problems.append(f"the scheduler did not lose worker {found['worker']}")
        if not found.pop("kept").items() <= done.items():
            problems.append("a shard that was done when the worker was killed was written again")
    outcome = {
        "said": run.last_line(),
        "shards": len(done),
        "killed": kills,
        "new_processes": len(new_pids),
        "tasks": len(ledger.begun),
        "begun_again": collections.Counter(
            key_split(key) for key, count in ledger.begun.items() if count > 1
        ),
    }
    return outcome, problems


def main(_):
    """Writes the lines, predicts, and checks each line."""
    args = flags.FLAGS
    folder = pathlib.Path(args.workdir).absolute()
    check_json(args.json)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"`--workdir` must be new or empty. Received: {args.workdir!r}")
    folder.mkdir(parents=True, exist_ok=True)
    lines = bulk_lines.Lines(args.num_lines)
    lines.write(folder)
    model = export_classifier("lightweight_conv", SIZE, LENGTH, folder)
    num_shards = sum(-(-count // args.shard_size) for _, _, count in lines.files())
    outcome, problems = predict(folder, model, num_shards, args)
    found = bulk_lines.check(lines, folder / "out", model)
    if found != dict.fromkeys(found, 0) | {"once": len(lines)}:
        problems.append(f"not every line is there once with the right answer: {found}")
    versions = {name: machine.version(name) for name in PACKAGES}
    outcome = {"lines": len(lines), "workers": args.num_workers, **outcome, "found": found, **versions}
    print(json.dumps(outcome, indent=1))
    if args.json:
        result = {"machine": machine.describe(1), **outcome, "problems": problems}
        outputs.write_file(args.json, f"{json.dumps(result, indent=1)}\n".encode())
    for problem in problems:
        print(f"problem: {problem}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    define_flags()
    programs.run(main)
