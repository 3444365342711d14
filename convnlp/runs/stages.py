"""The stages of a run: parts, each with its own batch size and input length."""

import copy
import itertools
from typing import NamedTuple

import numpy as np


class Stage(NamedTuple):
    """One part of a run, resolved.

    Attributes:
        first_step: int, number of steps before the stage.
        num_steps: int.
        batch_size: int, over all replicas.
        input_length: int, tokens.
        seed: int, seed of its data, different for each stage; the first has the config's own.
    """

    first_step: int
    num_steps: int
    batch_size: int
    input_length: int
    seed: int


def of(config):
    """Returns the stages of a config that obeys `convnlp.runs.config_rules`, in order; one by default."""
    train = config.train
    steps = tuple(train.stage_steps) or (train.num_steps,)
    sizes = tuple(train.stage_batch_sizes) or (train.batch_size,) * len(steps)
    lengths = tuple(train.stage_input_lengths) or (config.data.input_length,) * len(steps)
    first_steps = itertools.accumulate(steps[:-1], initial=0)
    seeds = (_seed(config.seed, number) for number in range(len(steps)))
    return tuple(map(Stage, first_steps, steps, sizes, lengths, seeds))


def config_of(config, stage):
    """Returns a copy of the config with the stage's input length, as if the run had no other."""
    own = copy.deepcopy(config)
    own.data.input_length = stage.input_length
    return own


def tokens_until(config, step):
    """Returns the input tokens of the first `step` steps, with pads, by which parts of a run are compared."""
    return sum(
        min(max(step - stage.first_step, 0), stage.num_steps) * stage.batch_size * stage.input_length
        for stage in of(config)
    )


def examples_until(config, step):
    """Returns the number of examples in the first `step` steps."""
    return sum(
        min(max(step - stage.first_step, 0), stage.num_steps) * stage.batch_size for stage in of(config)
    )


def _seed(seed, number):
    if not number:  # so that a run without stages stays bit for bit the same
        return seed
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)  # below 2**31
