from convnlp.tasks.classification.answers import ClassifierAnswers
from convnlp.tasks.classification.task import (
    Classification,
    classification_loss,
    read_classification,
)

__all__ = [
    "Classification",
    "ClassifierAnswers",
    "classification_loss",
    "read_classification",
]
