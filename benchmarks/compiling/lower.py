"""Lowers one step to a program for the TPU's compiler, the same for all chips, in a process of its own.

    python -m benchmarks.compiling.lower SIZE MIXER BATCH_SIZE INPUT_LENGTH OPTIMIZER PROGRAM FACTS

`benchmarks.compiling.cells` starts it. It writes StableHLO to PROGRAM, unless lowering is refused, and what
is known of the step to FACTS.
"""

import json
import pathlib
import sys

import tensorflow as tf

from benchmarks import machine
from benchmarks.compiling import lowering, refusals, step


def main(size, mixer, batch_size, input_length, optimizer, program, facts):
    """Writes both files, the facts last."""
    built = step.training_step(mixer, size, int(batch_size), int(input_length), optimizer)
    found = {
        "commit": machine.describe(1)["commit"],
        "tensorflow": tf.__version__,
        "parameters": built.backbone.count_params(),
        "multiply_adds": built.multiply_adds,
    }
    try:
        text = lowering.lowered(built)
        pathlib.Path(program).write_text(text, encoding="utf-8")
    except lowering.LoweringError as error:
        found["refusal"] = refusals.of_error("lowering", str(error))
    pathlib.Path(facts).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
