"""The cells that train: short runs to choose a rate by, pre-trainings, fine-tunings with their scores."""

import json
import math

import tensorflow as tf

from benchmarks.comparison import cells
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
from convnlp import experiment, finetune, pretrain
from convnlp.data import Source
from convnlp.models import TextClassifier
from convnlp.tasks import Classification, Fields
from convnlp.training.finite import NonFiniteError

PRETRAIN_EVALUATIONS, FINETUNE_EVALUATIONS = 20, 10  # points of a learning curve


def pretrain_trial(plan, cell, workdir):
    """The held-out loss of a short pre-training, as a score: higher is better, None where it diverged."""
    return _trial(cell, lambda: _pretrain(plan, cell, workdir, cell.settings["learning_rate"], evaluations=1))


def pretrained(plan, cell, workdir):
    """The encoder by masked LM: its preset, and the held-out loss."""
    rate = _rate(cell, workdir)
    result = _pretrain(plan, cell, workdir, rate, PRETRAIN_EVALUATIONS)
    return {**result, "learning_rate": rate}


def _pretrain(plan, cell, workdir, rate, evaluations):
    directory, settings = cell.directory(workdir), cell.settings
    config = pretrain_config(plan, settings["mixer"], rate)
    backbone = experiment.backbone(config, experiment.tokenizer(config).vocabulary_size(), "float32")
    length, table = settings["length"], backbone.vocabulary_size * backbone.hidden_dim
    multiply_adds = backbone.cost(length)["multiply_adds"] + round(MASKED_SHARE * length) * table
    num_steps = _num_steps(cell, workdir, length, multiply_adds)
    set_steps(config, num_steps, evaluations)
    set_warmup(config)
    pretrain.run(config, directory, experiment.prepare(config, directory))
    points = curve(directory, "valid/loss")
    return {
        "steps": num_steps,
        "tokens": num_steps * settings["batch_size"] * length,
        "multiply_adds": multiply_adds,
        "curve": points,
        "score": -points[-1][1],
    }


def finetune_trial(plan, cell, workdir):
    """The validation accuracy of a fine-tuning; the test data are not read."""
    return _trial(
        cell,
        lambda: {"score": _finetune(plan, cell, workdir, cell.settings["learning_rate"])["best_value"]},
    )


def finetuned(plan, cell, workdir):
    """The classifier's scores, its learning curve, and which test texts it got right."""
    rate, directory = _rate(cell, workdir), cell.directory(workdir)
    results = _finetune(plan, cell, workdir, rate)
    return {
        "learning_rate": rate,
        "steps": results["step"],
        "tokens": results["tokens"],
        "accuracy": results["test"]["accuracy"],
        "validation_accuracy": results["validation"]["accuracy"],
        "curve": curve(directory, "valid/accuracy"),
        **by_text(plan, str(directory / "preset"), results["dtype"]),
    }


def _finetune(plan, cell, workdir, rate):
    """Runs `convnlp.finetune`; returns its results, and in which number type they are."""
    directory, settings = cell.directory(workdir), cell.settings
    is_trial = cell.kind == "finetune_trial"
    data = (plan.trial_data or plan.data) if is_trial else plan.data
    preset = ""
    if settings["start"] == "pretrained":
        preset = str(cells.preset_of(settings["preset"], workdir))
    config = finetune_config(plan, settings["mixer"], data, rate, settings["seed"], preset)
    if is_trial:
        config.data.test_source = ""
    multiply_adds = None
    if settings["budget"] == "flops":
        vocabulary_size = experiment.tokenizer(config).vocabulary_size()
        backbone = experiment.backbone(config, vocabulary_size, "float32")
        multiply_adds = backbone.cost(data.length)["multiply_adds"]
    num_steps = _num_steps(cell, workdir, data.length, multiply_adds)
    set_steps(config, num_steps, FINETUNE_EVALUATIONS)
    strategy = experiment.prepare(config, directory, open_fields=finetune.open_fields(config))
    finetune.run(config, directory, strategy)
    results = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    return {**results, "dtype": experiment.dtype_policy(config, strategy)}


def _num_steps(cell, workdir, length, multiply_adds):
    settings = cell.settings
    cost = {"steps": 1, "tokens": settings["batch_size"] * length}
    if multiply_adds is not None:
        cost["flops"] = training_flops(multiply_adds, settings["batch_size"])
    if settings["budget"] == "seconds":
        cost["seconds"] = cells.result_of(settings["measure"], workdir)["step_seconds"]
    return steps_of(settings["budget"], settings["amount"], cost, STEPS_PER_CALL)


def _rate(cell, workdir):
    """The learning rate of a cell: its own, or that of the best of its trials."""
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
    """The points [step, value] of a metric in a run's metrics.jsonl."""
    rows = map(json.loads, (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [[row["step"], row[name]] for row in rows if name in row]


def by_text(plan, preset, dtype):
    """What a classifier is, and what it says of the test texts.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        preset: str.
        dtype: str, the number type that it is asked in.

    Returns:
        dict: "parameters", "multiply_adds" of a text of full length, "lengths" and "hits", lists of ints: a
        text's number of tokens, and whether the classifier is right.
    """
    data = plan.data
    classifier = TextClassifier.from_preset(preset, dtype=dtype)
    source = Source(plan.path(data.test_source), data.test_split)
    texts = tuple(filter(None, (data.text_field, data.second_text_field)))
    task = Classification.from_model(classifier, source, Fields(texts, data.label_field))
    batches = task.batches(task.read(source), plan.batch_size)
    predict = tf.function(classifier, autograph=False)
    lengths, hits = [], []
    for batch in batches:
        logits = predict({name: batch[name] for name in ("token_ids", "padding_mask")}).numpy()
        real = batch["weight"].numpy() > 0
        lengths += batch["padding_mask"].numpy().sum(1)[real].tolist()
        hits += (logits.argmax(1) == batch["label"].numpy())[real].astype(int).tolist()
    return {
        "parameters": classifier.count_params(),
        "multiply_adds": classifier.backbone.cost(data.length)["multiply_adds"],
        "lengths": lengths,
        "hits": hits,
    }
