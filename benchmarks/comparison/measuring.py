"""The cell of kind "measure": parameters, multiply-adds, speed and memory of a classifier."""

import numpy as np
import tensorflow as tf

from benchmarks import processes
from benchmarks.comparison.configs import STEPS_PER_CALL, finetune_config, set_steps
from benchmarks.timing import interleaved
from convnlp.models import TextClassifier
from convnlp.runs import components, experiment
from convnlp.tasks.classification import classification_loss
from convnlp.training import graphs, optimizers

REPEATS = 5  # undisturbed samples per speed


def measured(plan, cell, workdir):
    """Measures a model on rows without pads.

    This must be the first thing that the process does, so that its memory is the model's.
    """
    model = Model(plan, cell.settings, cell.directory(workdir))
    timings = interleaved(model.calls, REPEATS)
    result = model.speeds(timings)
    return {**result, "memory_bytes": processes.resident("VmHWM") - model.memory_before}


class Model:
    """A classifier with random weights, to be timed on rows without pads.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        settings: dict, of a cell of kind "measure".
        directory: pathlib.Path, where it may write.
    """

    def __init__(self, plan, settings, directory):
        config = finetune_config(plan, settings["mixer"], plan.data, plan.learning_rates[0])
        set_steps(config, STEPS_PER_CALL, evaluations=1)
        strategy = experiment.prepare(config, directory)
        self.memory_before = processes.resident("VmRSS")
        vocabulary_size = components.tokenizer(config).vocabulary_size()
        self._backbone = components.backbone(
            config, vocabulary_size, components.dtype_policy(config, strategy)
        )
        self._classifier = TextClassifier(self._backbone, num_classes=max(2, len(plan.data.label_names)))
        optimizer = optimizers.build(config.optimizer, STEPS_PER_CALL)
        optimizers.build_slots(optimizer, self._classifier.trainable_variables)
        loss_fn = classification_loss(self._classifier)
        clip_norm = config.optimizer.clip_norm
        train = graphs.training_steps(strategy, self._classifier, optimizer, loss_fn, clip_norm, seed=0)

        self._shape = shape = [settings["batch_size"], settings["length"]]
        ids = np.random.default_rng(0).integers(3, vocabulary_size - 100, shape).astype("int32")
        inputs = {"token_ids": tf.constant(ids), "padding_mask": tf.ones(shape, tf.bool)}
        batch = {**inputs, "label": tf.zeros(shape[:1], tf.int32), "weight": tf.ones(shape[:1])}
        batches = {name: tf.expand_dims(value, 0) for name, value in batch.items()}  # one step per call
        forward = tf.function(lambda: self._classifier(inputs), autograph=False)
        self.calls = {"train": lambda: train(batches, 0), "predict": lambda: forward().numpy()}

    def speeds(self, timings):
        """Returns the measurements.

        Args:
            timings: dict, name of each of the `calls` -> `benchmarks.timing.Timing`.

        Returns:
            dict: "parameters"; "multiply_adds" of a text; speeds in tokens per second; and "busy", whether
            other programs disturbed all samples of a speed, which is then too low.
        """
        batch_size, length = self._shape
        return {
            "parameters": self._classifier.count_params(),
            "multiply_adds": self._backbone.cost(length)["multiply_adds"],
            "step_seconds": timings["train"].median,
            "train_tokens_per_second": batch_size * length / timings["train"].median,
            "predict_tokens_per_second": batch_size * length / timings["predict"].median,
            "train_cpu_seconds": timings["train"].cpu_seconds,
            "busy": any(len(timing.samples) > REPEATS for timing in timings.values()),  # all disturbed
            "dtype": self._backbone.dtype_policy.name,
        }
