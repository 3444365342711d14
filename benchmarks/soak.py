r"""Soaks a training run in faults, or a server in load, for hours: nothing may be lost, be wrong or grow.

    python -m benchmarks.soak --what=training --minutes=360 --seconds_between=180 --workdir=runs/soak
    python -m benchmarks.soak --what=serving --minutes=120 --workdir=runs/soak

`training` makes a tiny run of pre-training suffer the faults in `benchmarks.soaking.training_faults`, one
after the other. It restarts the run after each, and compares it bit for bit with an undisturbed run.
`serving` sends the local server requests with known answers, while new and broken versions appear, clients
disconnect or are slow, and there are more requests than allowed (`benchmarks.soaking.disturbances`). Memory,
threads and open files are sampled all the time. Anything unexpected is printed, and the exit code is 1. The
same seed gives the same faults in the same order. The same command continues a soak of a training run that
was stopped or killed (`benchmarks.soaking.sittings`).
"""

import importlib
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import machine
from benchmarks.shared_flags import check_among, define_output
from benchmarks.soaking import mounts, page, sittings
from convnlp import programs


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_enum("what", None, ["training", "serving"], "What to soak.", required=True)
    flags.DEFINE_float("minutes", 5.0, "Duration; training takes about as long again without faults.", 0.0)
    flags.DEFINE_float("seconds_between", 10.0, "Mean time from one fault to the next.", 0.1)
    flags.DEFINE_integer("seed", 0, "Decides the order of the faults and their details.")
    flags.DEFINE_list("faults", [], "Names of faults or disturbances. Default: all.")
    flags.DEFINE_string("workdir", None, "Directory for all files.", required=True)
    define_output("docs_dir", "Directory in which to write soak.md, soak.json and plots.")


def main(_):
    """Soaks, and prints the result."""
    args = flags.FLAGS
    folder = pathlib.Path(args.workdir).absolute() / args.what
    module = importlib.import_module(f"benchmarks.soaking.{args.what}")
    table = {"training": "FAULTS", "serving": "DISTURBANCES"}[args.what]
    check_among("faults", args.faults, getattr(module, table))
    names = tuple(args.faults or getattr(module, table))
    if args.docs_dir:
        page.require_marks(pathlib.Path(args.docs_dir))
    about = machine.describe(1)
    outcome = module.soak(folder, args.minutes, args.seconds_between, args.seed, names, say=_say)
    results = getattr(page, f"{args.what}_result")(outcome, folder, args.seed, about)
    (folder / "result.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    if args.docs_dir:
        page.write(pathlib.Path(args.docs_dir), args.what, results)
    sittings.remove(folder)  # not before: the results take hours
    print(page.text({args.what: results}))
    sys.exit(bool(outcome.all_problems()))


def _say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    mounts.enter("benchmarks.soak")
    define_flags()
    programs.run(main)
