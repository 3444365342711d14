"""Describes the examples of a run, and warns of what a person should know before trusting the scores."""

import collections

import numpy as np

from convnlp.data import examples

MAX_IMBALANCE = 10  # ratio of the most frequent class to the rarest
MIN_OF_CLASS = 20  # examples of a class, to learn it from
MIN_HELD_OUT = 200  # examples, to tell models apart
MAX_SHARE = 0.01  # of duplicates, or of texts with several answers
MAX_CUT = 0.05  # share of the examples


def of_split(found, tokenizer, names=None):
    """Returns numbers on the examples of one split.

    Args:
        found: `convnlp.data.examples.Examples`.
        tokenizer: their `Tokenizer`.
        names: sequence of str, the names of the classes; None if there are none.

    Returns:
        dict: "num_examples", "tokens" (quantiles of the lengths, with end tokens), "cut" (examples that fill
        the whole length), "empty", "equal_texts" (examples whose text, as far as it is read, occurred
        before), "unknown" (share of the pieces) and, if there are classes, "classes": {name: examples} and
        "conflicting" (examples whose text also occurs with another label).
    """
    ids, length = found.columns[0], found.lengths[0]
    lengths, values = ids.row_lengths().numpy(), ids.values.numpy()
    ends = np.bincount(ids.value_rowids().numpy()[values == tokenizer.end_token_id], minlength=len(found))
    texts = [row.tobytes() for row in np.split(values, np.cumsum(lengths)[:-1])]
    quantiles = np.percentile(lengths, (0, 50, 95, 100)).astype(int).tolist()
    facts = {
        "num_examples": len(found),
        "tokens": dict(zip(("least", "median", "95 %", "most"), quantiles, strict=True)),
        "length": length,
        "cut": int(np.sum(lengths >= length)),
        "empty": int(np.sum(lengths <= ends)),
        "equal_texts": len(found) - len({*texts}),
        "unknown": float(np.mean(values == tokenizer.unk_token_id)),
    }
    if (classes := _classes(found, names)) is not None:
        facts |= {"classes": classes, "conflicting": _conflicting(texts, found.labels)}
    return facts


def warnings(facts, num_overlapping):
    """Returns sentences on what may spoil a model, or the trust in its scores.

    Args:
        facts: dict, name of a split -> what `of_split` returned; includes "train".
        num_overlapping: dict, name of a held-out split -> number of its examples that are also trained on, or
            almost.

    Returns:
        list of str.
    """
    train = facts["train"]
    total = train["num_examples"]
    found = []
    classes = train.get("classes", {})
    if len(classes) > 1:
        (rarest, few), (commonest, many) = (
            pick(classes.items(), key=lambda item: item[1]) for pick in (min, max)
        )
        if many > MAX_IMBALANCE * max(few, 1):
            found.append(
                f"The classes are out of balance: {many:,} examples of {commonest!r} and {few:,} of "
                f"{rarest!r}. Look at the scores per class; task.options.class_weights=balanced may help."
            )
        rare = [name for name, count in classes.items() if count < MIN_OF_CLASS]
        if rare:
            named = ", ".join(map(repr, rare[:5])) + (", ..." if len(rare) > 5 else "")
            found.append(
                f"{len(rare)} of {len(classes)} classes have fewer than {MIN_OF_CLASS} examples: {named}."
            )
    if train["cut"] > MAX_CUT * total:
        found.append(
            f"{train['cut']:,} of {total:,} texts ({train['cut'] / total:.0%}) fill all {train['length']} "
            "tokens that are read, so most of them are cut; raise data.input_length to keep more."
        )
    if train["empty"]:
        found.append(f"{train['empty']:,} training texts are empty.")
    if train["equal_texts"] > MAX_SHARE * total:
        found.append(
            f"{train['equal_texts']:,} of {total:,} training texts repeat an earlier one{_as_read(train)}."
        )
    if train.get("conflicting", 0) > MAX_SHARE * total:
        found.append(
            f"{train['conflicting']:,} of {total:,} training texts also occur with another label"
            f"{_as_read(train)}; no model can be right about all of these."
        )
    if train["unknown"] > examples.MAX_UNKNOWN:
        found.append(f"{train['unknown']:.1%} of the pieces are unknown to the vocabulary.")
    for name, count in num_overlapping.items():
        if count:
            number = facts[name]["num_examples"]
            split = " If the program held them out, it kept only equal texts on one side."
            found.append(
                f"{count:,} of {number:,} {name} examples ({count / number:.1%}) are equal or nearly equal "
                f"to a training example{_as_read(facts[name])}, which makes the scores look better than they "
                f"are.{split if name == 'validation' else ''}"
            )
        if facts[name]["num_examples"] < MIN_HELD_OUT:
            found.append(
                f"There are only {facts[name]['num_examples']} {name} examples: small differences of scores "
                "mean nothing."
            )
    return found


def _as_read(facts):
    """Says of texts that are equal how much of them was compared, if that is not all of each."""
    return f" in the {facts['length']} tokens that are read" if facts["cut"] else ""


def _conflicting(texts, labels):
    """Returns how many examples have the text, bytes, of an example with another label, [n] or [n,C]."""
    labels_of = collections.defaultdict(set)
    for text, label in zip(texts, labels, strict=True):
        labels_of[text].add(label.tobytes())
    return sum(len(labels_of[text]) > 1 for text in texts)


def _classes(found, names):
    if names is None or found.labels is None:
        return None
    if found.labels.ndim == 2:
        counts = (found.labels > 0.5).sum(0)
    else:
        counts = np.bincount(found.labels, minlength=len(names))
    return {name: int(count) for name, count in zip(names, counts, strict=True)}
