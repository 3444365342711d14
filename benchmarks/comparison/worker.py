"""Computes the cells of one mixer, one after the other, in one process.

    python -m benchmarks.comparison.worker PLAN DIR MIXER KIND[,KIND...] [MODULE...]

`benchmarks.compare` starts it: PLAN is what `Plan.write` has written, MIXER one of its rows, KINDs are of
`plan.KINDS`, MODULEs register mixers.
"""

import fcntl
import gc
import json
import pathlib
import shutil
import sys

import keras
import numpy as np
import tensorflow as tf

from benchmarks import memory
from benchmarks.comparison.plan import KINDS, Plan, steps_of, training_flops
from benchmarks.comparison.variants import Variant
from benchmarks.timing import interleaved
from convnlp import experiment, finetune, pretrain, programs
from convnlp.configs import finetune_classification, pretrain_mini
from convnlp.data import Source
from convnlp.models import SIZES, TextClassifier
from convnlp.tasks import Classification, Fields
from convnlp.tasks.classification import classification_loss
from convnlp.training import loop, optimizers, storage

EVALUATIONS = 10  # points of a learning curve
STEPS_PER_CALL = 10
REPEATS = 5  # quiet samples of a speed
MASKED_SHARE = 0.15  # of the tokens, predicted over the whole vocabulary in pre-training


def compute(plan, workdir, mixer, kinds=KINDS):
    """Computes what is missing of a mixer's cells in this process; waits for cells that another computes."""
    for cell in plan.cells(mixer):
        if cell.kind not in kinds or cell.result(workdir) is not None:
            continue
        directory = cell.directory(workdir)
        directory.mkdir(parents=True, exist_ok=True)
        with open(directory / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed, if only by the end of the process
            if cell.result(workdir) is None:
                _compute_cell(plan, cell, workdir)


def _compute_cell(plan, cell, workdir):
    directory = cell.directory(workdir)
    storage.write_json(directory / "settings.json", cell.settings)
    print(f"{cell.name}", flush=True)
    result = COMPUTE[cell.kind](plan, cell, workdir)
    storage.write_json(directory / "result.json", result)
    for rest in ("checkpoints", "tensorboard", *(["preset"] if cell.kind == "finetune" else [])):
        shutil.rmtree(directory / rest, ignore_errors=True)
    keras.backend.clear_session()
    gc.collect()


def pretrain_config(plan, mixer):
    """`configs/pretrain_mini.py` for the encoder alone, which every mixer can be."""
    config = pretrain_mini.get_config(Variant.parse(mixer).mixer)
    config.seed = 0
    config.tokenizer = plan.tokenizer
    _set_model(config.model, plan, mixer)
    config.objective.names = ("masked_lm",)
    config.data.source = plan.pretrain_source
    if "{split}" in plan.pretrain_source:
        config.data.split, config.data.validation_split = "train", "valid"
    config.data.input_length = plan.data.length
    config.optimizer.learning_rate = plan.pretrain_learning_rate
    config.train.batch_size = plan.batch_size
    config.train.num_samples = 0
    return config


def finetune_config(plan, mixer, seed=0, preset=""):
    """`configs/finetune_classification.py` with the model of `pretrain_config`."""
    name = Variant.parse(mixer).mixer
    config, data = finetune_classification.get_config(name), plan.data
    config.seed = seed
    config.init_from = preset
    config.tokenizer = plan.tokenizer
    skeleton = pretrain_mini.get_config(name).model
    config.model.kernel_size, config.model.dilation_rate = skeleton.kernel_size, skeleton.dilation_rate
    _set_model(config.model, plan, mixer, with_options=not preset)  # a preset has its own
    for name in ("source", "split", "validation_split", "test_source", "test_split"):
        config.data[name] = getattr(data, name)
    config.data.input_length = data.length
    config.task.label_names = data.label_names
    config.task.text_field, config.task.label_field = data.text_field, data.label_field
    config.task.num_epochs = 0.0
    config.task.options.ngram_buckets = 0  # the mixer is the only variable
    config.optimizer.learning_rate = plan.learning_rate
    config.train.batch_size = plan.batch_size
    return config


def _set_model(model, plan, mixer, with_options=True):
    """Sets size and mixer, and takes the kernel sizes of the middle layers where there are fewer layers."""
    model.size = plan.size
    variant = Variant.parse(mixer)
    model.mixer = variant.mixer.replace("+", ",")
    if with_options:
        model.mixer_options.update(variant.options)
    model.num_decoder_layers = 0
    model.max_sequence_length = plan.data.length
    num_layers = SIZES[plan.size]["num_layers"]
    for name in ("kernel_size", "dilation_rate"):
        if len(model[name]) > 1:
            first = (len(model[name]) - num_layers) // 2
            model[name] = model[name][first : first + num_layers]


def _set_steps(config, num_steps):
    every = max(1, num_steps // EVALUATIONS // STEPS_PER_CALL) * STEPS_PER_CALL
    config.train.num_steps = num_steps
    config.train.steps_per_call = STEPS_PER_CALL
    config.train.eval_every = config.train.checkpoint_every = every
    config.train.keep_checkpoints = 1


def _num_steps(plan, cell, workdir, multiply_adds):
    cost = {"steps": 1, "flops": training_flops(multiply_adds, plan.batch_size)}
    if plan.budget == "seconds":
        cost["seconds"] = plan.cells(cell.settings["mixer"])[0].result(workdir)["step_seconds"]
    return steps_of(plan.budget, cell.settings["amount"], cost, STEPS_PER_CALL)


def _measured(plan, cell, workdir):
    """Parameters, multiply-adds, speed and memory of the classifier, on rows without pads.

    The first thing that the process does, so that its memory is the model's.
    """
    config = finetune_config(plan, cell.settings["mixer"])
    _set_steps(config, STEPS_PER_CALL)
    strategy = experiment.prepare(config, cell.directory(workdir))
    before = memory.resident("VmRSS")
    vocabulary_size = experiment.tokenizer(config).vocabulary_size()
    backbone = experiment.backbone(config, vocabulary_size, experiment.dtype_policy(config, strategy))
    classifier = TextClassifier(backbone, num_classes=max(2, len(plan.data.label_names)))
    optimizer = optimizers.build(config.optimizer, STEPS_PER_CALL)
    optimizers.build_slots(optimizer, classifier.trainable_variables)
    loss_fn = classification_loss(classifier)
    train = loop.training_steps(strategy, classifier, optimizer, loss_fn, config.optimizer.clip_norm, seed=0)

    shape = [plan.batch_size, plan.data.length]
    ids = np.random.default_rng(0).integers(3, vocabulary_size - 100, shape).astype("int32")
    inputs = {"token_ids": tf.constant(ids), "padding_mask": tf.ones(shape, tf.bool)}
    batch = {**inputs, "label": tf.zeros(shape[:1], tf.int32), "weight": tf.ones(shape[:1])}
    batches = {name: tf.expand_dims(value, 0) for name, value in batch.items()}  # a call of one step
    forward = tf.function(lambda: classifier(inputs), autograph=False)
    calls = {"train": lambda: train(batches, 0), "predict": lambda: forward().numpy()}
    timings = interleaved(calls, REPEATS)
    tokens = plan.batch_size * plan.data.length
    cost = backbone.cost(plan.data.length)
    return {
        "parameters": classifier.count_params(),
        "multiply_adds": cost["multiply_adds"],
        "step_seconds": timings["train"].median,
        "train_tokens_per_second": tokens / timings["train"].median,
        "predict_tokens_per_second": tokens / timings["predict"].median,
        "train_cpu_seconds": timings["train"].cpu_seconds,
        "busy": any(len(timing.samples) > REPEATS for timing in timings.values()),  # no sample was quiet
        "memory_bytes": memory.resident("VmHWM") - before,
        "dtype": backbone.dtype_policy.name,
    }


def _pretrained(plan, cell, workdir):
    """The encoder by masked-LM: its preset, and the held-out loss."""
    directory, mixer = cell.directory(workdir), cell.settings["mixer"]
    config = pretrain_config(plan, mixer)
    backbone = experiment.backbone(config, experiment.tokenizer(config).vocabulary_size(), "float32")
    length, table = plan.data.length, backbone.vocabulary_size * backbone.hidden_dim
    multiply_adds = backbone.cost(length)["multiply_adds"] + round(MASKED_SHARE * length) * table
    num_steps = _num_steps(plan, cell, workdir, multiply_adds)
    _set_steps(config, num_steps)
    config.optimizer.warmup_steps = max(1, num_steps // 20)
    config.optimizer.decay_steps = num_steps * 2 // 5
    pretrain.run(config, directory, experiment.prepare(config, directory))
    return {"steps": num_steps, "curve": curve(directory, "valid/loss")}


def _finetuned(plan, cell, workdir):
    """The classifier's scores, its learning curve, and which test texts it got right."""
    directory, settings = cell.directory(workdir), cell.settings
    preset = ""
    if settings["start"] == "pretrained":
        preset = str(pathlib.Path(workdir) / "cells" / settings["preset"] / "preset")
    config = finetune_config(plan, settings["mixer"], settings["seed"], preset)
    cost = plan.cells(settings["mixer"])[0].result(workdir)
    num_steps = _num_steps(plan, cell, workdir, cost["multiply_adds"])
    _set_steps(config, num_steps)
    strategy = experiment.prepare(config, directory, open_fields=finetune.open_fields(config))
    finetune.run(config, directory, strategy)
    results = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    lengths, hits = by_text(plan, str(directory / "preset"), cost["dtype"])
    return {
        "steps": num_steps,
        "cpu_seconds": results["cpu_seconds"],
        "accuracy": results["test"]["accuracy"],
        "validation_accuracy": results["validation"]["accuracy"],
        "curve": curve(directory, "valid/accuracy"),
        "lengths": lengths,
        "hits": hits,
    }


def curve(directory, name):
    """The points [step, value] of a metric in a run's metrics.jsonl."""
    rows = map(json.loads, (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [[row["step"], row[name]] for row in rows if name in row]


def by_text(plan, preset, dtype):
    """Per test text its number of tokens, and whether the classifier is right: two lists of ints."""
    classifier = TextClassifier.from_preset(preset, dtype=dtype)
    data = plan.data
    source = Source(data.test_source, data.test_split)
    task = Classification.from_model(classifier, source, Fields((data.text_field,), data.label_field))
    batches = task.batches(task.read(source), plan.batch_size)
    predict = tf.function(classifier, autograph=False)
    lengths, hits = [], []
    for batch in batches:
        logits = predict({name: batch[name] for name in ("token_ids", "padding_mask")}).numpy()
        real = batch["weight"].numpy() > 0
        lengths += batch["padding_mask"].numpy().sum(1)[real].tolist()
        hits += (logits.argmax(1) == batch["label"].numpy())[real].astype(int).tolist()
    return lengths, hits


COMPUTE = {"measure": _measured, "pretrain": _pretrained, "finetune": _finetuned}


def main(plan_path, workdir, mixer, kinds, *modules):
    """Imports the modules and computes what is missing."""
    programs.import_modules(modules)
    compute(Plan.read(plan_path), workdir, mixer, kinds.split(","))


if __name__ == "__main__":
    main(*sys.argv[1:])
