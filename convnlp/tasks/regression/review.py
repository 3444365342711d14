"""What the report of a run shows about a model that predicts numbers."""

import numpy as np

from convnlp.tasks.review import Review, Table, text_of

NUM_ERRORS = 10


def review(tokenizer, found, numbers):
    """Makes a table of the largest errors.

    Args:
        tokenizer: `convnlp.models.Tokenizer`.
        found: `Examples`, n of them.
        numbers: float [n], the model's numbers.

    Returns:
        `Review`.
    """
    errors = numbers - found.labels
    worst = np.argsort(-np.abs(errors), kind="stable")[:NUM_ERRORS]
    texts = [text_of(tokenizer, found.columns[0][int(i)].numpy()) for i in worst]
    rows = [
        [text, float(found.labels[i]), float(numbers[i]), float(errors[i])]
        for text, i in zip(texts, worst, strict=True)
    ]
    return Review([Table("The largest errors", ("text", "should be", "was given", "error"), rows)])
