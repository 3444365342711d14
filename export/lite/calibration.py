"""Chooses the rows that calibrate full int8: texts of the user, of all their lengths."""

import numpy as np

from convnlp.data import sources
from convnlp.tasks import fields as fields_of_tasks
from convnlp.tasks import task_of

NUM_TEXTS = 200
_READ = 10_000  # texts to choose from


def rows(model, source, fields=("text",), num_texts=NUM_TEXTS):
    """Returns padded token ids of texts, from the shortest to the longest in equal steps of rank.

    All rows have the model's full length, so the ranges also hold for texts with pads behind them, and for
    the longest texts, which are cut. The first row is the empty text: if no row had pads, the calibration
    would find that nothing is ever hidden.

    Args:
        model: a model of any task, with its preprocessor.
        source: `Source`.
        fields: tuple of str. The field of the text, or the two fields of a pair.
        num_texts: int >= 1. How many of the first 10,000 texts to choose.

    Returns:
        list of int32 [1,L].

    Raises:
        ValueError: if the source cannot be read, or has no texts.
    """
    if num_texts < 1:
        raise ValueError(f"`num_texts` must be >= 1. Received: {num_texts}")
    token_ids = encoded(model, texts(source, fields, _READ))
    by_length = np.argsort((token_ids != 0).sum(axis=1), kind="stable")
    steps = np.linspace(0, len(by_length) - 1, min(num_texts, len(by_length)))
    chosen = token_ids[by_length[np.round(steps).astype(int)]]
    return list(np.concatenate([encoded(model, [[""]] * len(fields)), chosen])[:, None])


def fields_of(directory, source, given=None):
    """Returns the fields of the texts that calibrate a preset, a tuple of str: one, or two for pairs.

    Args:
        directory: str, the preset.
        source: `Source`.
        given: list of str, or None for those of `fields.texts_of_preset`.

    Raises:
        SourceError: if it is not clear which fields are meant.
        ValueError: if they are not as many as the preset was trained on.
    """
    names = fields_of_tasks.texts_of_preset(directory, source, given)
    trained = fields_of_tasks.trained_on(directory)
    if trained and len(names) != len(trained):
        raise ValueError(
            "`calibration_text_fields` must be as many as the preset was trained on, "
            f"{' and '.join(trained)}. Received: calibration_text_fields={','.join(names)}"
        )
    return names


def texts(source, fields, at_most=None):
    """Returns the texts of a source in its order, as a list of arrays of N bytes, one per field.

    Args:
        source: `Source`.
        fields: tuple of str.
        at_most: int. How many records to read. None: all.
    """
    blocks, count = [], 0
    for block in sources.read_blocks(source, fields):
        blocks.append([block[field].numpy() for field in fields])
        count += len(blocks[-1][0])
        if at_most is not None and count >= at_most:
            break
    return [np.concatenate(column)[:at_most] for column in zip(*blocks, strict=True)]


def encoded(model, columns):
    """Returns the token ids int32 [N,L] of texts, or pairs of texts, as the model reads them.

    Args:
        model: a model of any task, with its preprocessor.
        columns: one or two lists of N str.

    Raises:
        ValueError: if there are two, and the model does not read pairs, or one, and it reads only pairs, or
            more.
    """
    columns = tuple(np.asarray(column) for column in columns)
    answers = task_of(model).answers(model)
    reads_pairs = "pair" in answers.signatures()[0]
    if len(columns) > 1 + reads_pairs:
        alone = f"one field, because a {type(model).__name__} does not read pairs"
        rule = "one field or two" if reads_pairs else alone
        raise ValueError(f"`fields` must be {rule}. Received: {len(columns)} fields")
    if len(columns) < len(answers.text_inputs):
        raise ValueError(
            f"`fields` must be two fields, because a {type(model).__name__} reads "
            f"{' and '.join(answers.text_inputs)}. Received: one field"
        )
    return answers.preprocess(columns if len(columns) == 2 else columns[0])["token_ids"].numpy()
