r"""Goes all the way from a CSV to a served model, with the commands that a user would type.

    convnlp demo --workdir=runs/demo

The texts are questions to a bank, and the label, one of 77 classes, says what the customer wants
(`convnlp.example`). The demo measures what TF-IDF and logistic regression reach, fine-tunes the preset that
ships with convnlp, shows which words an answer rests on, exports the model, serves it over REST, asks it with
plain text, and converts it to TFLite. It prints each command before running it, and a table at the end.
"""

import json
import pathlib
import shlex

from absl import flags

from convnlp import outputs
from convnlp.programs import run
from convnlp.tour import Tour, free_port

_WORKDIR = flags.DEFINE_string("workdir", "runs/demo", "Directory for everything that the demo writes.")
_TEXTS = (
    "I was charged twice for the same coffee this morning.",
    "My new card still isn't here, what now?",
)


def whole_way(tour, workdir):
    """Data -> baseline -> fine-tuning -> explanation -> export -> server -> TFLite.

    Args:
        tour: `Tour` that runs the commands.
        workdir: pathlib.Path, where they write.
    """
    here = shlex.quote(str(workdir))
    tour.run(
        "write the example's CSV",
        f"python -m convnlp example-data --output={here}/data",
        lambda lines: f"{lines[0].split()[-2]} texts to train on, {lines[1].split()[-2]} to test",
        f"{workdir}/data",
    )
    tour.run(
        "TF-IDF + logistic regression",
        f"python -m convnlp baseline --source=csv:{here}/data/train.csv"
        f" --test_source=csv:{here}/data/test.csv --output={here}/baseline.json",
        lambda _: _accuracy(_read(workdir / "baseline.json")["scores"]),
        f"{workdir}/baseline.json",
    )
    tour.run(
        "fine-tune the preset",
        f"python -m convnlp finetune --config.data.source=csv:{here}/data/train.csv"
        f" --config.data.test_source=csv:{here}/data/test.csv --config.task.num_epochs=1"
        f" --config.task.options.fit_head_first=True --workdir={here}/finetuned",
        lambda _: _accuracy(_read(workdir / "finetuned/results.json")["test"]),
        f"{workdir}/finetuned/report.html",
    )
    preset = f"--preset={here}/finetuned/preset"
    tour.run(
        "say which words mattered",
        f"python -m convnlp explain {preset} --text={shlex.quote(_TEXTS[0])}",
        lambda lines: _strongest(json.loads(lines[-1])),
    )
    tour.run(
        "export for serving",
        f"python -m convnlp export {preset} --output={here}/models/banking",
        lambda lines: next(line for line in lines if line.startswith("largest difference")),
        f"{workdir}/models/banking",
    )
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = f"python -m convnlp serve --rest_api_port={port} --model_name=banking"
    with tour.served(
        "banking", f"{server} --model_base_path={here}/models/banking", url, workdir / "server.log"
    ):
        for text in _TEXTS:
            tour.run(
                "ask over REST",
                f"python -m convnlp ask --url={url} --model=banking --text={shlex.quote(text)}",
                lambda lines, text=text: f"{json.loads(lines[-1])['label']} <- {text[:40]}...",
            )
    tour.run(
        "convert to TFLite",
        f"python -m convnlp export-tflite {preset} --output={here}/banking.tflite",
        lambda lines: f"{lines[-3].partition('  ')[2]}; {lines[-1]}",
        f"{workdir}/banking.tflite",
    )


def _strongest(answer):
    words = sorted(answer["words"], key=lambda word: -word[1])[:3]
    return f"{answer['label']}: {', '.join(word for word, _ in words)}"


def _accuracy(scores):
    return f"accuracy {scores['accuracy']:.3f} on {scores['num_examples']:,.0f} test questions"


def _read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def main(_):
    """Takes the tour and prints its table."""
    outputs.check_folder("workdir", _WORKDIR.value)
    workdir = pathlib.Path(_WORKDIR.value)
    workdir.mkdir(parents=True, exist_ok=True)
    tour = Tour()
    whole_way(tour, workdir)
    print(f"\n{tour.table()}")


if __name__ == "__main__":
    run(main)
