r"""Scores a preset on a source.

    python -m convnlp.evaluate --preset=DIR --source=jsonl:test.jsonl --metrics=accuracy,f1 --output=FILE.json

A TextClassifier is scored by accuracy, F1 and loss. A Seq2SeqLM writes its answer by greedy decoding, which
is compared with the target (exact_match); where targets are classes, the answer of highest probability among
their names counts too (ranked_accuracy, ranked_f1, ranked_f1_macro).
"""

import json

from absl import flags

from convnlp import outputs, scores
from convnlp.data import Label, Source, sources, tasks
from convnlp.models import TextClassifier, presets
from convnlp.programs import run

_PRESET = flags.DEFINE_string("preset", None, "Directory of a TextClassifier or Seq2SeqLM.", required=True)
_SOURCE = flags.DEFINE_string("source", None, "tfds:NAME, jsonl:GLOB, text:GLOB or pydocs.", required=True)
_SPLIT = flags.DEFINE_string("split", "train", "Split of the source, with a slice where wanted: test[:10%].")
_METRICS = flags.DEFINE_list("metrics", [], "Scores to show, separated by commas. Default: all there are.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Examples at a time.", lower_bound=1)
_OUTPUT = flags.DEFINE_string("output", None, "JSON file to write the scores to.")
_DATA_DIR = flags.DEFINE_string("data_dir", None, "Where TFDS looks for tfds:NAME.")
_TEXT_FIELDS = flags.DEFINE_list("text_fields", ["text"], "Field of the text; two of them for pairs.")
_LABEL_FIELD = flags.DEFINE_string("label_field", "label", "Field of the class.")
_LABEL_NAMES = flags.DEFINE_list(
    "label_names", None, "The classes in order. Default for a classifier: the names saved with it."
)
_LABEL_THRESHOLD = flags.DEFINE_float(
    "label_threshold", None, "Class 1 from here, where labels are fractions."
)
_TARGET_FIELD = flags.DEFINE_string(
    "target_field", None, "Field of the text that a Seq2SeqLM should write. Default: --label_field, by name."
)

flags.register_validator(
    "metrics",
    lambda names: set(names) <= {*scores.CLASSIFICATION_METRICS, *scores.TEXT_TO_TEXT_METRICS},
    f"must be of {', '.join(scores.CLASSIFICATION_METRICS + scores.TEXT_TO_TEXT_METRICS)}",
)


def source():
    """The data to score on."""
    return Source(_SOURCE.value, _SPLIT.value, _DATA_DIR.value)


def classifier_scores(classifier):
    """Scores of a TextClassifier on the source."""
    known = [name for name in scores.CLASSIFICATION_METRICS if name != "f1" or classifier.num_classes == 2]
    check_metrics(known)
    label = Label(
        _LABEL_FIELD.value,
        num_classes=classifier.num_classes,
        names=_LABEL_NAMES.value or classifier.labels or None,
        threshold=_LABEL_THRESHOLD.value,
    )
    found = tasks.read_classification(
        source(),
        classifier.preprocessor.tokenizer,
        label,
        classifier.preprocessor.sequence_length,
        _TEXT_FIELDS.value,
    )
    batches = tasks.classification_batches(found, _BATCH_SIZE.value, training=False)
    return scores.classification_scores(classifier, batches)


def language_model_scores(lm):
    """Scores of a Seq2SeqLM on the source: of texts, or of classes by their names."""
    if len(_TEXT_FIELDS.value) != 1:
        raise ValueError(f"--text_fields must be one field for a Seq2SeqLM. Received: {_TEXT_FIELDS.value}")
    (input_field,), target_field, names = _TEXT_FIELDS.value, _TARGET_FIELD.value, None
    if target_field is None:
        target_field = _LABEL_FIELD.value
        names = _LABEL_NAMES.value or sources.label_names(source(), target_field)
    known = [name for name in scores.TEXT_TO_TEXT_METRICS if name != "ranked_f1" or len(names or ()) == 2]
    check_metrics(known if names else known[:1])
    inputs, targets = scores.read_pairs(source(), input_field, target_field, names)
    return scores.text_to_text_scores(lm, inputs, targets, names, batch_size=_BATCH_SIZE.value)


def check_metrics(known):
    """Raises ValueError if --metrics names one that is not `known`, for this model and source."""
    unknown = sorted(set(_METRICS.value) - set(known))
    if unknown:
        raise ValueError(f"--metrics must be of {', '.join(known)} here. Received also: {', '.join(unknown)}")


def chosen(results, names):
    """The results of these names, and always the number of examples."""
    return {name: value for name, value in results.items() if not names or name in {*names, "num_examples"}}


def table(results):
    """Rows of name and value."""
    width = max(map(len, results))
    return "\n".join(f"{name:<{width}}  {value:.4f}".removesuffix(".0000") for name, value in results.items())


def main(_):
    """Preset -> source -> scores -> table and file."""
    if _OUTPUT.value:
        outputs.check_file("output", _OUTPUT.value, inputs=[_PRESET.value, *sources.paths(source())])
    task = presets.load_task(_PRESET.value)
    results = classifier_scores(task) if isinstance(task, TextClassifier) else language_model_scores(task)
    results = chosen(results, _METRICS.value)
    print(table(results))
    if _OUTPUT.value:
        facts = {"preset": _PRESET.value, "source": _SOURCE.value, "split": _SPLIT.value, "scores": results}
        outputs.write_file(_OUTPUT.value, f"{json.dumps(facts, indent=2)}\n".encode())


if __name__ == "__main__":
    run(main)
