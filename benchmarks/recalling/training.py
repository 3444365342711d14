"""Trains a small encoder with random initial weights on rows of symbols, and measures its accuracy."""

import math

import keras
import numpy as np
import tensorflow as tf

from benchmarks.recalling import data
from benchmarks.recalling.model import Reader
from convnlp.training.schedules import Schedule

CHECKS = 12  # how often training checks whether it may end early
SOLVED = 0.995  # of the validation answers; more steps would show nothing
NUM_VALIDATION, NUM_TEST = 256, 1024  # rows
_ROWS_AT_ONCE = 32  # in an evaluation


def train(settings):
    """Trains one model from random weights.

    Args:
        settings: dict, see `benchmarks.recalling.cells.Plan.settings`.

    Returns:
        dict: "accuracy" on fresh rows; "validation_accuracy" and "validation_loss", None if the loss was
        not finite; "steps_made"; "reach" of the model, see `Reader.reach`.
    """
    keras.backend.clear_session()
    keras.utils.set_random_seed(settings["seed"])
    task, distance = data.TASKS[settings["task"]], settings["distance"]
    random = {part: data.stream(part, settings["seed"]) for part in data.PARTS}
    held_out = task(distance, NUM_VALIDATION, random["validation"])
    length = held_out.ids.shape[1]
    reader = Reader(settings["mixer"], settings["layers"], settings["causal"], distance, length)
    asked, batch, steps = tf.constant(held_out.positions), settings["batch_size"], settings["steps"]
    variables = reader.trainable_variables
    warmup, decay = steps // 20, steps // 5  # flat in between: leaving a plateau takes steps at the full rate
    schedule = Schedule("warmup_flat_linear", settings["learning_rate"], steps, warmup, decay)
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.0)
    optimizer.build(variables)

    @tf.function(autograph=False)
    def step(ids, answers):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(answers, reader(ids, asked))
            loss = tf.reduce_mean(losses)
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), 1.0)
        optimizer.apply(gradients, variables)

    predict = tf.function(lambda ids: reader(ids, asked), autograph=False)
    every = max(1, steps // CHECKS)
    for done in range(1, steps + 1):
        rows = task(distance, batch, random["train"])
        step(tf.constant(rows.ids), tf.constant(rows.answers))
        if done % every == 0 or done == steps:
            accuracy, loss = evaluate(predict, held_out)
            if accuracy >= SOLVED or not math.isfinite(loss):
                break
    test, _ = evaluate(predict, task(distance, NUM_TEST, random["test"]))
    return {
        "accuracy": round(test, 4),
        "validation_accuracy": round(accuracy, 4),
        "validation_loss": round(loss, 4) if math.isfinite(loss) else None,
        "steps_made": done,
        "reach": reader.reach(),
    }


def evaluate(predict, rows):
    """Returns the share of right answers, and the mean loss in nats.

    Args:
        predict: function of int32 ids [R,n,2] that returns float logits [R,A,V].
        rows: `data.Rows`.

    Returns:
        (float, float).
    """
    right, losses = [], []
    for start in range(0, len(rows.ids), _ROWS_AT_ONCE):
        answers = rows.answers[start : start + _ROWS_AT_ONCE]
        logits = predict(tf.constant(rows.ids[start : start + _ROWS_AT_ONCE]))
        losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(answers, logits).numpy())
        right.append(np.argmax(logits.numpy(), axis=2) == answers)
    return float(np.concatenate(right).mean()), float(np.concatenate(losses).mean())
