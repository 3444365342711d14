"""Speed and memory of an encoder-decoder's training step with each mixer, PyTorch's and keras_nlp's too.

    python -m benchmarks.train_step --json=FILE

The models have four layers on each side, width 256, lightweight convolutions with 7 taps and 8 heads, and
vocabulary 8192; batches have 16 x (512 + 114) tokens as span corruption makes them; the optimizer is AdamW;
there is no dropout. Tokens per second count the input and target positions of a batch, 10,016 in total. Our
models and keras_nlp's layers run in the step of `convnlp.training.loop`, with the dtype policy
mixed_bfloat16 except for "own float32 graph". PyTorch's models run with bfloat16 autocast and the fused
AdamW, not compiled. The peers get no padding masks, which would only slow them down.

The share of the ceiling is the rate of floating-point operations divided by that of one large bfloat16
matrix product in TensorFlow, timed in turns. It counts two operations per multiply-add of `cost()`, and the
backward pass as twice the forward pass. Peak memory is what a process of its own needs beyond its imports
to run two steps with one text.
"""

import dataclasses
import itertools

import tensorflow as tf
from absl import flags

from benchmarks import machine, memory, program, timing
from benchmarks.peers import keras_nlp_models
from benchmarks.rows import Row
from benchmarks.small_models import ATTENTION, CONVOLUTION, KERNEL_SIZE, SEED, SIZES, backbone, token_ids
from convnlp import losses
from convnlp.configs import common
from convnlp.layers import MIXERS
from convnlp.objectives import build_objectives, pretraining_loss
from convnlp.training import graphs, optimizers
from convnlp.training import strategy as strategy_lib

_MIXERS = flags.DEFINE_list(
    "mixers",
    ["lightweight_conv", "dynamic_conv", "dilated_conv"],
    "Mixers to compare with self_attention; each must support causal use.",
)


@dataclasses.dataclass
class Settings:
    """What is measured.

    Args:
        batch_size: int.
        input_length, target_length: int.
        repeats: int, samples of each step.
        memory_lengths: tuple of int, increasing; empty for no measurement of memory.
        only_goals: bool. Whether to leave out the mixers that are not asked for and the peers without a goal.
        sizes: dict, see `benchmarks.peers`.
    """

    batch_size: int = 16
    input_length: int = 512
    target_length: int = 114
    repeats: int = 5
    memory_lengths: tuple = (2048, 4096)
    only_goals: bool = False
    sizes: dict = dataclasses.field(default_factory=lambda: SIZES)


def rows(settings):
    """Yields the rows with tokens per second, shares of the ceiling, and memory."""
    mixers = [CONVOLUTION] if settings.only_goals and not _MIXERS.present else _MIXERS.value
    for mixer in mixers:
        if mixer not in MIXERS or not MIXERS[mixer].supports_causal:
            raise ValueError(f"`--mixers` must name mixers that can be causal. Received: {mixer!r}")
    mixers = list(dict.fromkeys([*mixers, ATTENTION]))
    yield from _speed(settings, mixers)
    if settings.memory_lengths:
        yield from _memory(settings, mixers)


def _speed(settings, mixers):
    batch = random_batch(
        settings.batch_size, settings.input_length, settings.target_length, settings.sizes["vocabulary_size"]
    )
    steps = {mixer: our_step(mixer, "bfloat16", settings.sizes, batch) for mixer in mixers}
    steps["float32"] = our_step(CONVOLUTION, "float32", settings.sizes, batch)
    if not settings.only_goals:
        steps["keras_nlp"] = keras_nlp_step(settings.sizes, batch)
    if machine.optional_torch():
        steps["PyTorch conv"] = pytorch_step("conv", settings.sizes, batch)
        steps["PyTorch attention"] = pytorch_step("attention", settings.sizes, batch)
    steps["matmul"], product_operations = machine.matmul("bfloat16")
    timings = timing.interleaved(steps, settings.repeats)
    ceiling = product_operations / timings["matmul"].median

    work = settings.batch_size * (settings.input_length + settings.target_length)

    def setting(mixer):
        return {
            "mixer": mixer,
            "dtype": "bfloat16",
            "batch_size": settings.batch_size,
            "length": settings.input_length,
            "target_length": settings.target_length,
            "kernel_size": KERNEL_SIZE,
            "seed": SEED,
            "shapes": settings.sizes,
        }

    def against(name, mixer, peer):
        return program.compare(
            f"training step vs {name}", setting(mixer), timings[mixer], timings[peer], "tokens/s", work
        )

    for mixer in mixers:
        yield program.compare("training step", setting(mixer), timings[mixer], None, "tokens/s", work)
        operations = training_operations(mixer, settings)
        name = "training step, share of the matmul ceiling"
        yield Row(
            name,
            setting(mixer),
            operations / timings[mixer].median / ceiling,
            None,
            "of the ceiling",
            "higher",
            program.goal(name, setting(mixer)),
            {"operations_per_step": operations, "ceiling_operations_per_second": ceiling},
        )
        if mixer != ATTENTION:
            yield against("own attention", mixer, ATTENTION)
    if CONVOLUTION in mixers:
        for name, peer in (
            ("own float32 graph", "float32"),
            ("keras_nlp Transformer layers", "keras_nlp"),
            ("PyTorch convolution model", "PyTorch conv"),
            ("PyTorch Transformer", "PyTorch attention"),
        ):
            if peer in timings:
                yield against(name, CONVOLUTION, peer)


def random_batch(batch_size, input_length, target_length, vocabulary_size):
    """Returns a batch like those of `convnlp.objectives.SpanCorruption`, with random tokens and no pads."""
    inputs = token_ids(batch_size, input_length, vocabulary_size)
    targets = token_ids(batch_size, target_length + 1, vocabulary_size, SEED + 1)
    batch = {
        "encoder_token_ids": inputs,
        "encoder_padding_mask": tf.ones(inputs.shape, tf.bool),
        "decoder_token_ids": targets[:, :-1],
        "decoder_padding_mask": tf.ones([batch_size, target_length], tf.bool),
        "target_token_ids": targets[:, 1:],
    }
    return {name: tf.convert_to_tensor(value) for name, value in batch.items()}


def our_step(mixer, dtype, sizes, batch):
    """Returns a function that makes one training step of our model and waits for its loss."""
    length = batch["encoder_token_ids"].shape[1]
    objectives = build_objectives(["span_corruption"], length)

    def loss_of(model):
        return pretraining_loss(model, objectives)

    return _loop_step(lambda: backbone(mixer, dtype, sizes, length), loss_of, batch)


def keras_nlp_step(sizes, batch):
    """Does the same as `our_step` for keras_nlp's layers."""

    def loss_of(model):
        def loss_fn(batch, seed, training=True):
            ids = {name: batch[name] for name in ("encoder_token_ids", "decoder_token_ids")}
            targets = batch["target_token_ids"]
            logits = model(ids, training=training)
            loss_sum, weight = losses.cross_entropy(logits, targets, tf.ones_like(targets))
            return {"loss_sum": loss_sum, "weight": weight}

        return loss_fn

    max_length = batch["encoder_token_ids"].shape[1]
    return _loop_step(
        lambda: keras_nlp_models.encoder_decoder(sizes, max_length, "mixed_bfloat16"), loss_of, batch
    )


def _loop_step(build, loss_of, batch):
    """Returns a function that makes one step of `convnlp.training.loop` on one device."""
    strategy = strategy_lib.build("one_device")
    config = common.get_config().optimizer
    config.name = "adamw"
    with strategy.scope():
        model = build()
        optimizer = optimizers.build(config, num_steps=1000)
        optimizers.build_slots(optimizer, model.trainable_variables)
    steps = graphs.training_steps(strategy, model, optimizer, loss_of(model), clip_norm=0.0, seed=SEED)
    batches = {name: tf.expand_dims(value, 0) for name, value in batch.items()}
    return lambda: steps(strategy_lib.split(strategy, batches), 0)


def pytorch_step(mixing, sizes, batch):
    """Does the same as `our_step` for a PyTorch model.

    `mixing` is that of `benchmarks.peers.pytorch_models.Encoder`.
    """
    import torch

    from benchmarks.peers import pytorch_models

    ids = {name: torch.tensor(value.numpy()).long() for name, value in batch.items() if "ids" in name}
    length = batch["encoder_token_ids"].shape[1]
    model = pytorch_models.EncoderDecoder(mixing, sizes, KERNEL_SIZE, max_length=length)
    step = pytorch_models.training_step(model)
    return lambda: step(ids)


def training_operations(mixer, settings):
    """Returns the floating-point operations of a step.

    A multiply-add counts as two operations, and the backward pass as twice the forward pass.
    """
    model = backbone(mixer, "bfloat16", settings.sizes, settings.input_length)
    cost = model.cost(settings.input_length, settings.target_length)
    return 3 * 2 * settings.batch_size * cost["multiply_adds"]


def _memory(settings, mixers):
    """Yields each mixer's peak memory compared with attention's, by length, and its growth with length."""

    def setting(mixer):
        return {
            "mixer": mixer,
            "dtype": "bfloat16",
            "batch_size": 1,
            "kernel_size": KERNEL_SIZE,
            "seed": SEED,
            "shapes": settings.sizes,
        }

    peaks = {mixer: {} for mixer in mixers}
    for length in settings.memory_lengths:
        for mixer in mixers:
            peak, _ = memory.peak_memory(train_two_steps, mixer, length, settings.sizes)
            peaks[mixer][length] = (peak.peak - peak.start) / 2**20
        for mixer in mixers:
            if mixer != ATTENTION:
                yield Row(
                    f"training memory of {mixer} vs own attention",
                    {**setting(mixer), "length": length},
                    peaks[mixer][length],
                    peaks[ATTENTION][length],
                    "MB",
                    "lower",
                )
    for short, long in itertools.pairwise(settings.memory_lengths):
        for mixer in mixers:
            name = f"training memory, length {long} vs {short}"
            goal = None if mixer == ATTENTION else program.goal(name, setting(mixer))
            yield Row(name, setting(mixer), peaks[mixer][long], peaks[mixer][short], "MB", "limit", goal)


def train_two_steps(mixer, length, sizes):
    """Makes two training steps with a text of `length` tokens and a target as long as span corruption's."""
    batch = random_batch(1, length, length * 114 // 512, sizes["vocabulary_size"])
    step = our_step(mixer, "bfloat16", sizes, batch)
    step()
    step()


if __name__ == "__main__":
    program.run(
        rows,
        full=Settings(),
        short=Settings(repeats=2, memory_lengths=(), only_goals=True),
    )
