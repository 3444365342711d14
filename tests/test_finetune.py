"""`convnlp.finetune` as a user runs it, from random weights and from a preset."""

import json
import re

import keras_nlp
import pytest

import convnlp
from convnlp.finetuning.outcome import LeftOut, Outcome
from tests import corpus
from tests.run_program import run_program

pytestmark = pytest.mark.multiprocess

TINY = (
    "--config.model.num_layers=1",
    "--config.model.hidden_dim=16",
    "--config.model.intermediate_dim=32",
    "--config.model.num_heads=2",
    "--config.model.kernel_size=3,",
    "--config.train.batch_size=8",
    "--config.train.steps_per_call=2",
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("finetune")
    (directory / "spm.model").write_bytes(corpus.tiny_proto())
    rows = corpus.reviews(256)
    corpus.write_jsonl(directory / "reviews.jsonl", rows)
    verdicts = [{"inputs": row["text"], "targets": ("bad", "good")[row["label"]]} for row in rows]
    corpus.write_jsonl(directory / "verdicts.jsonl", verdicts)
    return directory


def run(workdir, config, *flags):
    has_preset = any(flag.startswith("--config.init_from=") for flag in flags)
    tiny = [flag for flag in TINY if not (has_preset and flag.startswith("--config.model."))]
    process = run_program("convnlp.finetune", f"--config={config}", *tiny, *flags, f"--workdir={workdir}")
    assert process.returncode == 0, process.stderr[-2000:]
    return process, json.loads((workdir / "results.json").read_text())


def test_classification_then_again_from_its_preset(directory):
    data = (
        "configs/finetune_classification.py:dynamic_conv",
        f"--config.data.source=jsonl:{directory}/reviews.jsonl",
        f"--config.data.test_source=jsonl:{directory}/reviews.jsonl",
        "--config.data.split=train[25%:]",
        "--config.data.validation_split=train[:25%]",
        "--config.data.input_length=40",
        "--config.optimizer.learning_rate=0.02",
    )
    scratch = directory / "scratch"
    process, results = run(
        scratch, *data, "--config.task.num_epochs=8", f"--config.tokenizer={directory}/spm.model"
    )
    assert results["validation"]["num_examples"] == 64
    assert results["test"]["num_examples"] == 256
    assert process.stderr.index("steps of training on this machine") < process.stderr.index("step 2 of")
    assert results["estimated_seconds"] > 0
    assert results["test"]["accuracy"] > 0.8  # one of twelve words decides
    assert results["best_value"] <= results["validation"]["accuracy"] + 1e-6  # n-grams never take from it
    assert results["step"] == 8 * 192 // 8
    kept = json.loads((scratch / "preset" / "experiment.json").read_text())
    assert (kept["train"]["num_steps"], kept["optimizer"]["warmup_steps"]) == (192, 19)
    assert results["tokens"] > 0
    assert results["seconds"] > 0
    assert results["cpu_seconds"] > 0
    assert f"test accuracy: {results['test']['accuracy']:.4f}" in process.stdout
    assert process.stdout.endswith(f"report: {scratch}/report.html\npreset: {scratch}/preset\n")
    classifier = keras_nlp.models.TextClassifier.from_preset(str(scratch / "preset"))
    assert isinstance(classifier, convnlp.models.TextClassifier)
    assert classifier.labels == ["0", "1"]
    assert classifier.backbone.dropout == 0.1
    card = (scratch / "preset" / "README.md").read_text()
    assert re.search(r"test accuracy: [\d.]+ \(95% interval [\d.]+ to [\d.]+, over \d+ examples\)\n", card)
    assert re.search(r"- CPU hours: [\d.e-]+; energy, estimated: [\d.e-]+ kWh", card)

    again, start = directory / "again", f"--config.init_from={scratch}/preset"
    ours = ("--config.data.split=train", "--config.data.validation_split=")
    more = ("--config.task.num_epochs=1", "--config.model.dropout=0.3")
    flags = (*data, *ours, *more, start, "--config.task.options.fit_head_first=True")
    fitted = "fitted the head to 2"  # hundred and some texts; the others are held out
    process, warm = run(again, *flags)
    assert fitted in process.stderr
    process, resumed = run(again, *flags)
    assert "Resuming at step" in process.stderr
    assert fitted not in process.stderr
    assert resumed["validation"] == warm["validation"]
    assert warm["validation"]["accuracy"] > 0.8
    learned = [json.loads((each / "report.json").read_text())["learned"] for each in (scratch, again)]
    assert learned == [False, True]  # a validation split that is given stays unseen
    classifier = keras_nlp.models.TextClassifier.from_preset(str(again / "preset"))
    assert classifier.backbone.dropout == 0.3
    assert f"Started from: {scratch}/preset" in (again / "preset" / "README.md").read_text()


@pytest.mark.slow
def test_text_to_text_with_class_names_in_packed_rows(directory):
    workdir = directory / "text_to_text"
    _, results = run(
        workdir,
        "configs/finetune_cogs.py",
        "--config.model.num_decoder_layers=1",
        f"--config.tokenizer={directory}/spm.model",
        f"--config.data.source=jsonl:{directory}/verdicts.jsonl",
        "--config.data.split=train[25%:]",
        "--config.data.validation_split=train[:25%]",
        "--config.data.input_length=40",
        "--config.data.target_length=8",
        "--config.optimizer.learning_rate=0.02",
        "--config.task.pack=True",
        "--config.task.num_epochs=0",
        "--config.train.num_steps=120",
        "--config.train.eval_every=60",
        "--config.train.checkpoint_every=60",
        "--config.task.label_names=('bad','good')",
    )
    assert set(results["validation"]) >= {"exact_match", "ranked_accuracy"}
    assert "test" not in results
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if "loss" in row]
    assert losses[-1] < 0.3 * losses[0]
    assert isinstance(
        keras_nlp.models.Seq2SeqLM.from_preset(str(workdir / "preset")), convnlp.models.Seq2SeqLM
    )


def test_an_unknown_task_is_one_line(directory):
    process = run_program(
        "convnlp.finetune",
        "--config=configs/finetune_classification.py",
        "--config.task.kind=tagging",
        f"--workdir={directory}/unknown",
    )
    assert process.returncode == 1
    kinds = "classification, multi_label, regression, question_answering, text_to_text, continuation"
    expected = f"error: `task.kind` must be one of {kinds}. Received: 'tagging'"
    assert process.stderr.strip().splitlines()[-1] == expected


class Asked:
    """A task that counts how often its model is asked."""

    count = 0

    def outputs(self, model, examples, batch_size):
        self.count += 1
        return f"{model} on {examples}"

    def scores(self, model, examples, batch_size, outputs):
        return outputs

    def review(self, model, examples, batch_size, outputs, is_own=True):
        return outputs, is_own


def test_a_model_is_asked_once_for_its_scores_and_its_review():
    task = Asked()
    judged = Outcome(task, "final", None, None, {"test": "these"}, {}, {}).judged("test", 4)
    assert (judged.scores(task), judged.review(task)) == ("final on these", ("final on these", True))
    assert task.count == 1


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        (LeftOut("those", model="earlier"), ("earlier on those", True)),
        (LeftOut("those", outputs="the folds' answers"), ("the folds' answers", False)),
    ],
)
def test_what_was_learned_from_is_judged_by_what_had_not_seen_it(left_out, expected):
    task = Asked()
    held_out = {"validation": "these", "test": "others"}
    outcome = Outcome(task, "final", None, None, held_out, {}, {}, left_out)
    assert outcome.judged("validation", 4).review(task) == expected
    assert outcome.judged("test", 4).review(task) == ("final on others", True)
