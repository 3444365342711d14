r"""Predicts texts with a preset: from the command line, from files, or from the standard input.

    convnlp predict --preset=RUN/preset --text="A fine day."
    convnlp predict --preset=RUN/preset --source=csv:new.csv --output=predicted.csv
    convnlp predict --preset=RUN/preset < lines.txt

Each text gives a row: the fields of its record and the model's answer. A classifier answers with `label` and
its `probability`, or with no label if --threshold is not reached; a classifier of several labels with
`labels`; a regressor with `score`; a question answerer with `answer`, `score` and the answer's place; a model
that writes text with `generated_text`. --scores adds the probabilities of all classes.
Rows are JSON lines, or a table if --output ends in .csv or .tsv; .gz after the ending compresses them. An
output file appears as a whole or not at all. For more than one machine can do, use convnlp batch-predict.
"""

from absl import flags

from convnlp import tasks
from convnlp.prediction import program, rows
from convnlp.programs import run

_FORMAT = flags.DEFINE_enum("format", None, rows.FORMATS, "Default: by the ending of --output, else jsonl.")
_THRESHOLD = flags.DEFINE_float(
    "threshold",
    None,
    "Minimum probability of a label. A classifier that is less sure gives none; a classifier of several "
    "labels gives all that reach it, by default 0.5.",
    0.0,
    1.0,
)
_SCORES = flags.DEFINE_bool("scores", False, "Also write the probability of every class.")


def main(_):
    """Texts -> preset -> rows."""
    format = program.output_format(rows.FORMATS, _FORMAT.value)
    directory = program.preset()
    num_texts, found = program.texts(directory)  # which checks the fields before anything is loaded
    model = tasks.load(directory)
    answers = tasks.task_of(model).answers(model)
    if _THRESHOLD.value is not None and not answers.takes_threshold:
        raise ValueError(
            "`threshold` must only be given for a preset that chooses labels. "
            f"Received: threshold={_THRESHOLD.value}, a {type(model).__name__}"
        )
    if _SCORES.value and answers.labels is None:
        raise ValueError(
            "`scores` must only be given for a preset that chooses labels. "
            f"Received: scores=True, a {type(model).__name__}"
        )
    if num_texts < len(answers.text_inputs):
        raise ValueError(
            f"`text_pair` must be given with `text`, or two `text_fields`, for a {type(model).__name__}, "
            f"which reads {' and '.join(answers.text_inputs)}. Received: one text each"
        )
    functions, _ = answers.signatures()
    name = "serving_default" if num_texts == 1 else "pair"
    if name not in functions:
        raise ValueError(f"`preset` must read pairs for two texts each. Received: a {type(model).__name__}")
    function = functions[name]
    with program.writer(format) as write:
        for record, answer in program.answered(function, model.preprocessor.tokenizer, num_texts, found):
            row = answers.row(rows.as_json(answer), _THRESHOLD.value)
            if not _SCORES.value:
                row.pop("scores", None)
            write(rows.joined(record, row))


if __name__ == "__main__":
    flags.adopt_module_key_flags(program)
    run(main)
