"""What a task shows about a trained model besides its scores: sections of a run's report."""

import dataclasses
from typing import ClassVar

import numpy as np


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of cells.

    Attributes:
        title: str.
        columns: tuple of str.
        rows: list of lists of str, int, float or None.
        note: str, a sentence on how to read it. Default "".
    """

    kind: ClassVar[str] = "table"
    title: str
    columns: tuple
    rows: list
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Confusion:
    """How often each class was taken for another.

    Attributes:
        title: str.
        labels: list of C str.
        counts: list of C lists of C int: counts[i][j] examples of class i were taken for class j.
    """

    kind: ClassVar[str] = "confusion"
    title: str
    labels: list
    counts: list


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Whether answers with probability p are right a share p of the time.

    Attributes:
        title: str.
        bins: list of (mean probability, share that is right, number of examples), for examples of which the
            model is about equally sure.
        error: float, the mean over the examples of the difference of the two in their bin.
    """

    kind: ClassVar[str] = "calibration"
    title: str
    bins: list
    error: float


@dataclasses.dataclass(frozen=True)
class Mistakes:
    """Texts that were answered wrongly.

    Attributes:
        title: str.
        rows: list of dicts: "text", "wanted" and "found" (str), "probability" (float), and "words", a list of
            [word, importance], or None.
        note: str. Default "".
    """

    kind: ClassVar[str] = "mistakes"
    title: str
    rows: list
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Review:
    """The sections of a task, in their order.

    Attributes:
        sections: list of the above. Default none.
        intervals: dict, name of a score -> (low, high), of 95 %. Default none.
    """

    sections: list = dataclasses.field(default_factory=list)
    intervals: dict = dataclasses.field(default_factory=dict)


def text_of(tokenizer, ids):
    """Returns the text of a row of token ids; of a pair, both texts, with a bar between them.

    Args:
        tokenizer: `convnlp.models.Tokenizer`.
        ids: int array [T]; an end token follows each text.
    """
    texts = np.split(ids, np.flatnonzero(ids == tokenizer.end_token_id) + 1)
    return " | ".join(tokenizer.detokenize(text) for text in texts if len(text))
