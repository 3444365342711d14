"""The launcher with workers without TensorFlow: `python -m tests.launching.run_fakes FOLDER NUMBER FAULT`."""

import functools
import os
import pathlib
import sys

from convnlp.launching import cluster, supervisor

FAKE_WORKER = str(pathlib.Path(__file__).with_name("fake_worker.py"))


NUM_STEPS = 12


def run(folder, num_workers, fault, say, restarts=2, hang_timeout=60.0, grace=10.0, patience=3.0):
    """The exit code of the launcher."""

    def commands():
        addresses = cluster.loopback(num_workers)
        return {
            index: (
                [sys.executable, "-S", FAKE_WORKER, str(folder), fault, str(NUM_STEPS), str(patience)],
                {**os.environ, "TF_CONFIG": cluster.tf_config(addresses, index)},
            )
            for index in range(num_workers)
        }

    return supervisor.Supervisor(
        commands, num_workers, restarts=restarts, hang_timeout=hang_timeout, grace=grace, say=say
    ).run()


if __name__ == "__main__":
    # None is to give up another one, however busy the machine is.
    fault, say = sys.argv[3], functools.partial(print, flush=True)
    sys.exit(run(sys.argv[1], int(sys.argv[2]), fault, say, patience=60))
