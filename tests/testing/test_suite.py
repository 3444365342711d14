"""Each check passes a sound mixer and fails one with just its defect."""

import numpy as np
import pytest
import tensorflow as tf

from convnlp import testing
from convnlp.layers import LightweightConv, register_mixer
from convnlp.layers.projection import projection
from tests.oracles import convolutions

OPTIONS = {"num_heads": 2, "kernel_size": 3}


def mix_without_pads(self, x, masks, training):
    return LightweightConv.mix(self, x, masks._replace(padding_mask=None), training)


def mix_whole_rows(self, x, masks, training):
    return LightweightConv.mix(self, x, masks._replace(segment_ids=None), training)


def mix_both_sides(self, x, masks, training):
    return LightweightConv.mix(self, tf.reverse(x, [1]), masks, training)


def divide_by_tokens(self, x, masks, training):
    y = LightweightConv.mix(self, x, masks, training)
    if masks.padding_mask is None:
        return y
    return y / tf.reduce_sum(tf.cast(masks.padding_mask, y.dtype), 1)[:, tf.newaxis, tf.newaxis]


def round_twice(self, x, masks, training):
    y = LightweightConv.mix(self, x, masks, training)
    return y * 1.1 if y.dtype == tf.bfloat16 else y


def lose_everything(self, x, masks, training):
    y = LightweightConv.mix(self, x, masks, training)
    return tf.reduce_mean(x, [1, 2], keepdims=True) + 0 * y


def growing_state(self, x_chunk, state, index):
    y, _ = LightweightConv.advance(self, x_chunk, state, index)
    return y, {"inputs": tf.concat([state["inputs"], x_chunk], 1)}


def forget_the_state(self, x_chunk, state, index):
    y, after = LightweightConv.advance(self, x_chunk, {"inputs": tf.zeros_like(state["inputs"])}, index)
    return y, after


def mix_without_prefix(self, x, masks, training):
    return LightweightConv.mix(self, x, masks._replace(prefix_mask=None), training)


def mix_prefixes_of_whole_rows(self, x, masks, training):
    if masks.prefix_mask is not None:
        masks = masks._replace(segment_ids=None)
    return LightweightConv.mix(self, x, masks, training)


def mix_without_direction(self, x, masks, training):
    return LightweightConv.mix(self, x, masks._replace(right_to_left=False), training)


def mix_whole_rows_from_right_to_left(self, x, masks, training):
    if masks.right_to_left:
        masks = masks._replace(segment_ids=None)
    return LightweightConv.mix(self, x, masks, training)


def look_at_large_inputs_before(self, x, masks, training):
    if not masks.right_to_left:
        return LightweightConv.mix(self, x, masks, training)
    return look_at_large_inputs(self, x, masks, training)


def multiply_pads_by_zero(self, x, masks, training):
    if masks.padding_mask is not None:
        x *= tf.cast(masks.padding_mask, x.dtype)[..., tf.newaxis]
    return LightweightConv.mix(self, x, masks._replace(padding_mask=None), training)


def look_at_large_inputs(self, x, masks, training):
    y = LightweightConv.mix(self, x, masks, training)
    return y + tf.nn.relu(tf.reverse(x, [1]) - 50.0)  # as a mask that is added to logits lets them through


def look_at_large_inputs_behind(self, x, masks, training):
    if masks.prefix_mask is None:
        return LightweightConv.mix(self, x, masks, training)
    return look_at_large_inputs(self, x, masks, training)


def mix_pads_of_packed_rows(self, x, masks, training):
    if masks.segment_ids is not None:
        masks = masks._replace(padding_mask=masks.segment_ids > 0)
    return LightweightConv.mix(self, x, masks, training)


def take_pads_to_be_last(self, x, masks, training):
    if masks.padding_mask is not None:
        count = tf.reduce_sum(tf.cast(masks.padding_mask, tf.int32), 1)
        masks = masks._replace(padding_mask=tf.sequence_mask(count, tf.shape(x)[1]))
    return LightweightConv.mix(self, x, masks, training)


def need_the_length(self, x, masks, training):
    return LightweightConv.mix(self, x, masks, training) / (x.shape[1] or 1)


def centre_the_batch(self, x, masks, training):
    y = LightweightConv.mix(self, x, masks, training)
    return y - tf.reduce_mean(y, [0, 1]) if training else y


def count_the_steps(self, batch_size, max_length):
    return {**LightweightConv.empty_state(self, batch_size, max_length), "count": tf.constant(0)}


def take_a_step(self, x_chunk, state, index):
    y, after = LightweightConv.advance(self, x_chunk, state, index)
    return y, {**after, "count": state["count"] + 1}


def declare_a_stranger(self):
    stranger = projection(self.hidden_dim)
    stranger.build((None, self.hidden_dim))
    return (stranger,)


def add_a_row_to_none(self, x, masks, training):
    return tf.pad(x, [[0, int(x.shape[0] == 0)], [0, 0], [0, 0]])


def see_where_a_block_starts(self, x, masks, training):
    y = LightweightConv.mix(self, x, masks, training)
    starts = x[:, ::64]  # [B,ceil(T/64),D]
    return y + tf.repeat(starts, 64, axis=1)[:, : x.shape[1]]


def number_texts_in_a_byte(self, x, masks, training):
    if masks.segment_ids is not None:
        same = tf.cast(masks.segment_ids, tf.uint8)
        same = tf.cast(same[:, :, tf.newaxis] == same[:, tf.newaxis], x.dtype)
        return same @ x
    return tf.reduce_sum(x, 1, keepdims=True) + tf.zeros_like(x)


DEFECTS = {
    "config_and_weights_make_an_equal_mixer": {
        "get_config": lambda self: {**LightweightConv.get_config(self), "dilation_rate": 2}
    },
    "methods_keep_their_checks": {"call": lambda self, x, padding_mask=None: x},
    "shape_type_and_parameter_count": {
        "cost": lambda self, length: {**LightweightConv.cost(self, length), "parameters": 7}
    },
    "sizes_need_not_be_known": {"mix": need_the_length},
    "rows_do_not_see_each_other": {"mix": centre_the_batch},
    "pads_never_change_valid_outputs": {"mix": mix_without_pads},
    "pads_are_zeros_to_the_tokens": {"mix": divide_by_tokens},
    "a_row_of_pads_is_finite": {"mix": divide_by_tokens},
    "causality_and_receptive_field_by_gradient": {"mix": mix_both_sides},
    "no_output_of_a_long_row_sees_too_much": {"mix": see_where_a_block_starts},
    "step_equals_call": {"advance": forget_the_state},
    "states_can_be_gathered_as_beams": {"empty_state": count_the_steps, "advance": take_a_step},
    "step_keeps_its_shapes_in_a_graph_loop": {"advance": growing_state},
    "packed_equals_separate": {"mix": mix_whole_rows},
    "texts_of_one_token_stay_apart": {"mix": number_texts_in_a_byte},
    "bfloat16_is_near_float32": {"mix": round_twice},
    "loss_falls_on_a_copy_task": {"mix": lose_everything},
    "nothing_at_pads_matters": {"mix": multiply_pads_by_zero},
    "nothing_later_is_seen_however_large": {"mix": look_at_large_inputs},
    "texts_stay_apart_however_large": {"mix": look_at_large_inputs},
    "nothing_behind_a_prefix_is_seen_however_large": {"mix": look_at_large_inputs_behind},
    "nothing_before_is_seen_from_right_to_left_however_large": {"mix": look_at_large_inputs_before},
    "rows_of_pads_stay_finite": {"mix": divide_by_tokens},
    "an_empty_batch_passes": {"mix": add_a_row_to_none},
    "projections_are_as_declared": {"entry_projections": property(declare_a_stranger)},
    "images_equal_rows": {"mix": mix_both_sides},
    "the_order_of_tokens_matters_if_it_is_known": {"knows_order": False},
    "causal_needs_supports_causal": {"causal": property(lambda self: False, lambda self, value: None)},
    "segment_ids_need_supports_packing": {
        "supports_packing": False,
        "call": lambda self, x, padding_mask=None, segment_ids=None: x,
    },
    "steps_need_supports_step_and_causal": {"init_state": lambda self, batch_size, max_length: {}},
    "needs_max_length_is_an_argument": {"needs_max_length": True},
    "values_are_the_oracles": {"normalize": lambda self, logits, training, kept=None: logits},
    "values_with_pads_and_segments_are_the_oracles": {"mix": mix_without_pads},
    "targets_see_the_past_and_the_prefix_sees_itself": {"mix": mix_without_prefix},
    "values_with_a_prefix_are_the_oracles": {"mix": mix_without_prefix},
    "pads_in_front_of_a_prefix_do_not_matter": {"mix": take_pads_to_be_last},
    "packed_prefixes_equal_separate": {"mix": mix_prefixes_of_whole_rows},
    "right_to_left_sees_what_follows": {"mix": mix_without_direction},
    "values_from_right_to_left_are_the_oracles": {"mix": mix_without_direction},
    "packed_texts_from_right_to_left_equal_separate": {"mix": mix_whole_rows_from_right_to_left},
}


def errors(members, name):
    """What the checks of that name say of a lightweight convolution with those members; None for nothing."""
    register_mixer(type("Defective", (LightweightConv,), {"name": "defective", **members}))
    found = []
    for check in testing.checks("defective", [OPTIONS], convolutions.lightweight_conv):
        if check.function.__name__ == name:
            try:
                check()
            except (AssertionError, ValueError) as error:
                found.append(type(error))
            else:
                found.append(None)
    return found


def test_there_is_a_defect_for_every_check():
    assert set(DEFECTS) == {function.__name__ for function in testing.SUITE}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_check_passes_without_its_defect_and_fails_with_it(name, own_mixers):
    assert set(errors({}, name)) == {None}
    # TensorFlow itself refuses a state that grows in a loop.
    expected = ValueError if name == "step_keeps_its_shapes_in_a_graph_loop" else AssertionError
    assert set(errors(DEFECTS[name], name)) in ({expected}, {expected, None})


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("nothing_at_pads_matters", {"mix": mix_pads_of_packed_rows}),
        ("projections_are_as_declared", {"exit_projections": property(declare_a_stranger)}),
        (
            "shape_type_and_parameter_count",
            {"cost": lambda self, length: {**LightweightConv.cost(self, length), "multiply_adds": -1}},
        ),
    ],
)
def test_a_check_also_fails_with_another_defect(name, members, own_mixers):
    assert set(errors(members, name)) == {AssertionError}


def test_check_mixer_names_the_check_and_the_case(own_mixers):
    members = {"name": "defective", "mix": mix_without_pads}
    register_mixer(type("Defective", (LightweightConv,), members))
    with pytest.raises(AssertionError) as caught:
        testing.check_mixer("defective", [OPTIONS])
    assert caught.value.__notes__ == [
        "in the check pads_never_change_valid_outputs-defective-num_heads=2-kernel_size=3-both_sides"
    ]


def test_cases_are_every_variant_in_every_direction():
    cases = testing.cases("dilated_conv", [{"kernel_size": 3}, {"kernel_size": 4}])
    assert [(case.options["kernel_size"], case.causal, case.typical) for case in cases] == [
        (3, False, True),
        (3, True, True),
        (4, False, False),
        (4, True, False),
    ]
    checks = testing.checks_of(cases)
    assert not any("oracle" in str(check) for check in checks)
    assert sum("loss_falls" in str(check) for check in checks) == 2


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match=r"`name` must be one of .*Received: 'shift'"):
        testing.cases("shift")
    with pytest.raises(ValueError, match=r"`variants` must hold .*Received: \[\]"):
        testing.cases("dilated_conv", [])
    with pytest.raises(ValueError, match=r"`variants` must hold dicts .*Received: \{'kernel_size': 3\}"):
        testing.checks("dilated_conv", {"kernel_size": 3})


def test_the_weights_of_a_case_are_moved_and_repeatable():
    (case, _) = testing.cases("lightweight_conv", [OPTIONS])
    first, again = case.build().get_weights(), case.build("mixed_bfloat16").get_weights()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, case.build(seed=1).get_weights())
