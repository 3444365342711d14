"""What the programs for whole models share: the size, the taps and the inputs of the models."""

import numpy as np

from convnlp import models

SIZES = {"vocabulary_size": 8192, **models.SIZES["mini"]}
KERNEL_SIZE = 7
SEED = 0
# The mixer with goals in benchmarks/goals.py, and the one that it is meant to replace.
CONVOLUTION, ATTENTION = "lightweight_conv", "self_attention"
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def backbone(mixer, dtype, sizes=None, max_length=512, **config):
    """Returns our backbone, without dropout.

    Args:
        mixer: str.
        dtype: str, a key of `POLICIES`.
        sizes: dict, see `benchmarks.peers`. Defaults to `SIZES`.
        max_length: int. For mixers with weights per position. Defaults to `512`.
        **config: further arguments of `Seq2SeqBackbone`.
    """
    return models.Seq2SeqBackbone(
        **{**(sizes or SIZES), **config},
        mixer=mixer,
        kernel_size=KERNEL_SIZE,
        dropout=0.0,
        max_sequence_length=max_length,
        dtype=POLICIES[dtype],
    )


def token_ids(batch_size, length, vocabulary_size, seed=SEED):
    """Returns random ids, int32 [batch_size,length], without pads or end tokens; the seed decides them."""
    return np.random.default_rng(seed).integers(3, vocabulary_size, [batch_size, length]).astype("int32")
