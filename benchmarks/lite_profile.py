r"""Profiles a text in a TFLite file by XNNPACK's kinds of work, and compares it with what the core can do.

    python -m benchmarks.lite_profile --model=FILE --preset=DIR --lengths=32,128,512,2048

This prints milliseconds by kind of work: the median of undisturbed calls, divided up as Linux's `perf`
samples further calls. Then it prints how long the encoder's multiply-adds (`cost()` of the preset) would
take if the core did nothing else, at the rate of its fastest instruction for int8 (of AMX or AVX512-VNNI;
the processor must have one of them); and what share of the core the goals of docs/inference.md need. A goal
allows the peer's time that is recorded in --results, divided by the goal. All on one thread.
"""

import json
import pathlib
import statistics
import time

import numpy as np
from absl import flags

from benchmarks import goals, machine, pages
from benchmarks.inferring import asks, comparisons, microkernels, multiply_adds
from benchmarks.shared_flags import check_json, define_output, numbers
from convnlp import programs
from convnlp.export import edge_model, preset
from convnlp.training.storage import write_json

_PEERS = {comparisons.SAME: comparisons.CONVOLUTION, comparisons.TRANSFORMER: comparisons.ATTENTION}
_RESULTS = pathlib.Path(__file__).resolve().parents[1] / "docs" / "inference.json"


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("model", None, "File that export.tflite wrote, for token ids.", required=True)
    flags.DEFINE_string("preset", None, "Preset from which it was exported.", required=True)
    flags.DEFINE_list("lengths", ["32", "128", "512", "2048"], "Lengths of the texts in tokens.")
    flags.DEFINE_float("seconds", 3.0, "How long to time each length, and how long to sample it.", 0.1)
    flags.DEFINE_string("results", str(_RESULTS), "What benchmarks.inference has written on this machine.")
    define_output("json", "File to write the results to.")


def main(_):
    """Flags -> times and samples -> tables, JSON."""
    args = flags.FLAGS
    lengths = numbers("lengths", args.lengths, least=1)
    check_json(args.json)
    peers = json.loads(pathlib.Path(args.results).read_text(encoding="utf-8"))["mini"]["cells"]
    content = pathlib.Path(args.model).read_bytes()
    unit = multiply_adds.best()  # before the work, because not every machine can
    peak = multiply_adds.a_second(unit, time.perf_counter)
    encoder = preset.load(args.preset).backbone.encoder
    counts = {length: encoder.cost(length)["multiply_adds"] for length in lengths}
    profiles = profiled(content, lengths, args.seconds)
    asked = goals_in_multiply_adds(counts, peers, peak)
    print("\n\n".join([table(profiles), ceiling(counts, profiles, peak, unit.title), asked_for(asked)]))
    if args.json:
        found = {"machine": machine.describe(1), "unit": unit.title, "peak": peak, "multiply_adds": counts}
        write_json(pathlib.Path(args.json), found | {"profiles": profiles, "goals": asked})


def profiled(content, lengths, seconds):
    """Returns dict, length -> {"ms": float, "kinds": dict, kind -> ms} for one text.

    Args:
        content: bytes of a file that takes token ids.
        lengths: list of int.
        seconds: float, how long each length is timed, and then how long it is sampled.
    """
    from ai_edge_litert import interpreter as litert

    found = {}
    for length in lengths:
        run = edge_model.runner(litert.Interpreter(model_content=content, num_threads=1))
        ids = np.ones([1, length], np.int32)
        milliseconds = 1e3 * _median(lambda run=run, ids=ids: run(ids), seconds)
        shares = microkernels.sampled(lambda run=run, ids=ids: run(ids), seconds)
        kinds = {kind: share * milliseconds for kind, share in shares.items()}
        found[length] = {"ms": milliseconds, "kinds": kinds}
    return found


def _median(call, seconds):
    call()
    taken, end = [], time.perf_counter() + seconds
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def goals_in_multiply_adds(counts, cells, peak):
    """Returns what the goals for single texts demand of the core: list of dicts.

    Args:
        counts: dict, length -> multiply-adds of a text.
        cells: list of dicts, as in docs/inference.json, of size mini.
        peak: float, multiply-adds per second.
    """
    found = []
    for length, count in counts.items():
        ask = asks.name(1, length)
        for name, mixer in _PEERS.items():
            goal = goals.goal(name, {"size": "mini", "ask": ask})
            times = [
                cell["milliseconds"]
                for cell in cells
                if (cell["ask"], cell["mixer"], cell["threads"]) == (ask, mixer, 1)
                and not comparisons.VARIANTS[cell["variant"]].ours
            ]
            if goal and times:
                most = min(times) / goal
                share = count / (most / 1e3) / peak
                found.append({"name": name, "length": length, "goal": goal, "ms": most, "share": share})
    return found


def table(profiles):
    """Returns Markdown: the kinds of work, the longest first, in ms."""
    kinds = sorted(
        {kind for each in profiles.values() for kind in each["kinds"]},
        key=lambda kind: -sum(each["kinds"].get(kind, 0.0) / each["ms"] for each in profiles.values()),
    )
    lines = []
    for kind in kinds:
        cells = (
            f"{each['kinds'].get(kind, 0.0):.3g} ({100 * each['kinds'].get(kind, 0.0) / each['ms']:.0f}%)"
            for each in profiles.values()
        )
        lines.append([kind, *cells])
    lines.append(["all", *(f"{each['ms']:.3g}" for each in profiles.values())])
    return pages.table(["ms", *(f"n = {length}" for length in profiles)], lines)


def ceiling(counts, profiles, peak, unit):
    """Returns Markdown: how close the products come to what the core can do."""
    lines = []
    for length, count in counts.items():
        ours = profiles[length]
        products = ours["kinds"].get("products in int8", 0.0)
        least = 1e3 * count / peak
        share = f"{100 * least / products:.0f}%" if products else ""
        lines.append(
            [length, f"{count / 1e6:.1f}", f"{least:.3g}", f"{ours['ms']:.3g}", f"{products:.3g}", share]
        )
    header = ["n", "multiply-adds, millions", "ms at best", "ms", "of that, products", "share of the best"]
    words = f"At best {peak / 1e9:,.0f} billion multiply-adds per second, by {unit}."
    return f"{words}\n\n{pages.table(header, lines)}"


def asked_for(found):
    """Returns Markdown: the share of the best possible rate that each goal demands."""
    lines = [
        [
            f"{each['goal']}x {each['name'].removeprefix('inference, ')}",
            each["length"],
            f"{each['ms']:.3g}",
            f"{100 * each['share']:.0f}%",
        ]
        for each in found
    ]
    return pages.table(["goal", "n", "ms it allows", "share of the core's multiply-adds"], lines)


if __name__ == "__main__":
    define_flags()
    programs.run(main)
