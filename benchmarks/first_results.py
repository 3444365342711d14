r"""The tables and plots of docs/first_results.md: does pre-training a convolution help, on real text?

    python -m benchmarks.first_results --data_dir=DATA --workdir=DIR

DATA holds pretrain/*.train.jsonl.gz (with "text") and
classification/{trec6,sst2,ag_news}.{train,test}.jsonl.gz (with "text" and "label"),
seq2seq/cogs.{train,valid,test,gen}.jsonl.gz. Runs the programs of the library one after another as a user
would, prints each command, skips what is already done and continues what was interrupted; then writes
docs/first_results.json, the plots beside it, and the generated part of docs/first_results.md.
"""

import json
import pathlib
import shlex
import subprocess
import sys

import numpy as np
from absl import app, flags

from benchmarks import first_results_report, tfidf

_DATA_DIR = flags.DEFINE_string("data_dir", None, "Directory of the data.", required=True)
_WORKDIR = flags.DEFINE_string("workdir", None, "Directory for everything that is trained.", required=True)
_DOCS_DIR = flags.DEFINE_string("docs_dir", "docs", "Directory for the page, its plots and its figures.")
_STAGES = flags.DEFINE_list("stages", ["pretrain", "finetune", "baseline", "cogs", "report"], "What to do.")
_SETS = flags.DEFINE_list("sets", ["trec6", "sst2", "ag_news"], "What to fine-tune on.")
_STARTS = flags.DEFINE_list(
    "starts", ["scratch", "pretrained"], "From what to fine-tune; scratch needs no preset."
)
_SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds of each fine-tuning.")

# Equal for both starts. Lengths hold nearly all texts of a set; epochs by its size.
CLASSIFICATION = {
    "trec6": {"num_classes": 6, "input_length": 32, "num_epochs": 6.0, "batch_size": 32},
    "sst2": {"num_classes": 2, "input_length": 48, "num_epochs": 5.0, "batch_size": 32},
    "ag_news": {"num_classes": 4, "input_length": 64, "num_epochs": 2.0, "batch_size": 64},
}
VALIDATION_SPLITS = {
    "trec6": ("train[10%:]", "train[:10%]"),
    "sst2": ("train", "valid"),
    "ag_news": ("train", "valid"),
}


def run(module, workdir, **config):
    """Runs `python -m module` with --workdir and config overrides, unless its last file is there already."""
    done = workdir / ("results.json" if module == "convnlp.finetune" else "preset")
    options = [f"--{name}={value}" for name, value in config.items()]
    command = [sys.executable, "-m", module, *options, f"--workdir={workdir}"]
    print("$", shlex.join(["python", *command[1:]]), flush=True)
    if not done.exists():
        workdir.mkdir(parents=True, exist_ok=True)
        with open(workdir / "log.txt", "ab") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log)


def pretrain(data, workdir):
    """Trains the tokenizer and the mini model on all corpora of pretrain/."""
    source = f"jsonl:{data}/pretrain/*.{{split}}.jsonl.gz"
    if not (workdir / "spm.model").exists():
        options = [f"--source={source}", "--vocabulary_size=8000", f"--output={workdir}/spm.model"]
        subprocess.run([sys.executable, "-m", "convnlp.train_tokenizer", *options], check=True)
    run(
        "convnlp.pretrain",
        workdir / "pretrained",
        **{
            "config": "configs/pretrain_mini.py:dynamic_conv",
            "config.data.source": source,
            "config.data.split": "train",
            "config.data.validation_split": "valid",
            "config.tokenizer": workdir / "spm.model",
        },
    )


def finetune(data, workdir, sets, starts, seeds):
    """Each set from the pre-trained preset and from random weights, with equal settings, for each seed."""
    for name in sets:
        task = CLASSIFICATION[name]
        source = f"jsonl:{data}/classification/{name}.{{split}}.jsonl.gz"
        split, validation_split = VALIDATION_SPLITS[name]
        for start in starts:
            for seed in seeds:
                run(
                    "convnlp.finetune",
                    workdir / f"{name}_{start}_{seed}",
                    **{
                        "config": "configs/finetune_classification.py",
                        **_start(start, workdir),
                        "config.seed": seed,
                        "config.data.source": source,
                        "config.data.split": split,
                        "config.data.validation_split": validation_split,
                        "config.data.test_source": source,
                        "config.data.test_split": "test",
                        "config.data.input_length": task["input_length"],
                        "config.task.num_epochs": task["num_epochs"],
                        "config.train.batch_size": task["batch_size"],
                    },
                )


def _start(start, workdir):
    if start == "pretrained":
        return {"config.init_from": workdir / "pretrained" / "preset"}
    return {"config.tokenizer": workdir / "spm.model"}


def baseline(data, workdir):
    """TF-IDF with logistic regression on each set, trained on all of its training examples."""
    path = workdir / "tfidf.json"
    if not path.exists():
        sources = {name: f"jsonl:{data}/classification/{name}" for name in CLASSIFICATION}
        scores = {
            name: tfidf.accuracy(
                f"{s}.train.jsonl.gz", f"{s}.test.jsonl.gz", CLASSIFICATION[name]["num_classes"]
            )
            for name, s in sources.items()
        }
        path.write_text(json.dumps(scores, indent=2), encoding="utf-8")


def cogs(data, workdir):
    """COGS from random weights: exact match of greedy decoding on the test and generalisation splits."""
    source = f"jsonl:{data}/seq2seq/cogs.{{split}}.jsonl.gz"
    if not (workdir / "cogs.model").exists():
        options = ["--fields=inputs,targets", "--vocabulary_size=800", "--character_coverage=1"]
        files = [f"--source={source}", f"--output={workdir}/cogs.model"]
        subprocess.run([sys.executable, "-m", "convnlp.train_tokenizer", *options, *files], check=True)
    run(
        "convnlp.finetune",
        workdir / "cogs",
        **{
            "config": "configs/finetune_cogs.py",
            "config.tokenizer": workdir / "cogs.model",
            "config.data.source": source,
            "config.data.test_source": source,
        },
    )
    if not (workdir / "cogs" / "gen.json").exists():
        options = [f"--preset={workdir}/cogs/preset", f"--source={source}", "--split=gen"]
        fields = ["--text_fields=inputs", "--target_field=targets", f"--output={workdir}/cogs/gen.json"]
        subprocess.run([sys.executable, "-m", "convnlp.evaluate", *options, *fields], check=True)


def collect(workdir, seeds):
    """What the runs that are finished gave, as one dict for the page."""
    metrics = (workdir / "pretrained" / "metrics.jsonl").read_text(encoding="utf-8")
    results = {
        "pretraining": [json.loads(line) for line in metrics.splitlines()],
        "baseline": _json(workdir / "tfidf.json"),
        "classification": {},
    }
    for name in CLASSIFICATION:
        starts = {start: _runs(workdir, name, start, seeds) for start in ("pretrained", "scratch")}
        if all(starts.values()):
            results["classification"][name] = starts
    if (workdir / "cogs" / "gen.json").exists():
        results["cogs"] = _json(workdir / "cogs" / "results.json")
        results["cogs"]["gen"] = _json(workdir / "cogs" / "gen.json")["scores"]
    return results


def _runs(workdir, name, start, seeds):
    """Test accuracies of all seeds of one set and start; None unless all are finished."""
    paths = [workdir / f"{name}_{start}_{seed}" / "results.json" for seed in seeds]
    if not all(path.exists() for path in paths):
        return None
    runs = [_json(path) for path in paths]
    accuracies = [run["test"]["accuracy"] for run in runs]
    return {
        "accuracies": accuracies,
        "mean": float(np.mean(accuracies)),
        "std": float(np.std(accuracies, ddof=1)) if len(runs) > 1 else 0.0,
        "cpu_seconds": float(np.mean([run["cpu_seconds"] for run in runs])),
        "num_examples": runs[0]["test"]["num_examples"],
    }


def _json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def main(_):
    """Runs the stages asked for, in order."""
    data, workdir = _DATA_DIR.value, pathlib.Path(_WORKDIR.value)
    workdir.mkdir(parents=True, exist_ok=True)
    stages = {
        "pretrain": lambda: pretrain(data, workdir),
        "finetune": lambda: finetune(data, workdir, _SETS.value, _STARTS.value, _SEEDS.value),
        "baseline": lambda: baseline(data, workdir),
        "cogs": lambda: cogs(data, workdir),
        "report": lambda: first_results_report.write(
            collect(workdir, _SEEDS.value), pathlib.Path(_DOCS_DIR.value)
        ),
    }
    for name in _STAGES.value:
        if name not in stages:
            raise app.UsageError(f"--stages must be of {', '.join(stages)}; received {name}")
        stages[name]()


if __name__ == "__main__":
    app.run(main)
