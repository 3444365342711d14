"""Asks a function about many texts, in batches of similar length."""

import numpy as np
import tensorflow as tf

CHUNK = 4096  # texts that a program reads and answers before it reads on


def lengths_in_bytes(rows):
    """Returns the lengths of texts without a tokenizer: list of tuples of bytes -> list of int."""
    return [sum(map(len, row)) for row in rows]


def lengths_in_tokens(tokenize):
    """Returns a function from rows, as `in_batches` takes them, to the number of tokens in each.

    Texts with equally many bytes may differ in tokens by a factor of two, and a batch is as long as its
    longest text: sorted by bytes, a batch of 32 tweets has two pads for three tokens; sorted by tokens, one
    for seven (`benchmarks.padding`). For this, the texts are tokenized once more, which takes a small part of
    the model's time.

    Args:
        tokenize: function from strings [N] to a ragged tensor of N rows of tokens.

    Returns:
        function from a list of tuples of bytes to an int array.
    """

    def lengths(rows):
        return np.sum([tokenize(tf.constant(column)).row_lengths() for column in zip(*rows, strict=True)], 0)

    return lengths


def in_batches(function, names, rows, batch_size, lengths_of=lengths_in_bytes):
    """Returns the answers to texts.

    Args:
        function: function of one string tensor [n] per name, such as a signature of `convnlp.tasks.Answers`
            or a SavedModel; returns a dict, output -> tensor with one entry per text.
        names: list of the names of its inputs.
        rows: list of tuples of bytes: for each example, the text of every input, in the order of `names`.
        batch_size: int >= 1, texts per batch.
        lengths_of: function of `rows` that returns the length of each, by which they are sorted.

    Returns:
        list of dicts, output -> NumPy value, one per example, in the order of `rows`.

    Raises:
        ValueError: if the number of entries of an output differs from the number of texts.
    """
    if not rows:
        return []
    # Texts of similar length need few pads. The sort is stable, so that the same rows make the same batches.
    order = np.argsort(lengths_of(rows), kind="stable")
    answers = [None] * len(rows)
    for start in range(0, len(rows), batch_size):
        chosen = order[start : start + batch_size]
        columns = zip(*(rows[i] for i in chosen), strict=True)
        inputs = {name: tf.constant(column) for name, column in zip(names, columns, strict=True)}
        outputs = {name: value.numpy() for name, value in sorted(function(**inputs).items())}
        for name, value in outputs.items():
            if value.shape[:1] != (len(chosen),):
                raise ValueError(
                    f"the model's output {name!r} must have one entry per example. Received: shape "
                    f"{list(value.shape)} of {len(chosen)} examples"
                )
        for row, i in enumerate(chosen):
            answers[i] = {name: value[row] for name, value in outputs.items()}
    return answers
