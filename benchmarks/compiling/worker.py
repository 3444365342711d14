"""Compiles one program, in a process of its own because a crash of the compiler ends the process.

    python -m benchmarks.compiling.worker CHIP PROGRAM ANSWER OPTIMISED

`benchmarks.compiling.cells` starts it, with the environment that the compiler needs.
"""

import json
import pathlib
import sys

from benchmarks import machine
from benchmarks.compiling import compiler, refusals
from benchmarks.compiling.chips import CHIPS


def main(chip, program, answer, optimised):
    """Writes the program's figures or its refusal to ANSWER, and the optimised program to OPTIMISED."""
    found = {name: machine.version(name) for name in compiler.PACKAGES}
    try:
        figures, text = compiler.compiled(pathlib.Path(program).read_text(encoding="utf-8"), CHIPS[chip])
        pathlib.Path(optimised).write_text(text, encoding="utf-8")
        found |= figures
    except compiler.RefusedError as error:
        found["refusal"] = refusals.of_error("compiling", str(error))
    pathlib.Path(answer).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
