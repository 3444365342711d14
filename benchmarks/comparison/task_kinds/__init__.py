"""Kinds of tasks that a comparison can be of. One per file, one table, one contract."""

from benchmarks.comparison.task_kinds.classification import Classification
from benchmarks.comparison.task_kinds.question_answering import QuestionAnswering
from benchmarks.comparison.task_kinds.task_kind import TaskKind
from benchmarks.comparison.task_kinds.text_to_text import TextToText

KINDS = {kind.name: kind for kind in (Classification(), TextToText(), QuestionAnswering())}

__all__ = ["KINDS", "Classification", "QuestionAnswering", "TaskKind", "TextToText"]
