"""Compares the formulae for the cost of each mixer with counts from its weights, its state and its graph.

    python -m benchmarks.cost --json=FILE

The rows of a mixer alone have its parameters, multiply-adds, elements of the decoding state and receptive
field, each with the count. In addition, they have the bytes that a call must at least move (inputs, outputs
and parameters once, float32) and, for mixers without projections of their own, the multiply-adds including
the gated block around them. The rows of whole encoder-decoders have parameters, multiply-adds, and the time
of the paper's pre-training that follows from these and published rates, with the published time. The ratio
is ours / peer: 1 if formula and count agree.
"""

import dataclasses
import gc

import numpy as np
import tensorflow as tf

from benchmarks import counting, program
from benchmarks.compiling.chips import V3
from benchmarks.rows import Row
from convnlp import kernels
from convnlp.layers import MIXERS, GLUConvBlock, build_mixer
from convnlp.models import SIZES, Seq2SeqBackbone

SEED = 0
VOCABULARY_SIZE = 32128  # T5's table
ENCODER_LENGTH, DECODER_LENGTH = 512, 114  # span corruption's
# From google-research/pretrained_conv's list of checkpoints, in millions of parameters.
RELEASE = {"lightweight_conv": 210, "dynamic_conv": 324}

# Tay et al., 2021, https://arxiv.org/abs/2105.03322, section 4.2: about 12 hours on 16 chips.
PAPER_RUN = {"steps": 524288, "batch_size": 128, "chips": 16}
PAPER_HOURS = 12
TPU = {
    "peak_flops_a_chip": V3.flops_per_second,  # of both cores, in bfloat16
    # Gopher's model FLOPs utilisation on TPU v3: Chowdhery et al., 2022, table 3, arXiv:2204.02311
    "utilisation": 0.325,
}
ASSUMPTIONS = (
    "two FLOPs per multiply-add; the backward pass costs twice the forward pass; nothing is recomputed",
    "every multiply-add runs at the utilisation that a large Transformer reached on the same chips, although "
    "the depthwise convolutions, less than one per cent of them, cannot use the matrix unit",
    "128 rows of 512 input and 114 target tokens per step; the optimizer and the host cost nothing",
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to build.

    Args:
        mixers: tuple of str, names in `MIXERS`.
        lengths: tuple of int, T.
        hidden_dim: int, D of a mixer alone.
        num_heads: int, H.
        kernel_size: int, K.
        size: str, name in `SIZES`, of the whole models.
    """

    mixers: tuple = tuple(MIXERS)
    lengths: tuple = (128, 512, 2048)
    hidden_dim: int = 512
    num_heads: int = 8
    kernel_size: int = 7
    size: str = "base"


FULL = Settings()
SHORT = Settings(lengths=(512,), size="tiny")


def rows(settings):
    """Yields the rows of the mixers, then those of the whole models."""
    for mixer in settings.mixers:
        for length in settings.lengths:
            yield from mixer_rows(mixer, length, settings)
    for mixer in settings.mixers:
        if MIXERS[mixer].supports_causal:
            yield from model_rows(mixer, settings)
            gc.collect()  # a base model takes a gigabyte


def mixer_rows(name, length, settings):
    """Yields the rows of one mixer and length: the formulae with the counts."""
    setting = {
        "dtype": "float32",
        "length": length,
        "hidden_dim": settings.hidden_dim,
        "intermediate_dim": 4 * settings.hidden_dim,
        "num_heads": settings.num_heads,
        "kernel_size": settings.kernel_size,
        "seed": SEED,
    }

    def build(causal):
        arguments = {key: value for key, value in setting.items() if key not in ("dtype", "length", "seed")}
        mixer = build_mixer(name, causal=causal, max_sequence_length=length, **arguments)
        mixer.build((None, length, settings.hidden_dim))
        return mixer

    mixer = build(causal=False)
    cost = mixer.cost(length)
    # Weights that are initialised to zero would hide what an output depends on.
    rng = np.random.default_rng(SEED)
    for weight in mixer.weights:
        weight.assign(weight + rng.normal(scale=0.05, size=weight.shape))
    with kernels.implementation("plain"):
        spec = tf.TensorSpec([1, length, settings.hidden_dim])
        operations = counting.multiply_adds(mixer.call, spec)
        x = tf.constant(rng.normal(size=spec.shape).astype("float32"))
        seen = counting.receptive_field(mixer, x, length // 2)
    moved = 4 * (2 * length * settings.hidden_dim + cost["parameters"])
    yield _beside(f"{name} parameters", setting, cost["parameters"], mixer.count_params(), "parameters")
    yield _beside(
        f"{name} multiply-adds",
        setting,
        cost["multiply_adds"],
        sum(operations.values()),
        "multiply-adds",
        by_operation=dict(operations),
    )
    if mixer.gated:
        block = GLUConvBlock(mixer).cost(length)["multiply_adds"]
        yield _beside(f"{name} with its block", setting, block, None, "multiply-adds")
    yield _beside(
        f"{name} receptive field",
        setting,
        mixer.receptive_field(length),
        seen,
        "positions",
        position=length // 2,
    )
    yield _beside(
        f"{name} bytes",
        setting,
        moved,
        None,
        "bytes",
        multiply_adds_a_byte=round(cost["multiply_adds"] / moved, 2),
    )
    if mixer.supports_causal and mixer.supports_step:
        state = build(causal=True).init_state(1, length)
        elements = sum(int(tf.size(value)) for value in state.values())
        yield _beside(f"{name} state", setting, cost["state_elements"], elements, "elements")


def model_rows(name, settings):
    """Yields the parameters and multiply-adds of a whole model, and the prediction from them."""
    setting = {
        "size": settings.size,
        "vocabulary_size": VOCABULARY_SIZE,
        "encoder_length": ENCODER_LENGTH,
        "decoder_length": DECODER_LENGTH,
    }
    backbone = Seq2SeqBackbone(
        VOCABULARY_SIZE, **SIZES[settings.size], mixer=name, max_sequence_length=ENCODER_LENGTH
    )
    cost = backbone.cost(ENCODER_LENGTH, DECODER_LENGTH)
    yield _beside(
        f"{name} model parameters",
        setting,
        cost["parameters"],
        backbone.count_params(),
        "parameters",
        release_millions=RELEASE.get(name) if settings.size == "base" else None,
        receptive_field=cost["receptive_field"],
    )
    with kernels.implementation("plain"):
        operations = counting.multiply_adds(
            lambda source, target: backbone.logits(backbone.decode(target, backbone.encode(source))),
            tf.TensorSpec([1, ENCODER_LENGTH], tf.int32),
            tf.TensorSpec([1, DECODER_LENGTH], tf.int32),
        )
    yield _beside(
        f"{name} model multiply-adds",
        setting,
        cost["multiply_adds"],
        sum(operations.values()),
        "multiply-adds",
        by_operation=dict(operations),
    )
    yield prediction(name, setting, cost["multiply_adds"])


def prediction(name, setting, multiply_adds):
    """Returns a row with the hours of the paper's pre-training, from multiply-adds and published rates."""
    flops = 2 * 3 * multiply_adds * PAPER_RUN["batch_size"] * PAPER_RUN["steps"]
    seconds = flops / (PAPER_RUN["chips"] * TPU["peak_flops_a_chip"] * TPU["utilisation"])
    return _beside(
        f"{name} pre-training as in the paper, predicted",
        {**setting, **PAPER_RUN},
        seconds / 3600,
        PAPER_HOURS if setting["size"] == "base" else None,
        "hours",
        flops=flops,
        **TPU,
        assumptions=ASSUMPTIONS,
    )


def _beside(name, setting, formula, counted, unit, **detail):
    return Row(name, setting, formula, counted, unit, "limit", detail=detail)


if __name__ == "__main__":
    program.run(rows, FULL, SHORT)
