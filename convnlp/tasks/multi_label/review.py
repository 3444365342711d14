"""What the report of a run shows about a classifier of several labels."""

from convnlp.tasks import scores
from convnlp.tasks.review import Review, Table


def review(labels, found, logits):
    """Makes a table of the labels.

    Args:
        labels: sequence of C str.
        found: `Examples`, n of them.
        logits: float [n,C], the model's logits.

    Returns:
        `Review`.
    """
    given, wanted = logits >= 0, found.labels > 0.5
    rows = []
    for i, label in enumerate(labels):
        right, there = (given & wanted)[:, i].sum(), wanted[:, i].sum()
        rows.append([label, int(there), *scores.of_class(right, given[:, i].sum(), there)])
    rows.sort(key=lambda row: -row[1])
    columns = ("label", "examples", "precision", "recall", "F1")
    note = "A label is given where its probability is at least 0.5."
    return Review([Table("Per label", columns, rows, note)])
