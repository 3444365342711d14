r"""The whole way, from raw text to a served model, by the commands that a user would type.

    python -m convnlp.demo --workdir=runs/demo

Trains a tokenizer and pre-trains a tiny dynamic-convolution model on `pydocs`, fine-tunes it (and the same
model from random weights) to tell which package a docstring belongs to, evaluates both on docstrings that
neither has seen, exports, serves over REST, asks with plain text, and converts to TFLite. It prints each
command before running it, and a table at the end. The models are far too small to be good: this shows the
way, and docs/first_results.md shows results.
"""

import json
import pathlib
import shlex
import sys

from absl import app, flags

from convnlp.configs.demo_finetune import SOURCE, TEST_SPLIT
from convnlp.tour import Tour, free_port

_WORKDIR = flags.DEFINE_string("workdir", "runs/demo", "Directory for everything that the demo writes.")
_TEXTS = (
    "Return a new array with the same shape and type as a given array, filled with zeros.",
    "2D convolution layer, e.g. spatial convolution over images.",
)


def whole_way(tour, workdir):
    """Tokenizer -> pre-training -> fine-tuning, twice -> evaluation -> export -> server -> TFLite.

    Args:
        tour: `Tour`. Runs the commands.
        workdir: pathlib.Path. Where they write.
    """
    here = shlex.quote(str(workdir))
    tour.run(
        "train a tokenizer",
        "python -m convnlp train-tokenizer --source=pydocs --sample_bytes=5000000"
        f" --vocabulary_size=4000 --output={here}/spm.model",
        path=f"{workdir}/spm.model",
    )
    tour.run(
        "pre-train on raw text",
        "python -m convnlp pretrain --config=demo_pretrain"
        f" --config.tokenizer={here}/spm.model --workdir={here}/pretrained",
        lambda _: _last_evaluation(workdir / "pretrained"),
        f"{workdir}/pretrained/preset",
    )
    starts = {
        "finetuned": f"--config.init_from={here}/pretrained/preset",
        "from_scratch": f"--config.tokenizer={here}/spm.model",
    }
    for run, start in starts.items():
        tour.run(
            f"fine-tune ({run})",
            f"python -m convnlp finetune --config=demo_finetune {start} --workdir={here}/{run}",
            lambda _, run=run: f"validation {_accuracy(_read(workdir / run / 'results.json')['validation'])}",
            f"{workdir}/{run}/preset",
        )
    for run in starts:
        tour.run(
            f"evaluate ({run})",
            f"python -m convnlp evaluate --preset={here}/{run}/preset --source={SOURCE}"
            f" --split={shlex.quote(TEST_SPLIT)} --output={here}/{run}/scores.json",
            lambda _, run=run: f"test {_accuracy(_read(workdir / run / 'scores.json')['scores'])}",
            f"{workdir}/{run}/scores.json",
        )
    tour.run(
        "export for serving",
        f"python -m convnlp export --preset={here}/finetuned/preset --output={here}/models/packages",
        lambda lines: next(line for line in lines if line.startswith("largest difference")),
        f"{workdir}/models/packages",
    )
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = f"python -m convnlp serve --rest_api_port={port} --model_name=packages"
    with tour.served(
        "packages", f"{server} --model_base_path={here}/models/packages", url, workdir / "server.log"
    ):
        for text in _TEXTS:
            tour.run(
                "ask over REST",
                f"python -m convnlp ask --url={url} --model=packages --text={shlex.quote(text)}",
                lambda lines, text=text: f"{json.loads(lines[-1])['label']} <- {text[:40]}...",
            )
    tour.run(
        "convert to TFLite",
        f"python -m convnlp export-tflite --preset={here}/finetuned/preset --output={here}/packages.tflite",
        lambda lines: f"{lines[-3].partition('  ')[2]}; {lines[-1]}",
        f"{workdir}/packages.tflite",
    )


def _last_evaluation(run):
    with open(run / "metrics.jsonl", encoding="utf-8") as file:
        last = [row for row in map(json.loads, file) if "valid/loss" in row][-1]
    loss, use = last["valid/loss"], last["valid/encoder_use"]
    return f"step {last['step']}, loss {loss:.2f}, encoder use {use:.3f} nats"


def _accuracy(scores):
    return f"accuracy {scores['accuracy']:.3f} on {scores['num_examples']:.0f} docstrings"


def _read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def main(_):
    """Takes the tour and prints its table."""
    workdir = pathlib.Path(_WORKDIR.value)
    tour = Tour()
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        whole_way(tour, workdir)
    except OSError as error:  # ChildProcessError is one
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"\n{tour.table()}")
    return 0


if __name__ == "__main__":
    app.run(main)
