"""Every objective passes the suite of its contract."""

import pytest

from convnlp.objectives import OBJECTIVES
from convnlp.testing import objective_checks
from tests.objective_table import OBJECTIVE_TABLE


def test_every_objective_has_a_row():
    assert list(OBJECTIVE_TABLE) == list(OBJECTIVES)


CHECKS = [check for name, row in OBJECTIVE_TABLE.items() for check in objective_checks(name, **row)]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_contract(check):
    check()
