"""Asking a function of texts about many of them: texts of much the same length together."""

import numpy as np
import tensorflow as tf

CHUNK = 4096  # texts that a program reads and answers before it reads the next ones


def lengths_in_bytes(rows):
    """How long texts are, where a model's tokenizer is not known: list of tuples of bytes -> list of int."""
    return [sum(map(len, row)) for row in rows]


def lengths_in_tokens(tokenize):
    """A function from rows, as `in_batches` takes them, to how many tokens each one has.

    Texts of as many bytes may have half or twice as many tokens, and a batch is as long as its longest text:
    sorted by bytes, a batch of 32 tweets has two pads for three tokens, sorted by tokens, one for seven
    (`benchmarks.padding`). The texts are tokenized once more for it, which takes a small part of the time
    that the model does.

    Args:
        tokenize: function from strings [N] to a ragged tensor of N rows of tokens.

    Returns:
        function from a list of tuples of bytes to an int array.
    """

    def lengths(rows):
        return np.sum([tokenize(tf.constant(column)).row_lengths() for column in zip(*rows, strict=True)], 0)

    return lengths


def in_batches(function, names, rows, batch_size, lengths_of=lengths_in_bytes):
    """The answers to some texts.

    Args:
        function: of one string tensor [n] per name, as a signature of `convnlp.tasks.Answers` or of a
            SavedModel is; gives a dict, output -> tensor with one entry per text.
        names: list of the names of its inputs.
        rows: list of tuples of bytes: of each example the text of every input, in the order of `names`.
        batch_size: int >= 1, texts at a time.
        lengths_of: function of `rows` to how long each one is, by which they are sorted.

    Returns:
        list of dicts, output -> NumPy value, one per example, in the order of `rows`.

    Raises:
        ValueError: if an output has another number of entries than there are texts.
    """
    if not rows:
        return []
    # Texts of one length leave few pads. The sort is stable, so that the same rows make the same batches.
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
