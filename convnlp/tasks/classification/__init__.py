from convnlp.tasks.classification.answers import ClassifierAnswers
from convnlp.tasks.classification.task import (
    Classification,
    classification_loss,
    classification_scores,
    read_classification,
)

__all__ = [
    "Classification",
    "ClassifierAnswers",
    "classification_loss",
    "classification_scores",
    "read_classification",
]
