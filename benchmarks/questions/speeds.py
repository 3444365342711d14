"""Measures the speed of all mixers at one length, in turn, in one process.

    python -m benchmarks.questions.speeds PLAN DIR [MODULE...]

`benchmarks.paper` starts it. PLAN is the file written by `Plan.write`, whose mixers are measured; MODULEs
register mixers. A temporary slowdown of the machine affects all of them, so ratios hold even if speeds do
not.
"""

import sys
import time

from benchmarks.comparison import cells, measuring, runner
from benchmarks.comparison.cells import Cell
from benchmarks.comparison.plan import Plan
from benchmarks.timing import interleaved
from convnlp import programs
from convnlp.training import storage


def cells_of(plan):
    """Returns the measurements of a plan, mixer -> `Cell`, different from those of each mixer by itself."""
    return {
        mixer: Cell("measure", {**cell.settings, "in_turn_with": list(plan.mixers)})
        for mixer in plan.mixers
        for cell in plan.cells(mixer)
        if cell.kind == "measure"
    }


def is_done(plan, workdir):
    """Returns whether all of a plan has been measured on an otherwise idle machine."""
    found = [cell.result(workdir) for cell in cells_of(plan).values()]
    return all(result is not None and not result["busy"] for result in found)


def compute(plan, workdir, name):
    """Measures a plan, unless that is done, in a process that logs to WORKDIR/log-NAME.txt.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        workdir: pathlib.Path.
        name: str.

    Returns:
        bool, whether its cells have results.
    """
    if is_done(plan, workdir):
        return True
    path = workdir / f"plan-{cells.file_name(name)}.json"
    plan.write(path)
    return runner.run("benchmarks.questions.speeds", [path, workdir], name, workdir)


def measure(plan, workdir):
    """Measures all mixers of a plan and writes the results of their cells."""
    started, cells_by_mixer = time.process_time(), cells_of(plan)
    models = {
        mixer: measuring.Model(plan, cell.settings, cell.directory(workdir))
        for mixer, cell in cells_by_mixer.items()
    }
    calls = {(mixer, name): call for mixer, model in models.items() for name, call in model.calls.items()}
    timings = interleaved(calls, measuring.REPEATS)
    share = (time.process_time() - started) / len(models)
    for mixer, cell in cells_by_mixer.items():
        of_mixer = {name: timings[mixer, name] for name in models[mixer].calls}
        result = {**models[mixer].speeds(of_mixer), "cpu_seconds": share}
        # Stricter than for a mixer by itself: this program only measures, so it can be repeated.
        result["busy"] = any(len(timing.samples) != measuring.REPEATS for timing in of_mixer.values())
        result |= {f"{name}_samples": timing.samples for name, timing in of_mixer.items()}
        storage.write_json(cell.directory(workdir) / "settings.json", cell.settings)
        storage.write_json(cell.directory(workdir) / "result.json", result)


def main(plan_path, workdir, *modules):
    """Imports the modules and measures."""
    programs.import_modules(modules)
    measure(Plan.read(plan_path), workdir)


if __name__ == "__main__":
    main(*sys.argv[1:])
