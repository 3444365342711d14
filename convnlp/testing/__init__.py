"""The suites that every mixer and objective passes, ours and yours.

docs/your_own_mixer.md and docs/your_own_objective.md show their use.
"""

from convnlp.testing.cases import BATCH, DIM, TIME, Case, cases, random_rows
from convnlp.testing.objectives import OBJECTIVE_SUITE, objective_checks
from convnlp.testing.suite import SUITE, Check, check_mixer, checks, checks_of

__all__ = [
    "BATCH",
    "DIM",
    "OBJECTIVE_SUITE",
    "SUITE",
    "TIME",
    "Case",
    "Check",
    "cases",
    "check_mixer",
    "checks",
    "checks_of",
    "objective_checks",
    "random_rows",
]
