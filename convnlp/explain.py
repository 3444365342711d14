r"""Shows which words a classifier's answers rest on.

    convnlp explain --preset=RUN/preset --text="A fine day."
    convnlp explain --preset=RUN/preset --source=csv:new.csv --output=explained.jsonl

Each text gives a row: the fields of its record, `label`, `probability`, and `words`, a list of [word,
importance]. The importance says by how much the logarithm of the label's probability falls without the word's
pieces, each left out by itself. It costs one forward pass per piece. A pair has the words of its second text
in `words_pair`.
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
    function = answers.explaining(num_texts)
    if function is None:
        raise ValueError(
            f"`preset` must be a classifier with one label per text. Received: preset={directory}, a "
            f"{type(model).__name__}"
        )
    with program.writer(format) as write:
        tokenizer = model.preprocessor.tokenizer
        for record, answer in program.answered(function, tokenizer, num_texts, found):
            answer = rows.as_json(answer)
            row = answers.row(answer)
            del row["scores"]
            found_words = words.of_texts(answer["tokens"], answer["importances"], num_texts)
            row.update(zip(("words", "words_pair")[:num_texts], found_words, strict=True))
            write(rows.joined(record, row))


if __name__ == "__main__":
    flags.adopt_module_key_flags(program)
    run(main)
