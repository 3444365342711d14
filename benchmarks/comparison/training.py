"""The cells that train: short runs to choose a rate, pre-trainings, and fine-tunings with their scores."""

import json
import math

from benchmarks.comparison import cells, hits
from benchmarks.comparison.configs import (
    MASKED_SHARE,
    STEPS_PER_CALL,
    finetune_config,
    pretrain_config,
    set_steps,
    set_warmup,
)
from benchmarks.comparison.plan import steps_of, training_flops
from benchmarks.comparison.rates import best_rate
from benchmarks.comparison.variants import Variant
from convnlp import finetune, pretrain
from convnlp.finetuning import steps
from convnlp.objectives import span_corruption
from convnlp.runs import components, experiment
from convnlp.tasks import TASKS
from convnlp.training.finite import NonFiniteError

PRETRAIN_EVALUATIONS, FINETUNE_EVALUATIONS = 20, 10  # points of a learning curve


def pretrain_trial(plan, cell, workdir):
    """Returns the score of a short pre-training: its negative held-out loss, or None if it diverged."""
    return _trial(cell, lambda: _pretrain(plan, cell, workdir, cell.settings["learning_rate"], evaluations=1))


def pretrained(plan, cell, workdir):
    """Trains the encoder, writes its preset, and returns the held-out loss of its objective."""
    rate = _rate(cell, workdir)
    result = _pretrain(plan, cell, workdir, rate, PRETRAIN_EVALUATIONS)
    return {**result, "learning_rate": rate}


def _pretrain(plan, cell, workdir, rate, evaluations):
    directory, settings = cell.directory(workdir), cell.settings
    config = pretrain_config(plan, settings["mixer"], rate)
    backbone = components.backbone(config, components.tokenizer(config).vocabulary_size(), "float32")
    length = settings["length"]
    if Variant.parse(settings["mixer"]).objective == "span_corruption":
        row_length, num_predicted = span_corruption.lengths(length)
        cost = backbone.cost(length, num_predicted)
    else:
        row_length, num_predicted = length, round(MASKED_SHARE * length)
        cost = backbone.cost(length)
    multiply_adds = cost["multiply_adds"] + num_predicted * backbone.vocabulary_size * backbone.hidden_dim
    num_steps = _num_steps(cell, workdir, row_length, multiply_adds)
    set_steps(config, num_steps, evaluations)
    set_warmup(config)
    names = pretrain.open_fields(config)
    strategy = experiment.prepare(config, directory, open_fields=names)
    pretrain.run(config, directory, strategy)
    points = curve(directory, "valid/loss")
    return {
        "steps": num_steps,
        "tokens": num_steps * settings["batch_size"] * row_length,
        "multiply_adds": multiply_adds,
        "dtype": components.dtype_policy(config, strategy),
        "curve": points,
        "score": -points[-1][1],
    }


def finetune_trial(plan, cell, workdir):
    """Returns as a score what the best step of a fine-tuning is chosen by; the test data are not read."""

    def run():
        results = _finetune(plan, cell, workdir, cell.settings["learning_rate"])
        _, best = TASKS[(plan.trial_data or plan.data).kind].best
        return {"score": results["best_value"] * (1 if best == "max" else -1)}

    return _trial(cell, run)


def finetuned(plan, cell, workdir):
    """Returns the model's scores, its learning curve, and which test examples it got right.

    "accuracy" is the share of these, by exact match if the answer is a text; for questions there is also
    "f1".
    """
    rate, directory = _rate(cell, workdir), cell.directory(workdir)
    results = _finetune(plan, cell, workdir, rate)
    kind = plan.data.task_kind
    return {
        "learning_rate": rate,
        "steps": results["step"],
        "tokens": results["tokens"],
        "dtype": results["dtype"],
        **{score: results["test"][metric] for score, metric in kind.metrics.items()},
        "validation_accuracy": results["validation"][kind.metrics["accuracy"]],
        "curve": curve(directory, f"valid/{kind.curve}"),
        **hits.of_preset(plan, str(directory / "preset"), results["dtype"]),
    }


def _finetune(plan, cell, workdir, rate):
    """Runs `convnlp.finetune`; returns its results, with the number type of the model as "dtype"."""
    directory, settings = cell.directory(workdir), cell.settings
    is_trial = cell.kind == "finetune_trial"
    data = (plan.trial_data or plan.data) if is_trial else plan.data
    preset = ""
    if settings["start"] == "pretrained":
        preset = str(cells.preset_of(settings["preset"], workdir))
    config = finetune_config(plan, settings["mixer"], data, rate, settings["seed"], preset)
    config.train.batch_size = settings["batch_size"]
    if is_trial:
        config.data.test_source = ""
    multiply_adds = None
    if settings["budget"] == "flops":
        vocabulary_size = components.tokenizer(config).vocabulary_size()
        backbone = components.backbone(config, vocabulary_size, "float32")
        multiply_adds = backbone.cost(data.length, data.target_length)["multiply_adds"]
    num_steps = _num_steps(cell, workdir, data.length + data.target_length, multiply_adds)
    set_steps(config, num_steps, FINETUNE_EVALUATIONS)
    strategy = experiment.prepare(config, directory, open_fields=steps.open_fields(config))
    finetune.run(config, directory, strategy)
    results = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    return {**results, "dtype": components.dtype_policy(config, strategy)}


def _num_steps(cell, workdir, length, multiply_adds):
    settings = cell.settings
    cost = {"steps": 1, "tokens": settings["batch_size"] * length}
    if multiply_adds is not None:
        cost["flops"] = training_flops(multiply_adds, settings["batch_size"])
    if settings["budget"] == "seconds":
        cost["seconds"] = cells.result_of(settings["measure"], workdir)["step_seconds"]
    return steps_of(settings["budget"], settings["amount"], cost, STEPS_PER_CALL)


def _rate(cell, workdir):
    """Returns the learning rate of a cell: its own, or that of the best of its trials."""
    if "learning_rate" in cell.settings:
        return cell.settings["learning_rate"]
    return best_rate([cells.result_of(name, workdir) for name in cell.settings["trials"]])


def _trial(cell, run):
    try:
        result = run()
    except NonFiniteError:
        result = {"score": None}
    if result["score"] is not None and not math.isfinite(result["score"]):
        result["score"] = None
    return {"learning_rate": cell.settings["learning_rate"], **result}


def curve(directory, name):
    """Returns the points [step, value] of a metric in a run's metrics.jsonl."""
    rows = map(json.loads, (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [[row["step"], row[name]] for row in rows if name in row]
