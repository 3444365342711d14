"""The suites of convnlp.testing over the whole table."""

import pytest

from convnlp import testing
from convnlp.testing import contract, extremes
from tests.mixer_table import CASES, MIXER_TABLE, SAMPLE

CHECKS = testing.checks_of(CASES)


# What a mixer's other options hardly change. `make test` checks it on each mixer as it typically is.
TYPICAL = {
    contract.bfloat16_is_near_float32,
    contract.config_and_weights_make_an_equal_mixer,
    contract.pads_never_change_valid_outputs,
}


def _is_slow(check):
    if check.function.__module__ == extremes.__name__:
        return not (check.case.typical and check.case.name in SAMPLE)
    return check.function in TYPICAL and not check.case.typical


@pytest.mark.parametrize(
    "check",
    [pytest.param(check, marks=[pytest.mark.slow] * _is_slow(check)) for check in CHECKS],
    ids=str,
)
def test_contract(check):
    check()


def test_every_check_applies_to_some_mixer():
    assert {check.function for check in CHECKS} == set(testing.SUITE)


def test_the_sample_is_of_the_table():
    """Or all that `sampled` marks would be slow."""
    assert set(SAMPLE) < set(MIXER_TABLE)
