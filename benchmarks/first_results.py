r"""The scores of the shipped preset and of linear models on complete test sets: docs/first_results.md.

    python -m benchmarks.first_results --data_dir=DATA --workdir=DIR --docs_dir=docs

DATA holds classification/NAME.{train,valid,test}.jsonl.gz with "text" and "label". Fine-tuning uses the
default recipe of `convnlp finetune`; only the seed is set. The peers choose their penalty by
cross-validation. A cell is one model on one set with one seed. Cells that are done are not repeated, even
if only docs/first_results.json has them. The page is written after each cell. The peer `minilm` needs
--minilm=DIRECTORY with the files model.onnx (int8) and tokenizer.json of all-MiniLM-L6-v2. The model
`control` fine-tunes another preset, --control=PRESET, as `finetune` does the shipped one; all its cells are
of the same preset.
"""

import importlib.util
import json
import pathlib

from absl import flags

from benchmarks import pages
from benchmarks.scoring import minilm, page, peers, sets
from benchmarks.scoring.ours import PRESET, Runs
from benchmarks.scoring.sets import ALL_SETS, SETS
from benchmarks.shared_flags import check_among, define_output, read_seeds
from benchmarks.weights import sum_of_weights
from convnlp import programs
from convnlp.models import preset_checks, preset_names

OURS = {
    "fit_head": Runs.fit_head,
    "self_training": Runs.self_training,
    "finetune": Runs.finetune,
    "control": Runs.control,
    "taught": Runs.taught,
    "tflite": Runs.tflite,
}
MODELS = [*peers.PEERS, "minilm", *OURS]
WITH_SEEDS = ("finetune", "control", "taught")
WITH_OTHER_TEXTS = ("self_training", "taught")  # which only a part of a training file leaves


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Directory with classification/*.jsonl.gz.", required=True)
    flags.DEFINE_string("workdir", None, "Directory for all runs.", required=True)
    flags.DEFINE_list("sets", list(SETS), "Data sets, in the order in which they are run.")
    models = [*peers.PEERS, *(model for model in OURS if model != "control")]  # those that need no files
    flags.DEFINE_list("models", models, f"Models to score, of {', '.join(MODELS)}.")
    flags.DEFINE_list("seeds", ["0", "1", "2", "3", "4"], "Seeds of fine-tuning; other models use the first.")
    flags.DEFINE_string("minilm", None, f"Directory with {' and '.join(minilm.FILES)}, for `minilm`.")
    flags.DEFINE_string("control", None, "Preset for `control`, such as one with attention.")
    define_output("docs_dir", "Directory of first_results.json and first_results.md.", required=True)


def main(argv):
    """Flags -> cells -> page."""
    del argv
    args = flags.FLAGS
    sets.check(args.sets, args.data_dir)
    check(args.models, args.minilm, args.control)
    every_seed = [str(seed) for seed in read_seeds(args.seeds)]  # keys of JSON
    text = pathlib.Path(args.docs_dir, "first_results.md")
    pages.require_marks("docs_dir", text, page.BEGIN)
    figures = pathlib.Path(args.docs_dir, "first_results.json")
    found = (
        json.loads(figures.read_text()) if figures.exists() else {"preset": PRESET, "cells": {}, "labels": {}}
    )
    check_preset(found, preset_names.locate(PRESET))
    control = record_control(found, args.control) if "control" in args.models else None
    runs = Runs(pathlib.Path(args.data_dir), pathlib.Path(args.workdir), control)
    for name in args.sets:
        for model in args.models:
            for seed in every_seed if model in WITH_SEEDS else every_seed[:1]:
                done = found["cells"].setdefault(name, {}).setdefault(model, {})
                if seed in done or (model in WITH_OTHER_TEXTS and not ALL_SETS[name].is_part):
                    continue
                done[seed] = cell(model, ALL_SETS[name], seed, runs, args.minilm)
                found["labels"][name] = ALL_SETS[name].read(args.data_dir, "test")[1]
                write(found, figures, text)
    write(found, figures, text)


def check(models, minilm_dir=None, control=None):
    """Raises ValueError before the first run for what would make it fail later."""
    check_among("models", models, MODELS)
    if "control" in models and not (control and preset_checks.is_preset(preset_names.locate(control))):
        raise ValueError(f"`control` must be a preset for the model `control`. Received: control={control!r}")
    if "minilm" in models:
        for file in minilm.FILES:
            if minilm_dir is None or not pathlib.Path(minilm_dir, file).exists():
                raise ValueError(f"`minilm` must be a directory that holds {file}. Received: {minilm_dir}")
        for module in minilm.MODULES:
            if importlib.util.find_spec(module) is None:
                raise ValueError(f"the peer `minilm` needs {module}: pip install -r requirements-bench.txt")


def check_preset(found, directory):
    """Records in the figures the sum of the shipped preset's weights.

    Args:
        found: dict, the figures; "weights" is the sum for the preset that its cells are of.
        directory: path of the shipped preset.

    Raises:
        ValueError: if the figures have another preset's cells.
    """
    weights = sum_of_weights(directory)
    if found.setdefault("weights", weights) != weights:
        raise ValueError(
            f"`docs_dir` must hold cells of {found['preset']} as it is shipped now, whose weights have the "
            f"sum {weights}. Received: cells of a preset with the sum {found['weights']}"
        )


def record_control(found, preset):
    """Records in the figures which preset the control is, and returns its directory.

    Args:
        found: dict, the figures; "control" is the sum of the weights of the preset that its cells are of.
        preset: str, of --control.

    Raises:
        ValueError: if the figures have another preset's cells.
    """
    directory = preset_names.locate(preset)
    weights = sum_of_weights(directory)
    if found.setdefault("control", weights) != weights:
        raise ValueError(
            "`control` must be the preset of the cells in first_results.json, whose weights have the sum "
            f"{found['control']}. Received: control={preset!r}, whose sum is {weights}"
        )
    return directory


def cell(model, text_set, seed, runs, minilm_dir=None):
    """Computes the predictions of one model on the test texts of a set.

    Args:
        model: str, one of `MODELS`.
        text_set: `TextSet`.
        seed: str.
        runs: `Runs`.
        minilm_dir: path, for "minilm".

    Returns:
        dict: "predictions", one class per text, and other facts about the run.
    """
    if model in OURS:
        return OURS[model](runs, text_set, seed)
    peer = peers.sentence_embeddings(minilm_dir) if model == "minilm" else peers.PEERS[model]()
    texts, labels = text_set.read(runs.data_dir, "train")
    answers, penalty = peers.predictions(peer, texts, labels, text_set.read(runs.data_dir, "test")[0])
    return {"predictions": answers, "penalty": penalty}


def write(found, figures, page_path):
    """Writes the figures as JSON, one line per cell, and the generated part of the page."""
    figures.write_text(
        json.dumps(found, separators=(",", ":")).replace('{"predictions"', '\n{"predictions"') + "\n"
    )
    pages.replace_generated(page_path, page.BEGIN, page.generated(found["cells"], found["labels"]))


if __name__ == "__main__":
    define_flags()
    programs.run(main)
