"""Reads the data of a fine-tuning run, all of it before the first step."""

import numpy as np
from absl import logging

from convnlp import outputs
from convnlp.data import Source, SourceError, overlap, rules, sources, validation


def read_sources(config, workdir):
    """Returns the sources of an experiment, none of which may lie where the run writes.

    Returns:
        (`Source` to train on, dict of `Source`: "validation" and "test", if the config has them).

    Raises:
        ValueError: if a file lies in the run's directory; the message names it.
    """
    data = config.data
    train = Source(data.source, data.split, data.data_dir)
    held_out = {}
    if data.validation_split:
        name = data.validation_source or data.source
        held_out["validation"] = Source(name, data.validation_split, data.data_dir)
    if data.test_source:
        held_out["test"] = Source(data.test_source, data.test_split, data.data_dir)
    paths = [path for source in (train, *held_out.values()) for path in sources.paths(source)]
    outputs.check_run_folder(workdir, config.init_from, paths)
    return train, held_out


def read_examples(task, train, held_out, tokenizer):
    """Reads all examples; without a validation source, some training examples are held out for validation.

    Args:
        task: `Task`.
        train: `Source`.
        held_out: dict, name -> `Source`.
        tokenizer: the `Tokenizer` of the task.

    Returns:
        (`Examples` to train on, dict name -> `Examples` that includes "validation", bool array that says
        which examples of `train` are trained on, or None for all).

    Raises:
        SourceError: if a source or any of its examples is wrong, if all training examples have the same
            class, or if there are too few to hold any out.
    """
    found_held_out = {name: task.read(source) for name, source in held_out.items()}
    has_validation = "validation" in held_out
    found = task.read(train, training=True) if has_validation else task.read(train)
    check_classes(found, train)
    if has_validation:
        return found, found_held_out, None
    is_held_out = validation.choose(found, overlap.hashes(found, overlap.Pieces(tokenizer)))
    found_held_out["validation"] = validation.take(found, is_held_out)
    return validation.take(found, ~is_held_out), found_held_out, ~is_held_out


def check_classes(found, train):
    """Raises SourceError if all examples to train on have the same class, as in a slice of sorted records."""
    labels = found.labels
    if labels is not None and labels.ndim == 1 and labels.dtype.kind == "i" and len(np.unique(labels)) == 1:
        raise SourceError(
            f"{train}: the examples to train on must have at least two classes; sorted records are not to be "
            f"sliced. Received: one class in {len(found):,} examples"
        )


def read_unlabelled(config, task, labelled, tokenizer):
    """Reads `task.unlabelled_source`, without the texts that are among those with a label.

    Args:
        config: the experiment, whose `task.unlabelled_source` is not empty.
        task: `Task` that `teaches_itself` or `has_teachers`.
        labelled: sequence of `Examples`, all that are learned from or scored.
        tokenizer: their `Tokenizer`.

    Returns:
        `Examples` without labels.

    Raises:
        SourceError: if the source or any of its examples is wrong.
        ValueError: if no other texts are left.
    """
    name = config.task.unlabelled_source
    found = task.read_unlabelled(Source(name, data_dir=config.data.data_dir))
    left = validation.take(found, ~is_among(found, labelled, tokenizer))
    if not len(left):
        raise ValueError(
            "`task.unlabelled_source` must have texts that are not among those with a label. "
            f"Received: {name!r}, with {len(found)} texts that are"
        )
    if len(left) < len(found):
        logging.warning(
            "%s: left out %s of %s texts, which are equal or nearly equal to one with a label",
            name,
            f"{len(found) - len(left):,}",
            f"{len(found):,}",
        )
    return left


def is_among(found, labelled, tokenizer):
    """Returns which examples equal, or nearly equal, one of those with a label.

    Args:
        found: `Examples`, n of them.
        labelled: sequence of `Examples`.
        tokenizer: their `Tokenizer`.

    Returns:
        bool array [n].
    """
    pieces, keys, is_found = overlap.Pieces(tokenizer), validation.keys_of(found), np.zeros(len(found), bool)
    for others in labelled:
        is_found |= np.isin(keys, validation.keys_of(others))  # also texts too odd for the next line
        is_found |= overlap.near_duplicates(found, others, pieces)
    return is_found


def report_overlap(found, held_out, tokenizer):
    """Logs how many validation and test examples are equal, or nearly equal, to a training example.

    Args:
        found: `Examples` to train on.
        held_out: dict, name -> `Examples`.
        tokenizer: their `Tokenizer`.

    Returns:
        dict, name -> number of such examples.
    """
    pieces, counts = overlap.Pieces(tokenizer), {}
    for name, others in held_out.items():
        is_found = overlap.near_duplicates(others, found, pieces) | overlap.equal_rows(others, found, pieces)
        counts[name] = count = int(is_found.sum())
        if count:
            ids, length = others.columns[0], others.lengths[0]
            is_cut = is_found & (ids.row_lengths().numpy() >= length)
            logging.warning(
                "%d of %d %s examples (%.1f%%) are equal or nearly equal to a training example%s, such as %s",
                count,
                len(others),
                name,
                100 * count / len(others),
                f" in the {length} tokens that are read" if is_cut.any() else "",
                rules.short(tokenizer.detokenize(ids[int(is_found.argmax())])),
            )
    return counts
