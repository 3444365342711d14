"""The command `python -m benchmarks.soak --what=training` with runs of `tests.benchmarks.soaked_run`.

The environment variable SOAK_TEMPLATE names their template.
"""

import functools
import os

from benchmarks import soak
from benchmarks.soaking import training, training_run
from convnlp import programs
from tests.benchmarks import soaked_run

if __name__ == "__main__":
    training_run._QUIET_SECONDS = 0.05
    started = functools.partial(soaked_run.start, os.environ["SOAK_TEMPLATE"])
    training.soak = functools.partial(training.soak, started=started)
    soak.define_flags()
    programs.run(soak.main)
