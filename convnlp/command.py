"""The command `convnlp NAME ...`, also `python -m convnlp NAME ...`: every program by name, from anywhere."""

import difflib
import importlib
import os
import runpy
import sys

import convnlp
from convnlp import startup

# What people want to do: {name: (module, what it does)}.
PROGRAMS = {
    "Try it": {
        "demo": ("convnlp.demo", "the whole way on a small example: train, fine-tune, export, serve"),
    },
    "Prepare data": {
        "example-data": ("convnlp.example_data", "a CSV with labelled texts, to try the programs on"),
        "train-tokenizer": ("convnlp.train_tokenizer", "make a vocabulary from text"),
        "prepare-corpus": (
            "convnlp.prepare_corpus",
            "take bad and repeated documents out of a corpus, on Apache Beam",
        ),
        "prepare-tokens": ("convnlp.prepare_tokens", "tokenize text once, for text larger than memory"),
        "prepare-tfds": ("convnlp.prepare_tfds", "write a data set of TensorFlow Datasets to disk"),
    },
    "Train": {
        "baseline": (
            "convnlp.baseline",
            "what TF-IDF and logistic regression reach on your texts",
        ),
        "finetune": ("convnlp.finetune", "train on your labelled texts, from a preset or from nothing"),
        "fit-head": ("convnlp.fit_head", "fit a classifier to a frozen preset, in seconds"),
        "pretrain": ("convnlp.pretrain", "train a language model on plain text"),
        "launch": ("convnlp.launch", "finetune or pretrain on several workers, through failures"),
    },
    "Ask a trained model": {
        "predict": ("convnlp.predict", "label texts: given ones, files, or the standard input"),
        "explain": ("convnlp.explain", "label texts, and say which words that rests on"),
        "embed": ("convnlp.embed", "a vector for each text"),
        "evaluate": ("convnlp.evaluate", "score a preset on a data set"),
        "generate": ("convnlp.generate", "write text, or answer text with text"),
        "batch-predict": ("convnlp.batch_predict", "predict whole files and data sets, on Apache Beam"),
    },
    "Export": {
        "export": ("convnlp.export.saved_model", "a SavedModel for TensorFlow Serving"),
        "verify": ("convnlp.export.verify", "prove what a server needs of a SavedModel"),
        "export-tflite": ("convnlp.export.tflite", "one TFLite file for a device"),
        "tflite-report": ("convnlp.export.tflite_report", "compare the forms of TFLite: size, speed, scores"),
        "operations": ("convnlp.export.operations", "count what an exported model is made of"),
        "run-tflite": ("convnlp.export.run_tflite", "ask a TFLite file, without TensorFlow"),
        "pack-preset": ("convnlp.pack_preset", "make a preset smaller, to hand it on"),
    },
    "Serve": {
        "serve-preset": ("convnlp.serve_preset", "export a preset and serve it, in one go"),
        "serve": ("convnlp.serving.server", "serve SavedModels over REST and gRPC"),
        "ask": ("convnlp.serving.client", "ask a server for predictions"),
    },
}
OTHER_NAMES = {"saved-model": "export", "tflite": "export-tflite", "server": "serve", "client": "ask"}


def modules():
    """{name: module}."""
    return {name: module for group in PROGRAMS.values() for name, (module, _) in group.items()}


def main():
    """Runs the program that the first argument names, as `python -m MODULE` would."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("--help", "-h", "--helpfull", "help"):
        print(overview())
        return
    if name == "--version":
        print(f"convnlp {convnlp.__version__}")
        return
    module = find(name)
    if module is None:
        print(f"error: {unknown(name)}", file=sys.stderr)
        sys.exit(1)
    if os.getcwd() not in sys.path and "" not in sys.path and not sys.flags.safe_path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does: modules of --modules may be here
    if not module.startswith("convnlp.serving"):  # which handles its signals and messages itself
        startup.begin()
    if module.count(".") == 1 and module not in startup.LIGHT:
        importlib.import_module("convnlp.models")  # as importing convnlp does
    del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def find(name):
    """The module of a program; None for an unknown name. Underscores count as hyphens."""
    name = name.replace("_", "-")
    return modules().get(OTHER_NAMES.get(name, name))


def unknown(name):
    """One line on a name that there is no program of."""
    near = difflib.get_close_matches(name.replace("_", "-"), [*modules(), *OTHER_NAMES], n=1)
    return f"unknown program {name!r}; " + (f"did you mean {near[0]}?" if near else "see convnlp --help")


def overview():
    """What `convnlp --help` prints."""
    lines = ["usage: convnlp NAME [--help] [--flag=value ...]"]
    for heading, group in PROGRAMS.items():
        lines += ["", f"{heading}:", *(f"  {name:17}{text}" for name, (_, text) in group.items())]
    return "\n".join([*lines, "", "convnlp NAME --help shows the flags of a program; convnlp --version"])
