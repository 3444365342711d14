"""Asking a function of texts about many of them: texts of much the same length together."""

import tensorflow as tf

CHUNK = 4096  # texts that a program reads and answers before it reads the next ones


def in_batches(function, names, rows, batch_size):
    """The answers to some texts.

    Args:
        function: of one string tensor [n] per name, as a signature of `convnlp.tasks.Answers` or of a
            SavedModel is; gives a dict, output -> tensor with one entry per text.
        names: list of the names of its inputs.
        rows: list of tuples of bytes: of each example the text of every input, in the order of `names`.
        batch_size: int >= 1, texts at a time.

    Returns:
        list of dicts, output -> NumPy value, one per example, in the order of `rows`.

    Raises:
        ValueError: if an output has another number of entries than there are texts.
    """
    # Texts of one length leave few pads. The sort is stable, so that the same rows make the same batches.
    order = sorted(range(len(rows)), key=lambda i: sum(map(len, rows[i])))
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
