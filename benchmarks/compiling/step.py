"""The paper's training step as a TPU gets it: that of the loop, with static shapes and plain kernels."""

import dataclasses
import types
from typing import Any

import tensorflow as tf

from benchmarks.compiling import random_numbers
from convnlp import kernels, pretrain
from convnlp.configs import pretrain_c4
from convnlp.objectives import pretraining_loss
from convnlp.objectives.objective import Seeds
from convnlp.runs import components
from convnlp.training import graphs, optimizers
from convnlp.training import strategy as strategy_lib

VOCABULARY_SIZE = 32128  # of T5's embedding
WEIGHT_DECAY = 0.01  # of AdamW, so that it is compiled too
CLIP_NORM = 1.0  # the paper's run does not clip; this step does, so that clipping is compiled too
# Has only what `Objective.examples` needs.
_TOKENIZER = types.SimpleNamespace(
    vocabulary_size=lambda: VOCABULARY_SIZE,
    sentinel_token_ids=tuple(range(VOCABULARY_SIZE - 1, VOCABULARY_SIZE - 101, -1)),
    start_token_id=0,
    end_token_id=1,
)


@dataclasses.dataclass(frozen=True)
class Step:
    """A training step that can be compiled.

    Attributes:
        function: `tf.function` of (index of the batch, steps done, *the tensors of a super-batch), see
            `graphs.replica_step`.
        specs: its arguments, `tf.TensorSpec`s with static shapes.
        backbone: the `Seq2SeqBackbone` that it trains.
        num_variables: int, the number of its tensors, including those of the optimizer.
        multiply_adds: int, of the forward pass of the batch, by `cost()`.
    """

    function: Any
    specs: tuple
    backbone: Any
    num_variables: int
    multiply_adds: int


def training_step(mixer, size, batch_size, input_length, optimizer="adafactor"):
    """Returns the step of `configs/pretrain_c4.py` for one replica, in mixed_bfloat16.

    Args:
        mixer: str, a key of `convnlp.layers.MIXERS`. One that cannot be causal trains an encoder with
            masked LM.
        size: str, a key of `convnlp.models.SIZES`.
        batch_size: int, rows of this replica.
        input_length: int.
        optimizer: str, one of `convnlp.training.optimizers.OPTIMIZERS`: Adafactor, which that config has, or
            AdamW with a weight decay.

    Returns:
        `Step`.
    """
    config = pretrain_c4.get_config(f"{mixer},{size}")
    config.data.input_length = input_length
    if optimizer != config.optimizer.name:
        config.optimizer.name, config.optimizer.weight_decay = optimizer, WEIGHT_DECAY
    objectives = pretrain.objectives_of(config)
    strategy = strategy_lib.build("one_device")
    with strategy.scope():
        backbone = components.backbone(config, VOCABULARY_SIZE, "mixed_bfloat16")
        built = optimizers.build(config.optimizer, config.train.num_steps, backbone.depth_of)
        optimizers.build_slots(built, backbone.trainable_variables)
    loss_fn = pretraining_loss(backbone, objectives)
    step = graphs.replica_step(strategy, backbone, built, loss_fn, CLIP_NORM, config.seed)

    specs = batch_specs(objectives, batch_size)

    @tf.function(autograph=False, jit_compile=True)
    def function(index, first_step, *batches):
        batches = dict(zip(specs, batches, strict=True))
        # What "auto" means under a TPUStrategy.
        with kernels.implementation("plain"), random_numbers.of_a_tpu():
            return strategy.run(step, args=(batches, index, first_step))

    number = tf.TensorSpec([], tf.int32)
    batches = [tf.TensorSpec([config.train.steps_per_call, *x.shape], x.dtype) for x in specs.values()]
    return Step(
        function,
        (number, number, *batches),
        backbone,
        len(backbone.variables) + len(built.variables),
        batch_size * multiply_adds(backbone, objectives),
    )


def batch_specs(objectives, batch_size):
    """Returns the tensors of a batch for some objectives: dict, name -> `tf.TensorSpec`."""
    specs = {}
    for objective in objectives:

        def examples(tokens, seed, objective=objective):
            return objective.examples(tokens, Seeds(seed, seed), _TOKENIZER)

        tokens = tf.TensorSpec([batch_size, objective.row_length], tf.int32)
        traced = tf.function(examples, autograph=False).get_concrete_function(
            tokens, tf.TensorSpec([2], tf.int32)
        )
        specs |= {name: tf.TensorSpec(x.shape, x.dtype) for name, x in traced.structured_outputs.items()}
    return specs


def multiply_adds(backbone, objectives):
    """Returns those of one example's forward pass, by `cost()`, with the logits that masked LM needs."""
    total = 0
    for objective in objectives:
        total += backbone.cost(objective.input_length, objective.target_length)["multiply_adds"]
        if objective.name == "masked_lm":
            places = batch_specs([objective], 1)["masked_positions"].shape[1]
            total += places * backbone.vocabulary_size * backbone.hidden_dim
    return total
