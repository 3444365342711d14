"""Estimates the time and memory of a run, before its first step, from its work and a probe of the machine.

The constants below come from training steps of sizes mini and small on two CPU cores, with rows of 16 to 512
tokens in bfloat16 and float32, and from whole fine-tunings. The formula was within a third of what was
measured.
"""

import math
import os
import pathlib
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from convnlp import product_speed
from convnlp.data import batching
from convnlp.runs import stages
from convnlp.training import progress
from convnlp.training import strategy as strategy_lib

# Time of a training step, relative to its products at full speed: those of the forward pass, and twice as
# many of the backward pass through what is trained.
_TIMES_PRODUCTS = 1.2
_SECONDS_PER_STEP = 0.045  # for its many small operations
_SECONDS_PER_PARAMETER = 1e-9  # clipping, optimizer
_PADS = 1.25  # ratio of positions, pads included, to tokens in batches of texts of similar length
_SECONDS_PER_LAYOUT = 4.0  # to trace and compile the step for each shape of a batch
_COPIES_OF_WEIGHTS = 4  # gradient, its clipped copy, two slots; float32
_BYTES_PER_ACTIVATION = 60  # needed by the backward pass per token, layer and dimension
_BYTES_OF_GRAPH = 250e6


class Estimate(NamedTuple):
    """What a run takes.

    Attributes:
        seconds: float, the time of training, without reading data and evaluating.
        memory_bytes: float, peak memory of this process; None if the system does not report it.
    """

    seconds: float
    memory_bytes: float | None

    def __str__(self):
        memory = f", and {self.memory_bytes / 1e9:.1f} GB of memory" if self.memory_bytes else ""
        return f"about {progress.duration(self.seconds)}{memory}"


def report(config, strategy, backbone, mean_length=None, logits_per_token=0.0, target_lengths=(0,)):
    """Logs what the run will take, and returns it.

    Args:
        config: the experiment, with its step counts resolved.
        strategy: `tf.distribute.Strategy`.
        backbone: the `Seq2SeqBackbone` to train.
        mean_length: float, mean number of tokens per text if batches hold texts of similar length; None if
            all rows have `data.input_length`.
        logits_per_token: float, the share of the encoder's tokens for which logits over the vocabulary are
            computed. Default 0.
        target_lengths: sequence of int. The tokens that the decoder writes, for each pass over an input: one
            for each objective. 0 is a pass without the decoder, the default.

    Returns:
        `Estimate`, or None on accelerators and on several devices or machines, for which none is known.
    """
    is_cpu = not (tf.config.list_physical_devices("GPU") or isinstance(strategy, tf.distribute.TPUStrategy))
    if not is_cpu or strategy.num_replicas_in_sync > 1 or strategy_lib.workers(strategy)[1] > 1:
        return None
    speed = product_speed.products_per_second(backbone.compute_dtype)
    found = _of(config, backbone, mean_length, logits_per_token, target_lengths, speed)
    logging.warning("%s steps of training on this machine: %s", f"{config.train.num_steps:,}", found)
    return found


def _of(config, backbone, mean_length, logits_per_token, target_lengths, speed):
    table = backbone.vocabulary_size * backbone.hidden_dim
    parameters = sum(math.prod(variable.shape) for variable in backbone.trainable_variables)
    seconds, most = _SECONDS_PER_LAYOUT * (1 if mean_length is None else batching.NUM_BUCKETS), 0
    for stage in stages.of(config):
        length = stage.input_length if mean_length is None else min(_PADS * mean_length, stage.input_length)
        passes = [_lengths(backbone, max(1, round(length)), target) for target in target_lengths]
        products = sum(_products(backbone, *lengths) for lengths in passes)
        products += 3 * logits_per_token * table * passes[0][0]
        step = _TIMES_PRODUCTS * products * stage.batch_size / speed
        seconds += stage.num_steps * (step + _SECONDS_PER_STEP + _SECONDS_PER_PARAMETER * parameters)
        passes = [_lengths(backbone, stage.input_length, target) for target in target_lengths]
        kept = sum(_activations(backbone, lengths) for lengths in passes)
        kept += 8 * logits_per_token * passes[0][0] * backbone.vocabulary_size
        most = max(most, stage.batch_size * kept)
    most /= config.train.accumulate_steps
    resident = _resident_bytes()
    weights = _COPIES_OF_WEIGHTS * 4 * parameters
    return Estimate(seconds, resident and resident + weights + _BYTES_OF_GRAPH + most)


def _lengths(backbone, input_length, target_length):
    """Returns how many tokens of an example the encoder and decoder see; a decoder alone sees all of them."""
    if not backbone.num_layers:
        return 1, input_length + target_length
    return input_length, target_length


def _products(backbone, encoder_length, decoder_length):
    """Returns the multiply-adds of a training step for one example; a frozen encoder has no backward pass."""
    encoder = backbone.encoder.cost(encoder_length)["multiply_adds"]
    both = backbone.cost(encoder_length, decoder_length)["multiply_adds"] if decoder_length else encoder
    return (3 if backbone.encoder.trainable else 1) * encoder + 3 * (both - encoder)


def _activations(backbone, lengths):
    """Returns the bytes that the backward pass of one example needs, without an encoder's logits."""
    stacks = (backbone.encoder, backbone.decoder)
    layers = sum(
        length * len(stack.layers)
        for length, stack in zip(lengths, stacks, strict=True)
        if stack is not None and stack.trainable
    )
    return layers * _BYTES_PER_ACTIVATION * backbone.hidden_dim + 8 * lengths[1] * backbone.vocabulary_size


def _resident_bytes():
    """Returns the resident memory of this process, or None if the system does not say."""
    path = pathlib.Path("/proc/self/statm")
    if not path.exists():
        return None
    return int(path.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
