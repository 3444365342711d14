r"""Whether a sentiment classifier depends on who a sentence is about.

    python -m benchmarks.pretraining.bias --preset=RUN/preset --positive=1 --json=bias.json

Simple sentences such as "{person} gave an excellent talk." are filled with persons of several groups, so
that only the person differs. The tables compare the mean probability of the positive class: of each group
with that of all groups, and of the highest group with the lowest. The 95 per cent intervals come from a
paired bootstrap over sentences, each with all its persons. "Other label" is the share of sentences that do
not get the same label for all groups. One interval in twenty excludes 0 by chance, and more of those
between the highest and the lowest group, because these are selected by the measured values. The sentences
are few and simple: they can reveal a bias, but cannot rule one out.

After Kiritchenko and Mohammad, 2018, "Examining Gender and Race Bias in Two Hundred Sentiment Analysis
Systems", https://aclanthology.org/S18-2005. Departs from it: sentences and persons of our own; groups
beyond gender and race; paired intervals instead of tests.
"""

import json

import numpy as np
from absl import flags

from benchmarks import pages
from benchmarks.pretraining import templates
from benchmarks.shared_flags import check_json, define_output
from convnlp import outputs, programs, tasks
from convnlp.models import TextClassifier, preset_names

_BATCH_SIZE = 64
_RESAMPLES = 4000  # enough for two digits of the bounds


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("preset", None, "Name or directory of a sentiment classifier.", required=True)
    flags.DEFINE_string("positive", None, "Name or number of the positive class. Default: the last one.")
    define_output("json", "File to write the figures to.")


def main(argv):
    """Preset -> probabilities of all sentences -> tables and file."""
    del argv
    args = flags.FLAGS
    directory = preset_names.locate(args.preset)
    check_json(args.json, inputs=[directory])
    classifier = load(directory)
    positive = positive_class(classifier, args.positive)
    report = measure(lambda texts: probabilities(classifier, texts)[:, positive])
    print(table(report["axes"]))
    print()
    print(table(report["groups"]))
    if args.json:
        named = (classifier.labels or range(classifier.num_classes))[positive]
        facts = {"preset": args.preset, "positive": str(named), **report}
        outputs.write_file(args.json, f"{json.dumps(facts, indent=2)}\n".encode())


def load(preset):
    """Returns the `TextClassifier` of a preset.

    Raises:
        ValueError: if the preset holds another model.
    """
    model = tasks.load(preset)
    if not isinstance(model, TextClassifier):
        raise ValueError(
            f"`--preset` must hold a TextClassifier. Received: {preset}, a {type(model).__name__}"
        )
    return model


def positive_class(classifier, named):
    """Returns the number of the class that the flag gives by name or by number; a name takes precedence.

    Raises:
        ValueError: if there is no such class.
    """
    labels = classifier.labels or []
    if named is None:
        return classifier.num_classes - 1
    if named in labels:
        return labels.index(named)
    if named.isdecimal() and int(named) < classifier.num_classes:
        return int(named)
    known = f"{', '.join(labels)}, or " if labels else ""
    raise ValueError(
        f"`--positive` must be one of {known}a number below {classifier.num_classes}. Received: {named!r}"
    )


def probabilities(classifier, texts):
    """Returns the class probabilities of a list of N texts, float64 [N,C]."""
    logits = classifier.predict(texts, batch_size=_BATCH_SIZE, verbose=0).astype(np.float64)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def measure(positive, groups=templates.GROUPS, sentences=templates.TEMPLATES):
    """Measures how the probability of the positive class depends on the group of a person.

    Args:
        positive: function from a list of N texts to a float array [N], the probabilities of the positive
            class. From 0.5 on, the label is positive.
        groups: dict like `templates.GROUPS`.
        sentences: dict like `templates.TEMPLATES`.

    Returns:
        dict of two lists of dicts. "axes": for each property that is compared, the highest and the lowest
        group, their difference with its interval, and the share of sentences with another label.
        "groups": for each group, the mean probability and its difference from the mean of all groups.
    """
    patterns = [pattern for feeling in sentences.values() for pattern in feeling]
    axes, rows = [], []
    for axis, members in groups.items():
        persons = list(members.values())
        texts = [templates.fill(t, person) for group in persons for t in patterns for person in group]
        found = np.asarray(positive(texts), np.float64)
        found = found.reshape(len(persons), len(patterns), len(persons[0]))  # [G,T,F]
        by_template = found.mean(axis=2)  # [G,T]
        means = by_template.mean(axis=1)  # [G]
        for name, own, mean in zip(members, by_template, means, strict=True):
            rows.append(
                {"compared": axis, "group": name, "mean probability": mean}
                | _difference("from all groups", own - by_template.mean(axis=0))
            )
        highest, lowest = int(means.argmax()), int(means.argmin())
        is_positive = found >= 0.5
        axes.append(
            {"compared": axis, "highest": list(members)[highest], "lowest": list(members)[lowest]}
            | _difference("difference", by_template[highest] - by_template[lowest])
            | {"other label": (is_positive.any(axis=0) & ~is_positive.all(axis=0)).mean()}
        )
    return {"axes": _plain(axes), "groups": _plain(rows)}


def _difference(name, values):
    """Returns the mean of paired differences [T] and its percentile interval over resampled sentences."""
    chosen = np.random.default_rng(0).integers(len(values), size=(_RESAMPLES, len(values)))
    low, high = np.percentile(values[chosen].mean(axis=1), [2.5, 97.5])
    return {name: values.mean(), "low": low, "high": high}


def _plain(rows):
    """Returns the rows with Python floats, rounded for a model card."""
    return [
        {key: round(float(value), 4) if isinstance(value, float) else value for key, value in row.items()}
        for row in rows
    ]


def table(rows):
    """Returns the rows as a Markdown table."""
    lines = [[f"{v:.4f}" if isinstance(v, float) else v for v in row.values()] for row in rows]
    return pages.table(list(rows[0]), lines)


if __name__ == "__main__":
    define_flags()
    programs.run(main)
