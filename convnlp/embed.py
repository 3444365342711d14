r"""Writes a vector for each text, from a preset's encoder: for search, clustering or your own classifier.

    convnlp embed --preset=PRESET --source=csv:texts.csv --output=vectors.npy
    convnlp embed --preset=PRESET --text="A fine day."

Any preset will do, whether it was trained for a task or not. NAME.npy is a float32 array [N,D] with one row
per text, in order. NAME.jsonl, and the standard output, hold the fields of each record, and the vector as
`embedding`.
"""

import io

import numpy as np
from absl import flags

from convnlp import outputs
from convnlp.data import lengths
from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer, presets
from convnlp.models.pooled_encoder import FIXED_POOLING
from convnlp.models.preset_checks import PREPROCESSOR
from convnlp.prediction import program, rows
from convnlp.programs import run
from convnlp.tasks.rows import TEXT, EncoderRows, signature

_FORMATS = ("jsonl", "npy")

_POOLING = flags.DEFINE_enum(
    "pooling",
    "mean",
    FIXED_POOLING,
    "What the vector is: the mean or the maximum of the encoder's output over the tokens, or both; the means "
    "of all layers, which are best for a linear classifier; or both texts of a pair and their difference.",
)
_SEQUENCE_LENGTH = flags.DEFINE_integer(
    "sequence_length",
    None,
    "Tokens to read of each text. Default: the preset's; up to 1,024 if it was only pre-trained.",
    lower_bound=3,
)


def encoder(directory):
    """Returns a model whose encoder and preprocessor are the only parts in use."""
    backbone, tokenizer = Seq2SeqBackbone.from_preset(directory), Tokenizer.from_preset(directory)
    length = (
        _SEQUENCE_LENGTH.value
        or presets.entry(directory, PREPROCESSOR, "config", "encoder_sequence_length")
        or presets.entry(directory, PREPROCESSOR, "config", "sequence_length")
        or min(lengths.LONGEST, backbone.reading_stack.longest_text() or lengths.LONGEST)
    )
    return TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, length))


def main(_):
    """Texts -> encoder -> vectors."""
    format = program.output_format(_FORMATS)
    directory = program.preset()
    # Before anything is loaded, which checks the fields. A model of pairs has a vector for a single text too.
    num_texts, found = program.texts(directory, as_trained=False)
    model = encoder(directory)
    reader = EncoderRows(
        model.backbone,
        model.preprocessor.sequence_length,
        lambda text: model.preprocessor(text, y=None),
    )

    def embed(text):
        return {"embedding": model.pooled(reader.of_texts(text), _POOLING.value)}

    if num_texts == 1:
        function = signature(embed, text=TEXT)
    else:
        function = signature(lambda text, text_pair: embed((text, text_pair)), text=TEXT, text_pair=TEXT)
    longest = model.preprocessor.sequence_length - 1 if num_texts == 1 else None
    answered = program.answered(function, model.preprocessor.tokenizer, num_texts, found, longest)
    if format == "npy":
        vectors = np.array([answer["embedding"] for _, answer in answered], "float32")
        file = io.BytesIO()
        np.save(file, vectors)
        outputs.write_file(program.output(), file.getvalue())
        return
    with program.writer(format) as write:
        for record, answer in answered:
            write(rows.joined(record, rows.as_json(answer)))


if __name__ == "__main__":
    flags.adopt_module_key_flags(program)
    run(main)
