r"""Trains on several workers: starts them, watches them, and restarts them when one is lost.

    convnlp launch --num_workers=4 --restarts=3 -- pretrain --config=pretrain_mini --workdir=runs/mini
    convnlp launch --num_workers=4 --address='train-{index}.train:2222' -- pretrain ...

A training command follows `--`, without `convnlp`. Without --address, all workers are processes of this
machine. With it, this machine runs one worker, and each other machine runs another by the same command
(convnlp/training/deploy). The worker's index is that of its pod in an indexed Kubernetes Job, or --index.

Each line of output shows the worker's index in front. If a worker dies, hangs or ends with an error, one line
names it, the others are ended, and --restarts=K restarts all from the newest checkpoint, at most K times.
SIGTERM and Ctrl-C are passed on: the workers save and end. They never outlive this program. It exits with 75
when it gives up after a loss, and with 1 after an error that another start would meet again.
"""

import math
import os
import sys

from absl import app, flags
from ml_collections import config_flags

from convnlp import command
from convnlp.launching import cluster
from convnlp.launching.supervisor import Supervisor
from convnlp.launching.worker import show
from convnlp.runs import config_files

TRAINS = {"pretrain": None, "finetune": "finetune_classification"}  # program -> its default config
_THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")

_NUM_WORKERS = flags.DEFINE_integer("num_workers", None, "Workers, on all machines together.", lower_bound=1)
_THREADS_PER_WORKER = flags.DEFINE_integer(
    "threads_per_worker",
    None,
    "Threads per worker. Default: this machine's processors, divided among its workers.",
    lower_bound=1,
)
_RESTARTS = flags.DEFINE_integer("restarts", 0, "How often to restart lost workers.", lower_bound=0)
_HANG_TIMEOUT_SECONDS = flags.DEFINE_float(
    "hang_timeout_seconds",
    600.0,
    "A worker that does not answer or makes no progress for this long counts as hung. The time must exceed "
    "that of the start and of a call of train.steps_per_call steps.",
    lower_bound=1.0,
)
_GRACE_SECONDS = flags.DEFINE_float(
    "grace_seconds", 60.0, "Time that workers get to save and end before they are killed.", lower_bound=0.0
)
_ADDRESS = flags.DEFINE_string(
    "address",
    None,
    "HOST:PORT of the workers, with {index} in it, if each machine runs one. Default: all run on this one.",
)
_INDEX = flags.DEFINE_integer(
    "index", None, f"Which worker this machine runs, with --address. Default: {cluster.INDEX}.", lower_bound=0
)


def check_program(argv):
    """Reads the command after `--` as its program will, as far as that needs no TensorFlow.

    Args:
        argv: list of strings, the program's name and its flags.

    Returns:
        list of strings, the arguments with which Python runs it.

    Raises:
        ValueError: if it is not a program that trains on several workers, or if its flags do not go with
            --num_workers.
    """
    name = argv[0] if argv else ""
    module = command.find(name)
    if module not in {command.find(each) for each in TRAINS}:
        raise ValueError(f"`--` must be followed by one of {', '.join(TRAINS)}. Received: {name!r}")
    own = flags.FlagValues()
    flags.DEFINE_string("workdir", None, "", flag_values=own)
    flags.DEFINE_string("strategy", "multi_worker", "", flag_values=own)
    config_flags.DEFINE_config_file("config", None, flag_values=own, lock_config=True)
    own["config"].parser = config_files.ConfigParser("config")
    default = TRAINS[next(each for each in TRAINS if command.find(each) == module)]
    given = [f"--config={default}"] * (default is not None) + argv[1:]
    before, sys.argv = sys.argv, [name, *given]  # where ml_collections looks for --config.FIELD
    try:
        own([name, *given], known_only=True)
    except (flags.Error, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        raise ValueError(config_files.unknown_field(given) or config_files.one_line(str(error))) from error
    finally:
        sys.argv = before
    for flag in ("config", "workdir"):
        if not own[flag].value:
            raise ValueError(f"`--{flag}` must be given after `--`. Received: {' '.join(argv)}")
    if own["strategy"].value != "multi_worker":
        raise ValueError(
            f"`strategy` must be multi_worker here. Received: strategy={own['strategy'].value!r}"
        )
    train = own["config"].value.train
    sizes = [
        ("batch_size", train.batch_size),
        *(("stage_batch_sizes", size) for size in train.stage_batch_sizes),
    ]
    for field, size in sizes:
        if size % _NUM_WORKERS.value:
            raise ValueError(
                f"`train.{field}` must be a multiple of --num_workers. "
                f"Received: train.{field}={size}, --num_workers={_NUM_WORKERS.value}"
            )
    return ["-m", module, *argv[1:], "--strategy=multi_worker"]


def workers_of_this_machine():
    """Returns (function that returns the addresses of all workers, indices of the workers that run here).

    Raises:
        ValueError: if a flag is missing, or --index is not that of a worker.
    """
    if _NUM_WORKERS.value is None:
        raise ValueError("`--num_workers` must be given; see --help")
    count = _NUM_WORKERS.value
    if _ADDRESS.value is None:
        if _INDEX.value is not None:
            raise ValueError(f"`index` needs --address. Received: index={_INDEX.value}")
        return lambda: cluster.loopback(count), range(count)
    found = cluster.addresses(_ADDRESS.value, count)
    index = cluster.own_index(os.environ, count) if _INDEX.value is None else _INDEX.value
    if index >= count:
        raise ValueError(f"`index` must be below --num_workers={count}. Received: index={index}")
    return lambda: found, range(index, index + 1)


def main(argv):
    """Flags -> workers -> exit code."""
    try:
        find, indices = workers_of_this_machine()
        arguments = check_program(argv[1:])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = _THREADS_PER_WORKER.value or max(1, processors // len(indices))
    environment = {**os.environ, **dict.fromkeys(_THREADS, str(threads))}

    def commands():
        """Returns the command that starts each worker; looks for free ports each time."""
        addresses = find()
        return {
            index: (
                [sys.executable, *arguments],
                {**environment, "TF_CONFIG": cluster.tf_config(addresses, index)},
            )
            for index in indices
        }

    supervisor = Supervisor(
        commands,
        _NUM_WORKERS.value,
        restarts=_RESTARTS.value,
        hang_timeout=_HANG_TIMEOUT_SECONDS.value,
        grace=_GRACE_SECONDS.value,
        say=lambda text: show(sys.stderr, f"launch: {text}\n".encode()),
    )
    return supervisor.run()


def _parse(argv):
    try:
        rest = flags.FLAGS(argv)
        for flag in (_HANG_TIMEOUT_SECONDS, _GRACE_SECONDS):
            if math.isnan(flag.value):  # which their bounds let pass
                raise flags.Error(f"flag --{flag.name} must be a number. Received: {flag.name}=nan")
        return rest
    except flags.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return sys.exit(1)


if __name__ == "__main__":
    app.run(main, flags_parser=_parse)
