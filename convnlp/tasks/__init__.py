"""Tasks: what a backbone is fine-tuned for. One per file, one table, one contract.

The programs know a task by its name in `TASKS`; docs/your_own_task.md shows how to add one.
"""

from convnlp.options import option
from convnlp.tasks.answers import Answers
from convnlp.tasks.classification import Classification
from convnlp.tasks.continuation import Continuation
from convnlp.tasks.encoder_answers import EncoderAnswers, EncoderReference
from convnlp.tasks.multi_label import MultiLabelClassification
from convnlp.tasks.question_answering import QuestionAnswering
from convnlp.tasks.reference import Reference
from convnlp.tasks.regression import Regression
from convnlp.tasks.table import (
    TASKS,
    build_task,
    check_options,
    load,
    register_task,
    saved_class,
    task_named,
    task_of,
)
from convnlp.tasks.task import Fields, Task
from convnlp.tasks.text_to_text import TextToText

__all__ = [
    "TASKS",
    "Answers",
    "Classification",
    "Continuation",
    "EncoderAnswers",
    "EncoderReference",
    "Fields",
    "MultiLabelClassification",
    "QuestionAnswering",
    "Reference",
    "Regression",
    "Task",
    "TextToText",
    "build_task",
    "check_options",
    "load",
    "option",
    "register_task",
    "saved_class",
    "task_named",
    "task_of",
]
