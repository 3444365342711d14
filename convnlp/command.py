"""The command `convnlp NAME ...`, also `python -m convnlp NAME ...`: any program by name, from anywhere."""

import difflib
import importlib
import os
import runpy
import signal
import sys

import convnlp
from convnlp import startup

# What people want to do: {name: (module, what it does)}.
PROGRAMS = {
    "Try it": {
        "demo": ("convnlp.demo", "walk through a small example: train, fine-tune, export, serve"),
    },
    "Prepare data": {
        "example-data": ("convnlp.example_data", "write a CSV of labelled texts to try the programs on"),
        "train-tokenizer": ("convnlp.train_tokenizer", "make a vocabulary from text"),
        "prepare-corpus": (
            "convnlp.prepare_corpus",
            "remove bad and repeated documents from a corpus, on Apache Beam",
        ),
        "prepare-tokens": ("convnlp.prepare_tokens", "tokenize text once, for text larger than memory"),
        "prepare-tfds": ("convnlp.prepare_tfds", "write any source as a data set of TensorFlow Datasets"),
    },
    "Train": {
        "baseline": (
            "convnlp.baseline",
            "measure what TF-IDF and logistic regression reach on your texts",
        ),
        "finetune": ("convnlp.finetune", "train on your labelled texts, from a preset or from scratch"),
        "fit-head": ("convnlp.fit_head", "fit a classifier to a frozen preset, in a minute or two"),
        "pretrain": ("convnlp.pretrain", "train a language model on plain text"),
        "launch": ("convnlp.launch", "finetune or pretrain on several workers, through failures"),
    },
    "Ask a trained model": {
        "predict": ("convnlp.predict", "label texts from the command line, files or standard input"),
        "explain": ("convnlp.explain", "label texts, and show which words the labels rest on"),
        "embed": ("convnlp.embed", "turn each text into a vector"),
        "evaluate": ("convnlp.evaluate", "score a preset on a data set"),
        "generate": ("convnlp.generate", "write text, or answer text with text"),
        "batch-predict": ("convnlp.batch_predict", "predict whole files and data sets, on Apache Beam"),
    },
    "Export": {
        "export": ("convnlp.export.saved_model", "make a SavedModel for TensorFlow Serving"),
        "verify": ("convnlp.export.verify", "check that a SavedModel does what a server needs"),
        "export-tflite": ("convnlp.export.tflite", "make a single TFLite file for a device"),
        "tflite-report": ("convnlp.export.tflite_report", "compare the modes of TFLite: size, speed, scores"),
        "operations": ("convnlp.export.operations", "count what an exported model is made of"),
        "run-tflite": ("convnlp.export.run_tflite", "ask a TFLite file, without TensorFlow"),
        "pack-preset": ("convnlp.pack_preset", "make a preset smaller, to pass it on"),
    },
    "Serve": {
        "serve-preset": ("convnlp.serve_preset", "export a preset and serve it in one step"),
        "serve": ("convnlp.serving.server", "serve SavedModels over REST and gRPC"),
        "ask": ("convnlp.serving.client", "ask a server for predictions"),
    },
}
OTHER_NAMES = {"saved-model": "export", "tflite": "export-tflite", "server": "serve", "client": "ask"}


def modules():
    """Returns {name: module} for all programs."""
    return {name: module for group in PROGRAMS.values() for name, (module, _) in group.items()}


def main():
    """Runs the program that the first argument names, as `python -m MODULE` would."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("--help", "-h", "--helpfull", "help"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads may have seen enough
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
        sys.path.insert(0, os.getcwd())  # as `python -m` does: --modules may name modules here
    if not module.startswith("convnlp.serving"):  # the server handles its own signals and messages
        startup.begin()
    if module.count(".") == 1 and module not in startup.LIGHT:
        importlib.import_module("convnlp.models")  # as importing convnlp does
    del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def find(name):
    """Returns the module of a program, or None for an unknown name. Underscores count as hyphens."""
    name = name.replace("_", "-")
    return modules().get(OTHER_NAMES.get(name, name))


def unknown(name):
    """Returns one line that says there is no program of this name."""
    near = difflib.get_close_matches(name.replace("_", "-"), [*modules(), *OTHER_NAMES], n=1)
    return f"unknown program {name!r}; " + (f"did you mean {near[0]}?" if near else "see convnlp --help")


def overview():
    """Returns what `convnlp --help` prints."""
    lines = ["usage: convnlp NAME [--help] [--flag=value ...]"]
    for heading, group in PROGRAMS.items():
        lines += ["", f"{heading}:", *(f"  {name:17}{text}" for name, (_, text) in group.items())]
    return "\n".join([*lines, "", "convnlp NAME --help shows the flags of a program; convnlp --version"])
