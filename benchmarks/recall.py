r"""What can a token mixer look up by content, and how far away? Synthetic tasks answer in minutes.

    python -m benchmarks.recall --workdir=DIR --mixers=dynamic_conv,self_attention --layers=2

Small encoders that differ only in the mixer are trained from random weights on two tasks
(`benchmarks.recalling.data`): `recall`, to give the value of a key that appeared some positions before, and
`copy`, to give the symbol a fixed number of positions before. The first needs content, the second only
range. A mixer that can copy but not recall will fail on pairs of texts and on questions, whatever it sees.

--mixers takes mixers, layouts, `a+b` for layers in turn (repeated up to the number of layers), and options,
as in `dynamic_conv:kernel_size=31:dilation_rate=1`. Each model is trained for at most --steps, with the
learning rate that was best on validation data at the first of --distances. Finished models are kept in
DIR/cells and never trained again; an interrupted command continues. --docs_dir=docs adds the models to
docs/recall.json, and writes the generated part of docs/recall.md and its plots.
"""

import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from absl import flags

from benchmarks import machine, pages
from benchmarks.comparison.variants import Variant
from benchmarks.recalling import cells, data, model, page
from benchmarks.shared_flags import check_among, define_output, numbers, read_seeds
from convnlp import programs
from convnlp.layers import MIXERS

DIRECTIONS = {"both": False, "causal": True}


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory for all results.", required=True)
    flags.DEFINE_list("mixers", [], "Mixers to train, see above. Default: all.")
    flags.DEFINE_list("tasks", list(data.TASKS), "Tasks, of recall and copy.")
    flags.DEFINE_list("distances", ["8", "16", "32", "64", "128", "256", "512"], "Distances in positions.")
    flags.DEFINE_list("layers", ["2"], "Numbers of layers.")
    flags.DEFINE_list("directions", ["both"], "Of both and causal; causal skips mixers that cannot be.")
    flags.DEFINE_integer("steps", 1000, "Largest number of steps per training.", lower_bound=1)
    flags.DEFINE_integer("batch_size", 16, "Rows per step.", lower_bound=1)
    flags.DEFINE_list("learning_rates", ["3e-3", "1e-2"], "Learning rates to try, the same for all.")
    flags.DEFINE_list("seeds", ["0"], "Seeds of weights and data.")
    flags.DEFINE_integer("threads", 2, "Threads of TensorFlow.", lower_bound=1)
    define_output("docs_dir", "Directory of recall.json, recall.md and the plots.")


def main(_):
    """Flags -> missing models, row by row -> table, JSON, page."""
    args = flags.FLAGS
    plan, rows = checked(args)
    machine.use_threads(args.threads)
    from benchmarks.recalling import training  # after the threads are set

    docs = pathlib.Path(args.docs_dir) if args.docs_dir else None
    if docs:
        pages.require_marks("docs_dir", docs / "recall.md", page.BEGIN)
    finished = cells.Cells(args.workdir, docs and docs / "recall.json")
    description = machine.describe(args.threads)
    del description["command"]  # its directories are those of this machine
    for row in rows:
        if row["causal"] and not model.supports_causal(row["mixer"]):
            print(f"{row['mixer']} cannot be causal", flush=True)
            continue
        start = time.perf_counter()
        for settings, result in plan.run(row, finished, training.train):
            print(line(settings, result, time.perf_counter() - start), flush=True)
            start = time.perf_counter()
        if docs:
            finished.write(docs / "recall.json", description)
            page.write(docs / "recall.md", finished.values(), plan)
    print(page.tables(cells.rows_of(finished.values(), plan)))


def line(settings, result, seconds):
    """Returns the line that is printed for a model."""
    name = "{task} {mixer} {layers} layers{way}, {distance} positions, rate {learning_rate:g}".format(
        **settings, way=", causal" if settings["causal"] else ""
    )
    return f"{name}: {100 * result['accuracy']:.1f} % after {result['steps_made']} steps, {seconds:.0f} s"


def checked(args):
    """Returns what the flags describe.

    Returns:
        (`Plan`, list of rows, dicts as in `Plan.settings`).

    Raises:
        ValueError: if a flag is wrong; the message names it.
    """
    distances = tuple(numbers("distances", args.distances, data.NUM_PAIRS))
    rates = tuple(numbers("learning_rates", args.learning_rates, 1e-9, float))
    plan = cells.Plan(args.steps, args.batch_size, rates, distances)
    check_among("tasks", args.tasks, data.TASKS)
    check_among("directions", args.directions, DIRECTIONS)
    mixers = [str(Variant.parse(text)) for text in args.mixers or MIXERS]
    layers, seeds = numbers("layers", args.layers, 1), read_seeds(args.seeds)
    for mixer in mixers:
        for count in layers:
            model.layer_names(Variant.parse(mixer).mixer, count)
    return plan, [
        {"task": task, "mixer": mixer, "layers": count, "causal": DIRECTIONS[way], "seed": seed}
        for count in layers
        for way in args.directions
        for mixer in mixers
        for task in args.tasks
        for seed in seeds
    ]


if __name__ == "__main__":
    define_flags()
    programs.run(main)
