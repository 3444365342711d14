"""The step is the loop's, its batches are the objective's, and its random numbers are drawn as on a TPU."""

import pytest
import tensorflow as tf

from benchmarks.compiling import random_numbers, step
from convnlp.layers import Dropout, dropout_seed
from convnlp.objectives import build_objectives


def lowered(function, *specs):
    compiled = tf.function(function, autograph=False, jit_compile=True)
    return compiled.experimental_get_compiler_ir(*specs)(stage="hlo", platform_name="CPU")


def test_the_specs_are_those_of_a_batch_of_the_objective():
    found = step.batch_specs(build_objectives(["span_corruption"], 512), 8)
    assert {name: tuple(spec.shape) for name, spec in found.items()} == {
        "encoder_token_ids": (8, 512),
        "encoder_padding_mask": (8, 512),
        "decoder_token_ids": (8, 114),
        "decoder_padding_mask": (8, 114),
        "target_token_ids": (8, 114),
    }
    found = step.batch_specs(build_objectives(["masked_lm"], 512), 4)
    assert found["masked_targets"].shape == (4, 77)  # 15 % of 512


@pytest.mark.slow
def test_a_whole_step_is_lowered_with_static_shapes():
    """Gradient, clipping and optimizer are in it: every variable that is trained comes out anew."""
    built = step.training_step("lightweight_conv", "tiny", 2, 32)
    assert all(spec.shape.is_fully_defined() for spec in built.specs)
    cost = built.backbone.cost(
        32, step.batch_specs(build_objectives(["span_corruption"], 32), 1)["target_token_ids"].shape[1]
    )
    assert built.multiply_adds == 2 * cost["multiply_adds"]
    text = built.function.experimental_get_compiler_ir(*built.specs)(stage="hlo", platform_name="CPU")
    header = text.splitlines()[0]
    num_updated = header.count("may-alias")  # what overwrites an argument
    trained = len(built.backbone.trainable_variables)
    assert num_updated > 2 * trained  # weights and Adafactor's moments, of a matrix two of them
    assert "<=" not in header  # no dimension that is only bounded
    assert "bf16" in text
    assert "global_norm" in text
    assert "rng_philox" not in text
    assert "rng_three_fry" in text


def test_random_numbers_have_the_state_of_a_tpus_generator():
    dropout = Dropout(0.1)

    def dropped(x, seed):
        with dropout_seed(seed), random_numbers.of_a_tpu():
            return dropout(x, training=True)

    specs = tf.TensorSpec([4, 8]), tf.TensorSpec([2], tf.int32)
    text = lowered(dropped, *specs)
    calls = [line for line in text.splitlines() if "rng-bit-generator(" in line]
    assert len(calls) == 2  # the seed of the mask, and the mask
    assert all("u64[2]" in line and "algorithm=rng_three_fry" in line for line in calls)
    assert "xor" not in text  # the key is not scrambled


def test_other_traces_keep_their_generator():
    with random_numbers.of_a_tpu():
        pass
    text = lowered(lambda seed: tf.random.stateless_uniform([8], seed), tf.TensorSpec([2], tf.int32))
    assert "rng_philox" in text


def test_only_the_generators_name_is_replaced():
    program = "%1, %2 = stablehlo.rng_bit_generator %0, algorithm = THREE_FRY : (tensor<2xui64>)\nTHREE_FRY"
    assert random_numbers.with_default_generator(program) == program.replace("= THREE_FRY", "= DEFAULT")
