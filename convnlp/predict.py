r"""Predicts texts with a preset: from the command line, from files, or from the standard input.

    python -m convnlp.predict --preset=RUN/preset --text="A fine day."
    python -m convnlp.predict --preset=RUN/preset --source=csv:new.csv --output=predicted.csv
    python -m convnlp.predict --preset=RUN/preset < lines.txt

Each text gives a row: what stood in its record, and the answer of the model. A classifier's is `label` and
its `probability`, or no label where --threshold is not reached; one of several labels has `labels`, a
regressor `score`, one that answers questions `answer`, `score` and its place, a model that writes text
`generated_text`. --scores adds the probabilities of all classes.
Rows are JSON-lines, or CSV where --output ends in .csv; an output file is there whole or not at all. For more
than one machine can do there is convnlp.batch_predict.
"""

from absl import flags

from convnlp import tasks
from convnlp.prediction import program, rows
from convnlp.programs import run

_FORMAT = flags.DEFINE_enum("format", None, rows.FORMATS, "Default: by the ending of --output, else jsonl.")
_THRESHOLD = flags.DEFINE_float(
    "threshold",
    None,
    "Least probability of a label: a classifier that is less sure gives none; one of several labels gives "
    "all that reach it, by default those of 0.5.",
    0.0,
    1.0,
)
_SCORES = flags.DEFINE_bool("scores", False, "Write the probability of every class too.")


def main(_):
    """Texts -> preset -> rows."""
    format = program.output_format(rows.FORMATS, _FORMAT.value)
    directory = program.preset()
    model = tasks.load(directory)
    answers = tasks.task_of(model).answers(model)
    if _THRESHOLD.value is not None and not answers.takes_threshold:
        raise ValueError(
            "`threshold` must only be given for a preset that chooses labels. "
            f"Received: threshold={_THRESHOLD.value}, a {type(model).__name__}"
        )
    num_texts, found = program.texts(directory)
    if num_texts < len(answers.text_inputs):
        raise ValueError(
            f"`text_pair` must be given beside `text`, or two `text_fields`, for a {type(model).__name__}: "
            f"it reads {' and '.join(answers.text_inputs)}. Received: one text each"
        )
    functions, _ = answers.signatures()
    function = functions["serving_default" if num_texts == 1 else "pair"]
    with program.writer(format) as write:
        for record, answer in program.answered(function, model.preprocessor.tokenizer, num_texts, found):
            row = answers.row(rows.as_json(answer), _THRESHOLD.value)
            if not _SCORES.value:
                row.pop("scores", None)
            write(rows.joined(record, row))


if __name__ == "__main__":
    flags.adopt_module_key_flags(program)
    run(main)
