"""The stages of a run: parts of it that have a batch size and a length of input of their own."""

import copy
import itertools
from typing import NamedTuple

import numpy as np


class Stage(NamedTuple):
    """One part of a run, resolved.

    Attributes:
        first_step: int. How many steps the stages before it take.
        num_steps: int.
        batch_size: int, over all replicas.
        input_length: int, tokens.
        seed: int, of its data: another one for each stage, and the config's own for the first.
    """

    first_step: int
    num_steps: int
    batch_size: int
    input_length: int
    seed: int


def of(config):
    """The stages of a config that keeps `convnlp.config_rules`, in order; without `train.stage_steps` one."""
    train = config.train
    steps = tuple(train.stage_steps) or (train.num_steps,)
    sizes = tuple(train.stage_batch_sizes) or (train.batch_size,) * len(steps)
    lengths = tuple(train.stage_input_lengths) or (config.data.input_length,) * len(steps)
    first_steps = itertools.accumulate(steps[:-1], initial=0)
    seeds = (_seed(config.seed, number) for number in range(len(steps)))
    return tuple(map(Stage, first_steps, steps, sizes, lengths, seeds))


def config_of(config, stage):
    """A copy of the config with a stage's length of input, as if the run had no other."""
    own = copy.deepcopy(config)
    own.data.input_length = stage.input_length
    return own


def tokens_until(config, step):
    """Tokens of input in the first `step` steps, pads among them: what two parts of a run compare by."""
    return sum(
        min(max(step - stage.first_step, 0), stage.num_steps) * stage.batch_size * stage.input_length
        for stage in of(config)
    )


def examples_until(config, step):
    """Examples in the first `step` steps."""
    return sum(
        min(max(step - stage.first_step, 0), stage.num_steps) * stage.batch_size for stage in of(config)
    )


def _seed(seed, number):
    if not number:  # so that a run without stages has the bits that it always had
        return seed
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)  # below 2**31
