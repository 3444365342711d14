"""The suites of convnlp.testing over the whole table."""

import pytest

from convnlp import testing
from convnlp.testing import extremes
from tests.mixer_table import CASES

CHECKS = testing.checks_of(CASES)


def _is_slow(check):
    """Attacks on a mixer's further variants take a tenth of `make test`; it has those on the typical one."""
    return check.function.__module__ == extremes.__name__ and not check.case.typical


@pytest.mark.parametrize(
    "check",
    [pytest.param(check, marks=[pytest.mark.slow] * _is_slow(check)) for check in CHECKS],
    ids=str,
)
def test_contract(check):
    check()


def test_every_check_applies_to_some_mixer():
    assert {check.function for check in CHECKS} == set(testing.SUITE)
