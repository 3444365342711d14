r"""The tables and plots of docs/first_results.md: does pre-training a convolution help, on real text?

    python -m benchmarks.first_results --data_dir=DATA --workdir=DIR

DATA holds pretrain/*.train.jsonl.gz (with "text"),
classification/{trec6,sst2,ag_news,imdb}.{train,test}.jsonl.gz (with "text" and "label"),
seq2seq/cogs.{train,valid,test,gen}.jsonl.gz. Runs the programs of the library one after another as a user
would, prints each command, skips what is already done and continues what was interrupted; then writes
docs/first_results.json, the plots beside it, and the generated part of docs/first_results.md.
"""

import json
import pathlib
import shlex
import subprocess
import sys
import time

import numpy as np
from absl import app, flags

from benchmarks import first_results_report, tfidf
from benchmarks.run_once import run_once
from convnlp.serving.client import Client
from convnlp.tour import Tour, free_port

# Equal for both starts. Lengths hold nearly all texts of a set; epochs by its size.
CLASSIFICATION = {
    "trec6": {
        "labels": ("abbreviation", "description", "entity", "human", "location", "number"),
        "input_length": 32,
        "num_epochs": 6.0,
        "batch_size": 32,
    },
    "sst2": {"labels": ("negative", "positive"), "input_length": 48, "num_epochs": 5.0, "batch_size": 32},
    "ag_news": {
        "labels": ("world", "sports", "business", "science"),
        "input_length": 64,
        "num_epochs": 3.0,
        "batch_size": 64,
    },
}
VALIDATION_SPLITS = {
    "trec6": ("train[10%:]", "train[:10%]"),
    "sst2": ("train", "valid"),
    "ag_news": ("train", "valid"),
}
# What is changed for SST-2, one at a time.
VARIANTS = {
    "learning rate 2e-4 instead of 5e-4": {"config.optimizer.learning_rate": 2e-4},
    "10 epochs instead of 5": {"config.task.num_epochs": 10.0},
    "1,500 more steps of pre-training, on film reviews": {"config.init_from": "reviews/preset"},
}
# The runs on TREC-6 from the pre-trained preset by `train.dtype`.
PRECISIONS = {"mixed_bfloat16": "pretrained", "float32": "float32"}
# What the served models are asked: texts of no data set.
QUESTIONS = {
    "trec6": ("How far is the moon from the earth ?", "Who painted the ceiling of the Sistine Chapel ?"),
    "sst2": ("a warm , funny and surprisingly honest film .", "two hours of my life that i want back ."),
    "ag_news": (
        "The striker scored twice as the home side won the cup final on penalties.",
        "Shares fell after the chip maker cut its forecast for the fourth quarter.",
    ),
}


def pretrain(data, workdir):
    """Trains the tokenizer and the mini model on all corpora of pretrain/."""
    source = f"jsonl:{data}/pretrain/*.{{split}}.jsonl.gz"
    if not (workdir / "spm.model").exists():
        options = [f"--source={source}", "--vocabulary_size=8000", f"--output={workdir}/spm.model"]
        subprocess.run([sys.executable, "-m", "convnlp.train_tokenizer", *options], check=True)
    run_once(
        "convnlp.pretrain",
        workdir / "pretrained",
        {
            "config": "configs/pretrain_mini.py:dynamic_conv",
            "config.data.source": source,
            "config.data.split": "train",
            "config.data.validation_split": "valid",
            "config.tokenizer": workdir / "spm.model",
        },
        workdir / "pretrained" / "preset",
    )


def finetune(data, workdir, sets, starts, seeds):
    """Each set from the pre-trained preset and from random weights, with equal settings, for each seed."""
    for name in sets:
        for start in starts:
            for seed in seeds:
                _finetune(data, workdir / f"{name}_{start}_{seed}", name, seed, _start(start, workdir))


def variants(data, workdir, seeds):
    """SST-2 from the pre-trained preset with one thing changed at a time: what would make it gain?"""
    for number, changes in enumerate(VARIANTS.values()):
        overrides = {**_start("pretrained", workdir), **changes}
        if "config.init_from" in changes:
            _pretrain_on_reviews(data, workdir)
            overrides["config.init_from"] = workdir / changes["config.init_from"]
        for seed in seeds:
            _finetune(data, workdir / f"sst2_variant{number}_{seed}", "sst2", seed, overrides)


def precision(data, workdir, seeds):
    """TREC-6 once more in float32, and the bfloat16 classifiers asked in float32, as an export computes."""
    test = f"--source=jsonl:{data}/classification/trec6.test.jsonl.gz"
    for seed in seeds:
        overrides = {**_start("pretrained", workdir), "config.train.dtype": "float32"}
        _finetune(data, workdir / f"trec6_float32_{seed}", "trec6", seed, overrides)
        trained = workdir / f"trec6_pretrained_{seed}"
        if not (trained / "in_float32.json").exists():
            options = [f"--preset={trained}/preset", test, f"--output={trained}/in_float32.json"]
            subprocess.run([sys.executable, "-m", "convnlp.evaluate", *options], check=True)


def _pretrain_on_reviews(data, workdir):
    run_once(
        "convnlp.pretrain",
        workdir / "reviews",
        {
            "config": "configs/pretrain_mini.py:dynamic_conv",
            "config.init_from": workdir / "pretrained" / "preset",
            "config.data.source": f"jsonl:{data}/classification/imdb.train.jsonl.gz",
            "config.train.num_steps": 1500,
            "config.optimizer.learning_rate": 5e-4,
            "config.optimizer.decay_steps": 1000,
        },
        workdir / "reviews" / "preset",
    )


def _finetune(data, workdir, name, seed, overrides):
    task = CLASSIFICATION[name]
    source = f"jsonl:{data}/classification/{name}.{{split}}.jsonl.gz"
    split, validation_split = VALIDATION_SPLITS[name]
    run_once(
        "convnlp.finetune",
        workdir,
        {
            "config": "configs/finetune_classification.py",
            "config.seed": seed,
            "config.data.source": source,
            "config.data.split": split,
            "config.data.validation_split": validation_split,
            "config.data.test_source": source,
            "config.data.test_split": "test",
            "config.data.input_length": task["input_length"],
            "config.task.label_names": task["labels"],
            "config.task.num_epochs": task["num_epochs"],
            "config.train.batch_size": task["batch_size"],
            **overrides,
        },
        workdir / "results.json",
    )


def _start(start, workdir):
    if start == "pretrained":
        return {"config.init_from": workdir / "pretrained" / "preset"}
    return {"config.init_from": "", "config.tokenizer": workdir / "spm.model"}


def baseline(data, workdir):
    """TF-IDF with logistic regression on each set, trained on all of its training examples."""
    path = workdir / "tfidf.json"
    if not path.exists():
        sources = {name: f"jsonl:{data}/classification/{name}" for name in CLASSIFICATION}
        scores = {
            name: tfidf.accuracy(
                f"{s}.train.jsonl.gz", f"{s}.test.jsonl.gz", len(CLASSIFICATION[name]["labels"])
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
    run_once(
        "convnlp.finetune",
        workdir / "cogs",
        {
            "config": "configs/finetune_cogs.py",
            "config.tokenizer": workdir / "cogs.model",
            "config.data.source": source,
            "config.data.test_source": source,
        },
        workdir / "cogs" / "results.json",
    )
    if not (workdir / "cogs" / "gen.json").exists():
        options = [f"--preset={workdir}/cogs/preset", f"--source={source}", "--split=gen"]
        fields = ["--text_fields=inputs", "--target_field=targets", f"--output={workdir}/cogs/gen.json"]
        subprocess.run([sys.executable, "-m", "convnlp.evaluate", *options, *fields], check=True)


def serve(workdir, sets):
    """Exports a pre-trained classifier of each set for servers and devices, serves it, asks it."""
    answers = {}
    for name in sets:
        tour, here = Tour(), shlex.quote(str(workdir))
        preset, port = f"{here}/{name}_pretrained_0/preset", free_port()
        url = f"http://127.0.0.1:{port}"
        if not (workdir / "models" / name / "1").exists():
            tour.run(
                "export", f"python -m export.saved_model --preset={preset} --output={here}/models/{name}"
            )
        server = (
            f"python -m serving.server --rest_api_port={port} --model_name={name}"
            f" --model_base_path={here}/models/{name}"
        )
        with tour.served(name, server, url, workdir / "server.log"):
            client, answers[name] = Client(url), []
            for text in QUESTIONS[name]:
                started = time.perf_counter()
                (prediction,) = client.predict(name, [text])
                seconds = time.perf_counter() - started
                answers[name].append({"text": text, "seconds": seconds, **prediction})
        tour.run("convert", f"python -m export.tflite --preset={preset} --output={here}/{name}.tflite")
    (workdir / "served.json").write_text(json.dumps(answers, indent=2), encoding="utf-8")


def collect(workdir, seeds):
    """What the runs that are finished gave, as one dict for the page."""
    metrics = (workdir / "pretrained" / "metrics.jsonl").read_text(encoding="utf-8")
    results = {
        "pretraining": [json.loads(line) for line in metrics.splitlines()],
        "baseline": _json(workdir / "tfidf.json"),
        "classification": {},
    }
    for name in CLASSIFICATION:
        starts = {start: _runs(workdir, f"{name}_{start}", seeds) for start in ("pretrained", "scratch")}
        if all(starts.values()):
            results["classification"][name] = starts
    results["variants"] = _variants(workdir, seeds)
    results["precision"] = _precision(workdir, seeds)
    if (workdir / "cogs" / "results.json").exists():
        results["cogs"] = _json(workdir / "cogs" / "results.json")
    if (workdir / "cogs" / "gen.json").exists():
        results["cogs"]["gen"] = _json(workdir / "cogs" / "gen.json")["scores"]
    if (workdir / "served.json").exists():
        results["served"] = _json(workdir / "served.json")
    return results


def _variants(workdir, seeds):
    """Accuracies on SST-2 as above and by what is changed, over the seeds for which all are finished."""
    names = {"as above": "sst2_pretrained"}
    names |= {what: f"sst2_variant{number}" for number, what in enumerate(VARIANTS)}
    finished = [seed for seed in seeds if all(_runs(workdir, name, [seed]) for name in names.values())]
    return {what: _runs(workdir, name, finished) for what, name in names.items()} if finished else {}


def _precision(workdir, seeds):
    """Accuracies on TREC-6 by the type of training and that of asking; {} unless all runs are finished."""
    runs = {dtype: _runs(workdir, f"trec6_{name}", seeds) for dtype, name in PRECISIONS.items()}
    exported = [workdir / f"trec6_pretrained_{seed}" / "in_float32.json" for seed in seeds]
    if not (all(runs.values()) and all(path.exists() for path in exported)):
        return {}
    asked = [_json(path)["scores"]["accuracy"] for path in exported]
    return {**runs, "mixed_bfloat16, asked in float32": _summary(asked)}


def _runs(workdir, name, seeds):
    """Test accuracies of all seeds of the runs of that name; None unless all are finished."""
    paths = [workdir / f"{name}_{seed}" / "results.json" for seed in seeds]
    if not all(path.exists() for path in paths):
        return None
    runs = [_json(path) for path in paths]
    accuracies = [run["test"]["accuracy"] for run in runs]
    return {
        **_summary(accuracies),
        "cpu_seconds": float(np.mean([run["cpu_seconds"] for run in runs])),
        "num_examples": runs[0]["test"]["num_examples"],
    }


def _summary(accuracies):
    return {
        "accuracies": accuracies,
        "mean": float(np.mean(accuracies)),
        "std": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else 0.0,
    }


def _json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("data_dir", None, "Directory of the data.", required=True)
    flags.DEFINE_string("workdir", None, "Directory for everything that is trained.", required=True)
    flags.DEFINE_string("docs_dir", "docs", "Directory for the page, its plots and its figures.")
    flags.DEFINE_list(
        "stages",
        ["pretrain", "finetune", "variants", "precision", "baseline", "cogs", "serve", "report"],
        "What to do.",
    )
    flags.DEFINE_list("sets", ["trec6", "sst2", "ag_news"], "What to fine-tune on.")
    flags.DEFINE_list("starts", ["scratch", "pretrained"], "From what to fine-tune; scratch needs no preset.")
    flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds of each fine-tuning.")


def main(_):
    """Runs the stages asked for, in order."""
    args = flags.FLAGS
    data, workdir = args.data_dir, pathlib.Path(args.workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    stages = {
        "pretrain": lambda: pretrain(data, workdir),
        "finetune": lambda: finetune(data, workdir, args.sets, args.starts, args.seeds),
        "variants": lambda: variants(data, workdir, args.seeds),
        "precision": lambda: precision(data, workdir, args.seeds),
        "baseline": lambda: baseline(data, workdir),
        "cogs": lambda: cogs(data, workdir),
        "serve": lambda: serve(workdir, args.sets),
        "report": lambda: first_results_report.write(
            collect(workdir, args.seeds), pathlib.Path(args.docs_dir)
        ),
    }
    for name in args.stages:
        if name not in stages:
            raise app.UsageError(f"`--stages` must be of {', '.join(stages)}. Received: {name}")
        stages[name]()


if __name__ == "__main__":
    define_flags()
    app.run(main)
