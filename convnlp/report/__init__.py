"""The report of a fine-tuning run: one page for people, and the same numbers as JSON."""

from convnlp.report.write import write

__all__ = ["write"]
