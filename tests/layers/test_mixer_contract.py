"""The suites of convnlp.testing over the whole table."""

import pytest

from convnlp import testing
from tests.mixer_table import CASES

CHECKS = testing.checks_of(CASES)


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_contract(check):
    check()


def test_every_check_applies_to_some_mixer():
    assert {check.function for check in CHECKS} == set(testing.SUITE)
