r"""Scores a preset on a source.

    convnlp evaluate --preset=DIR --source=jsonl:test.jsonl --metrics=accuracy,f1 --output=FILE.json

A TextClassifier is scored by accuracy, F1 and loss. A Seq2SeqLM writes its answer by greedy decoding; the
answer is compared with the target (exact_match, word_f1; squad_exact_match and squad_f1 compare it in SQuAD's
normalised form, with the best of several right answers). Where targets are classes, the most probable of
their names is scored too (ranked_accuracy, ranked_f1, ranked_f1_macro). A QuestionAnswerer has SQuAD's two
scores. A task of your own has its own scores.

--by_field=category scores the examples of each value of that field separately. Scores that are a share of the
examples, such as exact_match, are also given for all of them together.
"""

import json

import numpy as np
from absl import flags, logging

from convnlp import outputs, source_flags, tasks
from convnlp.data import Source, sources
from convnlp.data.schema import Group
from convnlp.models import preset_names
from convnlp.programs import run
from convnlp.tasks import TASKS, fields

_PRESET = flags.DEFINE_string("preset", None, "Name or directory of a preset, of any task.", required=True)
_SOURCE = source_flags.define_source("source", "Examples to score", required=True)
_SPLIT = source_flags.define_split("split")
_METRICS = flags.DEFINE_list("metrics", [], "Scores to show, separated by commas. Default: all of them.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Examples per batch.", lower_bound=1)
_OUTPUT = flags.DEFINE_string("output", None, "JSON file to write the scores to.")
_DATA_DIR = source_flags.define_data_dir("data_dir")
_TEXT_FIELDS = source_flags.define_text_fields("text_fields")
_LABEL_FIELD = flags.DEFINE_string(
    "label_field", None, "Field that holds the label. Default: as the preset was trained, else label."
)
_LABEL_NAMES = flags.DEFINE_list(
    "label_names", None, "Names of the classes, in order. Default for a classifier: the names saved with it."
)
_LABEL_THRESHOLD = flags.DEFINE_float(
    "label_threshold", None, "Where class 1 begins, if labels are fractions."
)
_TARGET_FIELD = flags.DEFINE_string(
    "target_field",
    None,
    "Field of the text that a Seq2SeqLM should write (default: the class names of --label_field), or of the "
    "answers that a QuestionAnswerer may give.",
)
_BY_FIELD = flags.DEFINE_string(
    "by_field", None, "Field whose values are scored separately, such as the kind of generalisation in COGS."
)


def fields_of(model, directory, source):
    """Returns the fields of the records, as the flags, the preset and the source say."""
    return fields.of_preset(
        model,
        directory,
        source,
        texts=tuple(_TEXT_FIELDS.value) if _TEXT_FIELDS.value else None,
        label=_LABEL_FIELD.value,
        label_names=_LABEL_NAMES.value,
        label_threshold=_LABEL_THRESHOLD.value,
        target=_TARGET_FIELD.value,
    )


def check_metrics(known, where=" here"):
    """Raises ValueError if --metrics names a score that is not `known` for this model and source."""
    unknown = sorted(set(_METRICS.value) - set(known))
    if unknown:
        raise ValueError(f"--metrics must be among {', '.join(known)}{where}. Received: {', '.join(unknown)}")


def chosen(results, names):
    """Returns the results of these names, and always the number of examples."""
    return {name: value for name, value in results.items() if not names or name in {*names, "num_examples"}}


def table(results):
    """Returns one line per result, with its name and value."""
    width = max(map(len, results))
    return "\n".join(f"{name:<{width}}  {value:.4f}".removesuffix(".0000") for name, value in results.items())


def values_of(source, field):
    """Returns the values of a field as text, in the order of the records; raises the errors of `read`."""
    return [row["label"].decode() for row in sources.read(source, (), Group(field)).as_numpy_iterator()]


def scores_by_group(task, model, found, groups, batch_size):
    """Scores the examples of each group, and all of them by the scores that are a share of the examples.

    A group that cannot be scored, such as one of empty texts, has no scores, and does not count among all;
    the reason is logged.

    Args:
        task: `Task`.
        model: its model.
        found: `Examples` that `task.read` returned.
        groups: list of str, the group of each example.
        batch_size: int.

    Returns:
        (dict of floats for all examples, dict name of a group -> dict of floats, sorted by name).

    Raises:
        ValueError: if no group can be scored.
    """
    groups, each, scored = np.array(groups), {}, []
    for name in map(str, np.unique(groups)):
        own = found.take(np.flatnonzero(groups == name))
        try:
            each[name] = task.scores(model, own, batch_size)
            scored.append(each[name])
        except ValueError as error:
            logging.warning("--by_field: %r has no scores: %s", name, error)
            each[name], reason = {"num_examples": float(len(own))}, error
    if not scored:
        raise reason
    counts = [scores["num_examples"] for scores in scored]
    shares = {name for scores in scored for name in scores if name in task.share_metrics}
    whole = {
        name: float(np.average([scores[name] for scores in scored], weights=counts))
        for name in task.metrics
        if name in shares
    }
    return {**whole, "num_examples": float(sum(counts))}, each


def table_of_groups(whole, each):
    """Returns one line per group, with its number of examples and its scores; the last line is for all."""
    names = list(dict.fromkeys(name for scores in each.values() for name in scores if name != "num_examples"))
    width = max(len(group) for group in (*each, "all"))
    rows = [f"{'':<{width}}  {'examples':>8}  {'  '.join(names)}"]
    for group, scores in [*each.items(), ("all", whole)]:
        cells = [f"{scores[name]:>{len(name)}.4f}" if name in scores else " " * len(name) for name in names]
        rows.append(f"{group:<{width}}  {scores['num_examples']:>8.0f}  {'  '.join(cells)}".rstrip())
    return "\n".join(rows)


def main(_):
    """Preset -> source -> scores -> table and file."""
    check_metrics({name: None for task in TASKS.values() for name in task.metrics}, "")
    source = Source(_SOURCE.value, _SPLIT.value, _DATA_DIR.value)
    directory = preset_names.locate(_PRESET.value)
    if _OUTPUT.value is not None:
        outputs.check_file("output", _OUTPUT.value, inputs=[directory, *sources.paths(source)])
    groups = values_of(source, _BY_FIELD.value) if _BY_FIELD.value else []
    model = tasks.load(directory)
    task = tasks.task_of(model).from_model(model, source, fields_of(model, directory, source))
    check_metrics(task.known_metrics)
    found = task.read(source)
    if groups:
        results, groups = scores_by_group(task, model, found, groups, _BATCH_SIZE.value)
        groups = {name: chosen(scores, _METRICS.value) for name, scores in groups.items()}
    else:
        results = task.scores(model, found, _BATCH_SIZE.value)
    results = chosen(results, _METRICS.value)
    print(table_of_groups(results, groups) if groups else table(results))
    if _OUTPUT.value is not None:
        report = {"preset": _PRESET.value, "source": _SOURCE.value, "split": _SPLIT.value, "scores": results}
        if groups:
            report |= {"by_field": _BY_FIELD.value, "groups": groups}
        outputs.write_file(_OUTPUT.value, f"{json.dumps(report, indent=2)}\n".encode())


if __name__ == "__main__":
    run(main)
