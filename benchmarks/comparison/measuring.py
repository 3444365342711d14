"""The cell of kind "measure": parameters, multiply-adds, speed and memory of a classifier."""

import numpy as np
import tensorflow as tf

from benchmarks import memory
from benchmarks.comparison.configs import STEPS_PER_CALL, finetune_config, set_steps
from benchmarks.timing import interleaved
from convnlp import experiment
from convnlp.models import TextClassifier
from convnlp.tasks.classification import classification_loss
from convnlp.training import graphs, optimizers

REPEATS = 5  # quiet samples of a speed


def measured(plan, cell, workdir):
    """On rows without pads, as the first thing that the process does, so that its memory is the model's."""
    config = finetune_config(plan, cell.settings["mixer"], plan.data, plan.learning_rates[0])
    set_steps(config, STEPS_PER_CALL, evaluations=1)
    strategy = experiment.prepare(config, cell.directory(workdir))
    before = memory.resident("VmRSS")
    vocabulary_size = experiment.tokenizer(config).vocabulary_size()
    backbone = experiment.backbone(config, vocabulary_size, experiment.dtype_policy(config, strategy))
    classifier = TextClassifier(backbone, num_classes=max(2, len(plan.data.label_names)))
    optimizer = optimizers.build(config.optimizer, STEPS_PER_CALL)
    optimizers.build_slots(optimizer, classifier.trainable_variables)
    loss_fn = classification_loss(classifier)
    clip_norm = config.optimizer.clip_norm
    train = graphs.training_steps(strategy, classifier, optimizer, loss_fn, clip_norm, seed=0)

    shape = [cell.settings["batch_size"], cell.settings["length"]]
    ids = np.random.default_rng(0).integers(3, vocabulary_size - 100, shape).astype("int32")
    inputs = {"token_ids": tf.constant(ids), "padding_mask": tf.ones(shape, tf.bool)}
    batch = {**inputs, "label": tf.zeros(shape[:1], tf.int32), "weight": tf.ones(shape[:1])}
    batches = {name: tf.expand_dims(value, 0) for name, value in batch.items()}  # a call of one step
    forward = tf.function(lambda: classifier(inputs), autograph=False)
    calls = {"train": lambda: train(batches, 0), "predict": lambda: forward().numpy()}
    timings = interleaved(calls, REPEATS)
    tokens = shape[0] * shape[1]
    return {
        "parameters": classifier.count_params(),
        "multiply_adds": backbone.cost(cell.settings["length"])["multiply_adds"],
        "step_seconds": timings["train"].median,
        "train_tokens_per_second": tokens / timings["train"].median,
        "predict_tokens_per_second": tokens / timings["predict"].median,
        "train_cpu_seconds": timings["train"].cpu_seconds,
        "busy": any(len(timing.samples) > REPEATS for timing in timings.values()),  # no sample was quiet
        "memory_bytes": memory.resident("VmHWM") - before,
        "dtype": backbone.dtype_policy.name,
    }
