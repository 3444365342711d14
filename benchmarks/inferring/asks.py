"""The inputs that every variant gets: rows of n tokens, batches of them, and texts of mixed lengths."""

import dataclasses
import json

import numpy as np

BATCH_SIZE, SEED = 32, 0
MIXED, ONE_BY_ONE, IN_BATCHES = "mixed ids x 32", "texts x 1", "texts x 32"


@dataclasses.dataclass(frozen=True)
class Ask:
    """One input, timed as a whole.

    Args:
        name: str.
        is_text: bool. Whether the input is text, so that the tokenizer is timed too.
        batches: list of int32 arrays [B,T], pads = 0, or of lists of str.
    """

    name: str
    is_text: bool
    batches: list

    @property
    def num_texts(self):
        """The number of texts in all batches."""
        return sum(map(len, self.batches))

    @property
    def longest(self):
        """The number of tokens in the longest row; 0 for texts, which each model truncates to its limit."""
        return 0 if self.is_text else max(batch.shape[1] for batch in self.batches)


def asks(lengths, batch_lengths, texts, token_ids, vocabulary_size):
    """Returns all inputs, in the order of the page.

    Args:
        lengths: list of int, the lengths in tokens of single rows without pads.
        batch_lengths: list of int, the lengths in tokens of batches of 32 rows without pads.
        texts: list of str.
        token_ids: function from a list of str to int32 [B,T].
        vocabulary_size: int.

    Returns:
        list of `Ask`.
    """
    random = np.random.default_rng(SEED)
    found = []
    for batch_size, of_batch in ((1, lengths), (BATCH_SIZE, batch_lengths)):
        for length in of_batch:
            ids = random.integers(3, vocabulary_size, [batch_size, length]).astype(np.int32)
            found.append(Ask(name(batch_size, length), False, [ids]))
    batches = [texts[start : start + BATCH_SIZE] for start in range(0, len(texts), BATCH_SIZE)]
    singles = [[text] for text in texts[:BATCH_SIZE]]
    return [
        *found,
        Ask(MIXED, False, [token_ids(batch) for batch in batches]),
        Ask(ONE_BY_ONE, True, singles),
        Ask(IN_BATCHES, True, batches),
    ]


def name(batch_size, length):
    """Returns the name of an input without pads."""
    return f"n = {length}" if batch_size == 1 else f"{batch_size} x {length}"


def write(path, found):
    """Writes the inputs for the processes of the variants."""
    asked = [
        {
            "name": ask.name,
            "is_text": ask.is_text,
            "batches": ask.batches if ask.is_text else [batch.tolist() for batch in ask.batches],
        }
        for ask in found
    ]
    path.write_text(json.dumps(asked), encoding="utf-8")


def read(path):
    """Returns the inputs that `write` wrote: dict, name -> `Ask`."""
    with open(path, encoding="utf-8") as file:
        asked = json.load(file)
    return {
        each["name"]: Ask(
            each["name"],
            each["is_text"],
            each["batches"] if each["is_text"] else [np.array(rows, np.int32) for rows in each["batches"]],
        )
        for each in asked
    }
