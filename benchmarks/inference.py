r"""One classifier in every form in which it can be deployed, ours and others', convolution and Transformer.

    python -m benchmarks.inference --workdir=DIR --json=FILE [--minilm=DIR] [--docs_dir=docs]

The same weights run as our SavedModel and our LiteRT files, in PyTorch, ONNX Runtime and OpenVINO, float32,
bfloat16 and int8, as far as these are installed (requirements-bench.txt). all-MiniLM-L6 in int8 is added
with --minilm=DIRECTORY of its model.onnx and tokenizer.json. The inputs are single texts of --lengths
tokens, 32 texts of --batch_lengths tokens, and the texts of --texts with mixed lengths: as ids in batches
of 32, and with the tokenizer, one by one and in batches of 32.

Every form has its own process, and the processes take turns. Before a form is timed, its logits are
compared with those of our float32 model: a form that differs by more than its number type explains is
listed and not timed. The files of the forms stay in --workdir; use another directory after a change of the
code. --docs_dir adds the results to inference.json there and writes the generated part of inference.md, or
of another --page and the .json of its name, for another machine.
"""

import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
from absl import flags

from benchmarks import machine, pages
from benchmarks.inferring import asks, builds, comparisons, measuring, model, page
from benchmarks.inferring.pieces import VOCABULARY, Pieces
from benchmarks.inferring.variants import MINILM, VARIANTS, chosen
from benchmarks.rows import HEADER, line
from benchmarks.scoring import minilm
from benchmarks.shared_flags import check_among, check_json, define_output, numbers
from convnlp import programs
from convnlp.data import Source
from convnlp.export.lite import calibration
from convnlp.training.storage import write_json

SIZES = ("tiny", "mini", "small")
_EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "convnlp" / "example" / "test.csv.gz"
PACKAGES = ("onnxruntime", "openvino", "nncf", "ai_edge_litert")


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory for the files of all forms.", required=True)
    define_output("json", "File to write all results to.")
    define_output("docs_dir", "Directory of --page and its .json.")
    flags.DEFINE_string("page", "inference.md", "File in --docs_dir with the marks of the generated part.")
    flags.DEFINE_enum("size", "mini", SIZES, "Size of the model.")
    flags.DEFINE_list("mixers", list(model.MIXINGS), f"Mixers, of {', '.join(model.MIXINGS)}.")
    flags.DEFINE_list("variants", [], "Keys of forms. Default: all.")
    flags.DEFINE_string("minilm", None, f"Directory of all-MiniLM-L6's {' and '.join(minilm.FILES)}.")
    flags.DEFINE_list("lengths", ["32", "128", "512", "2048"], "Lengths of single texts in tokens.")
    flags.DEFINE_list("batch_lengths", ["128"], "Lengths of 32 texts without pads.")
    flags.DEFINE_string("texts", None, "Source of texts. Default: the questions of `convnlp example-data`.")
    flags.DEFINE_string("split", "train", "Split of --texts.")
    flags.DEFINE_string("text_field", "text", "Field of the text in --texts.")
    flags.DEFINE_integer("num_texts", 256, "How many of the first texts to use.", lower_bound=1)
    flags.DEFINE_list("threads", ["1", "2"], "Numbers of threads, one after the other.")
    flags.DEFINE_integer("repeats", 5, "Samples per form and input.", lower_bound=1)


def main(_):
    """Flags -> files -> measurements -> rows, JSON, page."""
    args = flags.FLAGS
    plan = checked(args)
    workdir = pathlib.Path(args.workdir).absolute()
    workdir.mkdir(parents=True, exist_ok=True)
    result = {
        "machine": describe(plan["threads"]),
        "settings": {key: plan[key] for key in ("lengths", "batch_lengths")}
        | {"texts": args.texts or "example"},
        "models": {},
        "variants": [],
        "cells": [],
        "failed": [],
    }
    texts = read_texts(args)
    candidates, asked = prepared(args, plan, workdir, texts, result)
    with open(workdir / "log.txt", "a", encoding="utf-8") as log:
        for threads in plan["threads"]:
            measured = measuring.Measurement(candidates, asked, threads, args.repeats)
            before = {key: list(result[key]) for key in ("variants", "cells", "failed")}
            for name in measured.run(workdir / "asks.json", log):
                print(f"threads={threads}, {name}: {len(measured.cells)} cells", flush=True)
                for key, found in before.items():
                    result[key] = found + getattr(measured, key)
                finish(result, args)
    print(HEADER)
    for row in result["rows"]:
        print(line(row))
    if result["failed"]:
        print(f"{len(result['failed'])} failed, see {workdir / 'log.txt'}", file=sys.stderr)


def checked(args):
    """Returns the values of the flags as a dict; raises ValueError before anything is computed."""
    plan = {
        name: numbers(name, getattr(args, name), least)
        for name, least in (("lengths", 2), ("batch_lengths", 2), ("threads", 1))
    }
    cores = len(os.sched_getaffinity(0))
    if max(plan["threads"]) > cores:
        raise ValueError(
            f"`threads` must be at most {cores}, the number of cores here. Received: {max(plan['threads'])}"
        )
    check_among("mixers", args.mixers, model.MIXINGS)
    if args.docs_dir:
        pages.require_marks("docs_dir", pathlib.Path(args.docs_dir, args.page), page.BEGIN)
    check_json(args.json)
    variants = chosen(args.variants)
    if args.minilm is not None:
        for file in minilm.FILES:
            if not pathlib.Path(args.minilm, file).exists():
                raise ValueError(f"`minilm` must be a directory that holds {file}. Received: {args.minilm}")
        variants.append(VARIANTS[MINILM])
    return {**plan, "variants": variants}


def describe(threads):
    """Returns `machine.describe` with the versions of the measured packages."""
    found = machine.describe(threads)
    return found | {name: machine.version(name) for name in PACKAGES}


def read_texts(args):
    """Returns the texts that the flags give: list of str."""
    source = Source(args.texts or f"csv:{_EXAMPLES}", args.split)
    (column,) = calibration.texts(source, (args.text_field,), args.num_texts)
    return [text.decode("utf-8") for text in column]


def prepared(args, plan, workdir, texts, result):
    """Makes all files, prints what is left out, and returns the candidates and the inputs."""
    installed = []
    for variant in plan["variants"]:
        if variant.missing:
            print(f"{variant.title} is left out; not installed: {', '.join(variant.missing)}", flush=True)
        else:
            installed.append(variant)
    builders = list(dict.fromkeys(variant.builder for variant in installed if variant.has_twin))
    candidates, asked = [], []
    for mixer in args.mixers:
        longest = max(*plan["lengths"], *plan["batch_lengths"], 512)
        folder = workdir / f"{mixer}-{args.size}-{longest}"
        facts = model.written(folder, mixer, args.size, longest)
        result["models"][mixer] = facts
        if not asked:
            ids_below = facts["sizes"]["vocabulary_size"]
            asked = asks.asks(plan["lengths"], plan["batch_lengths"], texts, Pieces(folder), ids_below)
            asks.write(workdir / "asks.json", asked)
        print(f"making the files of {mixer}, {args.size}", flush=True)
        asks_path = str(workdir / "asks.json")
        made = in_a_process(workdir / "log.txt", builds.prepare, str(folder), texts, builders, asks_path)
        with np.load(folder / builds.REFERENCE) as file:
            reference = dict(file)
        for variant in (variant for variant in installed if variant.has_twin):
            path = made[variant.builder]
            size = builds.megabytes(path) + (0 if variant.ours else builds.megabytes(folder / VOCABULARY))
            candidates.append(measuring.Candidate(variant, mixer, path, size, reference))
    if any(not variant.has_twin for variant in installed):
        size = builds.megabytes(args.minilm)
        candidates.append(measuring.Candidate(VARIANTS[MINILM], "", os.path.abspath(args.minilm), size, None))
    return candidates, asked


def in_a_process(log, function, *arguments):
    """Calls a function in a fresh process, whose memory and threads end with it; returns the result.

    Args:
        log: path of the file that receives what is printed.
        function: function of a module.
        *arguments: its arguments.
    """
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context, _print_to, (str(log),)) as pool:
        return pool.submit(function, *arguments).result()


def _print_to(log):
    with open(log, "ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)


def finish(result, args):
    """Adds the rows to the result, and writes --json and the page."""
    result["rows"] = [row.as_dict() for row in comparisons.rows(result["cells"], args.size)]
    if args.json:
        write_json(pathlib.Path(args.json), result)
    if args.docs_dir:
        write_page(result, args.size, pathlib.Path(args.docs_dir, args.page))


def write_page(result, size, document):
    """Adds the results of a size to the page's JSON, without samples, and writes the page of all sizes."""
    path, results = document.with_suffix(".json"), {}
    with contextlib.suppress(FileNotFoundError):
        results = json.loads(path.read_text(encoding="utf-8"))
    cells = [{key: value for key, value in cell.items() if key != "timing"} for cell in result["cells"]]
    results[size] = {**result, "cells": cells}
    results = {name: results[name] for name in SIZES if name in results}
    write_json(path, results)
    pages.replace_generated(document, page.BEGIN, page.text(results))


if __name__ == "__main__":
    define_flags()
    programs.run(main)
