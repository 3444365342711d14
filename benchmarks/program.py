"""What the programs of benchmarks/ share: flags, equal threads, a growing table, the JSON file.

A program is a generator of rows and two settings:

    if __name__ == "__main__":
        program.run(rows, full=Settings(), short=Settings(lengths=(512,), repeats=3))
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import machine
from benchmarks.goals import goal
from benchmarks.rows import HEADER, Row, line, write_json
from benchmarks.shared_flags import check_json, define_output
from convnlp import programs

flags.disclaim_key_flags()  # so that --help of a program shows the flags that `run` defines


def compare(name, setting, ours, peer, unit="ms", work=None, **detail):
    """Returns a `Row` with its goal from two `Timing`s.

    Args:
        name: str, see `benchmarks.goals` for those with a goal.
        setting: dict.
        ours: `Timing`.
        peer: `Timing`, or None.
        unit: str. "ms", or with `work` a rate such as "tokens/s". Defaults to "ms".
        work: float. What one call processes, in the unit of the rate; None for a time.
        **detail: further entries of the row's detail, such as form="conv1d", the form that was timed.
    """
    value, better = (_milliseconds, "lower") if work is None else (lambda t: work / t.median, "higher")
    timings = {"ours_ms": ours, "peer_ms": peer} if peer else {"ours_ms": ours}
    return Row(
        name,
        setting,
        value(ours),
        value(peer) if peer else None,
        unit,
        better,
        goal(name, setting),
        {**detail, **{key: timing.summary(1000) for key, timing in timings.items()}},
    )


def _milliseconds(timing):
    return 1000 * timing.median


def run(rows, full, short, threads=2, arenas=None):
    """Runs `rows(settings)` as a program: prints each row as soon as it is there, and rewrites --json.

    A wrong argument ends it with a one-line message, see `convnlp.programs.run`.

    Args:
        rows: function of settings that yields `Row`s.
        full: settings of the measurements in docs/.
        short: settings of `make bench`.
        threads: int. Default of --threads.
        arenas: see `machine.tune_allocator`.
    """
    json_path = define_output("json", "File to write the machine and the rows to.")
    is_short = flags.DEFINE_bool("short", False, "Use a smaller grid with fewer repeats, as `make bench`.")
    num_threads = flags.DEFINE_integer(
        "threads", threads, "Threads of TensorFlow and the peers.", lower_bound=1
    )

    def main(_):
        check_json(json_path.value)
        machine.use_threads(num_threads.value)
        description = machine.describe(num_threads.value)
        description["allocator_tuned"] = machine.tune_allocator(arenas)
        print(HEADER, flush=True)
        finished = []
        for row in rows(short if is_short.value else full):
            finished.append(row)
            print(line(row.as_dict()), flush=True)
            if json_path.value:
                write_json(json_path.value, description, finished)

    programs.run(main)
