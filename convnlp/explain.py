r"""Shows which words a classifier's answers rest on.

    python -m convnlp.explain --preset=RUN/preset --text="A fine day."
    python -m convnlp.explain --preset=RUN/preset --source=csv:new.csv --output=explained.jsonl

Each text gives a row: the fields of its record, `label`, `probability`, and `words`, a list of [word,
importance]. The importance says by how much the logarithm of the label's probability falls without the word's
pieces, each left out by itself. It costs one forward pass per piece.
"""

from absl import flags

from convnlp import tasks
from convnlp.prediction import program, rows, words
from convnlp.programs import run

_FORMATS = ("jsonl",)


def main(_):
    """Texts -> preset -> rows."""
    format = program.output_format(_FORMATS)
    directory = program.preset()
    num_texts, found = program.texts(directory)  # which checks the fields before anything is loaded
    model = tasks.load(directory)
    answers = tasks.task_of(model).answers(model)
    functions, _ = answers.signatures()
    if "explain" not in functions:
        raise ValueError(
            f"`preset` must be a classifier with one label per text. Received: preset={directory}, a "
            f"{type(model).__name__}"
        )
    if num_texts != 1:
        raise ValueError(f"`preset` must read single texts. Received: pairs, preset={directory}")
    with program.writer(format) as write:
        tokenizer = model.preprocessor.tokenizer
        for record, answer in program.answered(functions["explain"], tokenizer, num_texts, found):
            answer = rows.as_json(answer)
            row = answers.row(answer)
            del row["scores"]
            row["words"] = words.of_pieces(answer["tokens"], answer["importances"])
            write(rows.joined(record, row))


if __name__ == "__main__":
    flags.adopt_module_key_flags(program)
    run(main)
