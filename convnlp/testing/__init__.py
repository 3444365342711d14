"""The suites that every mixer, objective and task passes, ours and yours.

docs/your_own_mixer.md, your_own_objective.md and your_own_task.md show how to use them.
"""

from convnlp.testing.cases import BATCH, DIM, TIME, Case, cases, random_rows
from convnlp.testing.objectives import OBJECTIVE_SUITE, objective_checks
from convnlp.testing.suite import SUITE, Check, check_mixer, checks, checks_of
from convnlp.testing.tasks import TASK_SUITE, task_checks

__all__ = [
    "BATCH",
    "DIM",
    "OBJECTIVE_SUITE",
    "SUITE",
    "TASK_SUITE",
    "TIME",
    "Case",
    "Check",
    "cases",
    "check_mixer",
    "checks",
    "checks_of",
    "objective_checks",
    "random_rows",
    "task_checks",
]
