"""Training steps of an encoder alone, as in configs/pretrain_encoder.py: tokens per second for each mixer.

    python -m benchmarks.pretraining.encoder_step --json=FILE

The input is full rows of random tokens, masked as in training. The model, the optimizer and the step are
those of `convnlp.pretrain`, in the dtype that it would use on this machine. The share of the ceiling is the
rate of floating-point operations divided by that of one large matrix product in the same dtype, timed in
turns. It counts two operations per multiply-add, and the backward pass as twice the forward pass. To see
where the time goes, use `python -m benchmarks.profile --work=pretraining`.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from benchmarks import machine, program, timing
from benchmarks.rows import Row
from benchmarks.small_models import ATTENTION, SEED
from convnlp.configs import pretrain_encoder
from convnlp.objectives import build_objectives, masked_lm, pretraining_loss
from convnlp.objectives.objective import Seeds
from convnlp.runs import components
from convnlp.training import graphs, optimizers
from convnlp.training import strategy as strategy_lib


@dataclasses.dataclass
class Settings:
    """What is measured.

    Args:
        mixers: tuple of str, the mixers to compare with self_attention.
        batch_sizes: tuple of int, rows per step.
        vocabulary_size: int.
        repeats: int, samples of each step.
        changes: dict, changed fields of the config.
    """

    mixers: tuple = ("lightweight_conv", "dynamic_conv")
    batch_sizes: tuple = (32, 128)
    vocabulary_size: int = 12_000
    repeats: int = 5
    changes: dict = dataclasses.field(default_factory=dict)


class Vocabulary:
    """The part of a tokenizer that masking needs.

    Args:
        size: int.
    """

    end_token_id = 1

    def __init__(self, size):
        self._size = size
        self.sentinel_token_ids = range(size - 100, size)

    def vocabulary_size(self):
        return self._size


def rows(settings):
    """Yields the rows with tokens per second and with shares of the ceiling."""
    mixers = list(dict.fromkeys([*settings.mixers, ATTENTION]))
    for batch_size in settings.batch_sizes:
        steps, operations = {}, {}
        for mixer in mixers:
            steps[mixer], backbone, dtype = step(mixer, batch_size, settings)
            config = config_of(mixer, settings)
            operations[mixer] = batch_size * row_operations(backbone, config.data.input_length)
        product = "bfloat16" if dtype == "mixed_bfloat16" else "float32"
        steps["matmul"], product_operations = machine.matmul(product)
        timings = timing.interleaved(steps, settings.repeats)
        ceiling = product_operations / timings["matmul"].median
        tokens = batch_size * config.data.input_length
        for mixer in mixers:
            setting = {
                "mixer": mixer,
                "dtype": product,
                "batch_size": batch_size,
                "length": config.data.input_length,
                "vocabulary_size": settings.vocabulary_size,
                "seed": SEED,
            }
            peer = None if mixer == ATTENTION else timings[ATTENTION]
            yield program.compare(
                "pre-training step of an encoder" + (" vs own attention" if peer else ""),
                setting,
                timings[mixer],
                peer,
                "tokens/s",
                tokens,
            )
            share = operations[mixer] / timings[mixer].median / ceiling
            name = "pre-training step of an encoder, share of the matmul ceiling"
            yield Row(name, setting, share, None, "of the ceiling", "higher")


def config_of(mixer, settings):
    """Returns the config of pre-training, with the changes of the settings."""
    config = pretrain_encoder.get_config(mixer)
    config.update_from_flattened_dict(settings.changes)
    return config


def row_operations(backbone, length):
    """Returns the floating-point operations of a step per row, including the logits of masked positions.

    A multiply-add counts as two operations, and the backward pass as twice the forward pass.
    """
    logits = masked_lm.num_predictions(length) * backbone.hidden_dim * backbone.vocabulary_size
    return 3 * 2 * (backbone.cost(length, 0)["multiply_adds"] + logits)


def step(mixer, batch_size, settings):
    """Makes a training step.

    Args:
        mixer: str.
        batch_size: int, rows.
        settings: `Settings`.

    Returns:
        (function without arguments that makes a step and waits for its metrics, the backbone, its dtype).
    """
    config = config_of(mixer, settings)
    strategy = strategy_lib.build("one_device")
    length, size = config.data.input_length, settings.vocabulary_size
    objectives = build_objectives(config.objective.names, length)
    with strategy.scope():
        dtype = components.dtype_policy(config, strategy)
        backbone = components.backbone(config, size, dtype)
        optimizer = optimizers.build(config.optimizer, config.train.num_steps)
        optimizers.build_slots(optimizer, backbone.trainable_variables)
    loss_fn = pretraining_loss(backbone, objectives)
    steps = graphs.training_steps(strategy, backbone, optimizer, loss_fn, config.optimizer.clip_norm, SEED)
    vocabulary = Vocabulary(size)
    tokens = np.random.default_rng(SEED).integers(3, size - 100, [batch_size, length], "int32")
    seed = tf.constant([SEED, 0], tf.int64)
    batch = objectives[0].examples(tf.constant(tokens), Seeds(seed, seed), vocabulary)
    batches = {name: tf.expand_dims(value, 0) for name, value in batch.items()}
    return lambda: steps(strategy_lib.split(strategy, batches), 0), backbone, dtype


if __name__ == "__main__":
    program.run(rows, full=Settings(), short=Settings(batch_sizes=(32,), repeats=2))
