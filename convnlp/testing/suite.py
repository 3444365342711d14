"""All checks, and which of them apply to which case."""

import dataclasses
from collections.abc import Callable

from convnlp.testing import contract, extremes, facts, prefix, values
from convnlp.testing.cases import Case, cases


def _always(case):
    return True


def _typical(case):
    return case.typical


def _once(case):
    return case.typical and not case.causal


def _stepped(case):
    return case.causal and case.facts.supports_step


def _causal(case):
    return case.causal


def _packed(case):
    return case.facts.supports_packing


def _with_zeros(case):
    return case.facts.pads_are_zeros


def _with_oracle(case):
    return case.oracle is not None


def _with_prefix(case):
    return case.facts.supports_prefix and not case.causal


def _right_to_left(case):
    return case.facts.supports_right_to_left and not case.causal


# Check -> whether it applies to a case.
SUITE = {
    contract.config_and_weights_make_an_equal_mixer: _always,
    contract.methods_keep_their_checks: _once,
    contract.shape_type_and_parameter_count: _always,
    contract.sizes_need_not_be_known: _typical,
    contract.rows_do_not_see_each_other: _typical,
    contract.pads_never_change_valid_outputs: _always,
    contract.pads_are_zeros_to_the_tokens: _with_zeros,
    contract.a_row_of_pads_is_finite: _typical,
    contract.causality_and_receptive_field_by_gradient: _always,
    contract.no_output_of_a_long_row_sees_too_much: _always,
    contract.step_equals_call: _stepped,
    contract.states_can_be_gathered_as_beams: _stepped,
    contract.step_keeps_its_shapes_in_a_graph_loop: _stepped,
    contract.packed_equals_separate: _packed,
    contract.texts_of_one_token_stay_apart: _packed,
    contract.bfloat16_is_near_float32: _always,
    contract.loss_falls_on_a_copy_task: _typical,
    extremes.nothing_at_pads_matters: _always,
    extremes.nothing_later_is_seen_however_large: _causal,
    extremes.texts_stay_apart_however_large: _packed,
    extremes.nothing_behind_a_prefix_is_seen_however_large: _with_prefix,
    extremes.nothing_before_is_seen_from_right_to_left_however_large: _right_to_left,
    extremes.rows_of_pads_stay_finite: _typical,
    extremes.an_empty_batch_passes: _always,
    facts.causal_needs_supports_causal: _once,
    facts.segment_ids_need_supports_packing: _once,
    facts.steps_need_supports_step_and_causal: _once,
    facts.needs_max_length_is_an_argument: _once,
    facts.projections_are_as_declared: _always,
    facts.images_equal_rows: _always,
    facts.the_order_of_tokens_matters_if_it_is_known: lambda case: not case.causal,
    values.values_are_the_oracles: _with_oracle,
    values.values_with_pads_and_segments_are_the_oracles: _with_oracle,
    prefix.targets_see_the_past_and_the_prefix_sees_itself: lambda case: _with_prefix(case) and case.typical,
    prefix.values_with_a_prefix_are_the_oracles: lambda case: _with_prefix(case) and _with_oracle(case),
    prefix.pads_in_front_of_a_prefix_do_not_matter: _with_prefix,
    prefix.packed_prefixes_equal_separate: lambda case: _with_prefix(case) and _packed(case),
    prefix.right_to_left_sees_what_follows: lambda case: _right_to_left(case) and case.typical,
    prefix.values_from_right_to_left_are_the_oracles: lambda case: (
        _right_to_left(case) and _with_oracle(case)
    ),
    prefix.packed_texts_from_right_to_left_equal_separate: lambda case: (
        _right_to_left(case) and _packed(case)
    ),
}


@dataclasses.dataclass(frozen=True)
class Check:
    """One check on one case; calling it raises AssertionError if the mixer fails it.

    Args:
        function: a key of `SUITE`.
        case: `Case`.
    """

    function: Callable
    case: Case

    def __call__(self):
        self.function(self.case)

    def __str__(self):
        return f"{self.function.__name__}-{self.case}"


def checks_of(cases):
    """Returns the `Check`s that apply to a list of `Case`s."""
    return [Check(function, case) for function, applies in SUITE.items() for case in cases if applies(case)]


def checks(name, variants=({},), oracle=None, copies=True):
    """Returns all checks that apply to one mixer.

    Under pytest: `@pytest.mark.parametrize("check", checks("my_mixer"), ids=str)`.

    Args:
        name: str, registered by `convnlp.layers.register_mixer`.
        variants: sequence of dicts of constructor arguments, the typical ones first. Defaults to the
            mixer's own defaults.
        oracle: function, see `Case`. Default None: values are not checked.
        copies: bool, see `Case`. Defaults to `True`.

    Returns:
        List of `Check`s.
    """
    return checks_of(cases(name, variants, oracle, copies))


def check_mixer(name, variants=({},), oracle=None, copies=True):
    """Runs all `checks` of a mixer.

    Args:
        name: as in `checks`.
        variants: as in `checks`.
        oracle: as in `checks`.
        copies: as in `checks`.

    Raises:
        AssertionError: from the first check that fails; its notes name the check and the case.
    """
    for check in checks(name, variants, oracle, copies):
        try:
            check()
        except Exception as error:
            error.add_note(f"in the check {check}")
            raise
