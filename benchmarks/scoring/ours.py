"""A preset on a set: what each way of using it answers, with the library's own programs."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np

from benchmarks.run_once import run_once
from benchmarks.scoring.sets import SETS
from benchmarks.weights import sum_of_weights
from convnlp import tasks
from convnlp.data import Source
from convnlp.export.lite import comparison, tflite_files
from convnlp.tasks import Fields
from convnlp.tasks.rows import outputs_of

PRESET = "dynamic_conv_mini_en"


@dataclasses.dataclass(frozen=True)
class Runs:
    """The runs of the programs.

    Args:
        data_dir: path that holds classification/*.jsonl.gz.
        workdir: `pathlib.Path`; each run has a directory of its own there, and is not repeated.
        control_dir: str, directory of the preset that `control` fine-tunes. Defaults to None.
        init_from: str, preset that all runs start from. Defaults to "": the shipped one.
    """

    data_dir: pathlib.Path
    workdir: pathlib.Path
    control_dir: str | None = None
    init_from: str = ""

    def fit_head(self, text_set, seed):
        """Returns the cell of a linear classifier on the frozen encoder."""
        return self._cell(text_set, self._trained("convnlp.fit_head", text_set, seed))

    def self_training(self, text_set, seed):
        """Returns the cell of one that also learns from the rest of the training file, without its labels."""
        run = self._self_trained(text_set, seed)
        taught = json.loads((run / "results.json").read_text())["self_training"]
        return self._cell(text_set, run) | {
            name: taught[name] for name in ("num_texts", "num_taken", "shares")
        }

    def finetune(self, text_set, seed):
        """Returns the cell of all weights fine-tuned, with defaults for everything but the seed."""
        return self._cell(text_set, self._trained("convnlp.finetune", text_set, seed))

    def control(self, text_set, seed):
        """Returns the cell of another preset, fine-tuned in the same way."""
        workdir = self.workdir / f"control_{sum_of_weights(self.control_dir)}"
        runs = dataclasses.replace(self, workdir=workdir, init_from=self.control_dir)
        return runs.finetune(text_set, seed)

    def taught(self, text_set, seed):
        """Returns the cell of `finetune` if `self_training` answers the rest of the training file for it."""
        more = {
            "config.task.unlabelled_source": text_set.source(self.data_dir, "train"),
            "config.task.options.teachers": (str(self._self_trained(text_set, seed) / "preset"),),
        }
        return self._cell(text_set, self._trained("convnlp.finetune", text_set, seed, "taught", more))

    def tflite(self, text_set, seed):
        """Returns the cell of the fine-tuned model exported by `export.tflite`, with int8 weights."""
        run = self._trained("convnlp.finetune", text_set, seed)
        file = run / "model.tflite"
        if not file.exists():
            tflite_files.export(str(run / "preset"), str(file))
        model = tasks.load(str(run / "preset"))
        token_ids, _ = comparison.examples(model, Source(text_set.source(self.data_dir, "test")), Fields())
        outputs = comparison.outputs(tflite_files.runner(file.read_bytes()), token_ids)
        answers = np.argmax(outputs, axis=1).tolist()
        return {"predictions": answers, "megabytes": file.stat().st_size / 1e6}

    def _cell(self, text_set, run):
        results = json.loads((run / "results.json").read_text())
        return {
            "predictions": classes(run / "preset", text_set.source(self.data_dir, "test")),
            "validation": results["validation"]["accuracy"],
            "seconds": results["seconds"],
        }

    def _self_trained(self, text_set, seed):
        more = {"config.task.unlabelled_source": text_set.source(self.data_dir, "train")}
        return self._trained("convnlp.fit_head", text_set, seed, "self_training", more)

    def _trained(self, program, text_set, seed, name=None, more=None):
        """Returns the directory of a run with more fields, which is made first if it is missing."""
        run = self.workdir / f"{text_set.name}_{name or program.rpartition('.')[2]}_{seed}"
        fields = training_fields(text_set, seed, self.data_dir) | (more or {})
        if text_set.after:
            first = self._trained("convnlp.finetune", SETS[text_set.after], "0")
            fields["config.init_from"] = first / "preset"
        elif self.init_from:
            fields["config.init_from"] = self.init_from
        run_once(program, run, fields, run / "results.json")
        shutil.rmtree(run / "checkpoints", ignore_errors=True)  # larger than all else, and not needed again
        return run


def training_fields(text_set, seed, data_dir):
    """Returns the flags of a run: the set and the seed."""
    fields = {
        "config.seed": seed,
        "config.data.source": text_set.source(data_dir, "train"),
        "config.data.split": text_set.split,
        "config.task.label_names": tuple(str(label) for label in range(text_set.classes)),
    }
    if text_set.has_validation:
        fields |= {
            "config.data.validation_source": text_set.source(data_dir, "valid"),
            "config.data.validation_split": "train",
        }
    return fields


def classes(preset, source, split="train"):
    """Returns the class that a preset gives to each text of a split of a source, a list of int."""
    model, source = tasks.load(str(preset)), Source(source, split)
    task = tasks.task_of(model).from_model(model, source, Fields())
    return np.argmax(outputs_of(model, task.read(source)), axis=1).tolist()
