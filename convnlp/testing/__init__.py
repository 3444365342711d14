"""The suites that every mixer passes, ours and yours; docs/your_own_mixer.md shows their use."""

from convnlp.testing.cases import BATCH, DIM, TIME, Case, cases, random_rows
from convnlp.testing.suite import SUITE, Check, check_mixer, checks, checks_of

__all__ = [
    "BATCH",
    "DIM",
    "SUITE",
    "TIME",
    "Case",
    "Check",
    "cases",
    "check_mixer",
    "checks",
    "checks_of",
    "random_rows",
]
