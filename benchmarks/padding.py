r"""How many tokens a model computes per token of its texts, depending on which texts share a batch.

    python -m benchmarks.padding --source='jsonl:DATA/classification/*.test.jsonl.gz' --json=FILE

A batch is as long as its longest text, rounded up as in an exported model (`convnlp.tasks.rows.ROUND_TO`).
The rest of it is pads, which cost as much as tokens. No times are measured: the figures are the same on any
machine. `convnlp predict`, `embed` and `batch-predict` make batches "sorted by tokens". The other forms
are: texts "as they come", from a client that ignores lengths; the same batches in a model that was exported
with --group_size ("in groups"); batches "sorted by bytes"; and "packed" rows, each shared by several texts,
almost without pads.
"""

import dataclasses

import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks import program
from benchmarks.rows import Row
from convnlp.data import Source, sources
from convnlp.data.packing import first_fit
from convnlp.models import Tokenizer
from convnlp.models.reading import ROUND_TO
from convnlp.prediction import asking

NAME = "tokens computed per token"
_PRESET = "dynamic_conv_mini_en"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is counted.

    Args:
        num_texts: int, how many of the first texts are used; at most `asking.CHUNK`, which the programs
            sort at a time.
        batch_size: int.
        length: int, number of tokens to which texts are truncated, and length of a packed row.
        group_size: int, see `convnlp.tasks.length_groups`.
    """

    num_texts: int = asking.CHUNK
    batch_size: int = 32
    length: int = 512
    group_size: int = 8


FULL = Settings()
SHORT = Settings(num_texts=256)


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("source", "pydocs", "Texts: csv:GLOB, jsonl:GLOB, ... (docs/sources.md).")
    flags.DEFINE_string("split", "train", "Split of the source.")
    flags.DEFINE_string("text_field", "text", "Field of the text.")


def rows(settings):
    """Yields a row for each way to make batches, compared with batches of texts as they come."""
    args, texts = flags.FLAGS, []
    for block in sources.read_blocks(Source(args.source, args.split), (args.text_field,)):
        texts += block[args.text_field].numpy().tolist()
        if len(texts) >= settings.num_texts:
            break
    texts = texts[: settings.num_texts]
    tokenizer = Tokenizer.from_preset(_PRESET)
    found = counts(texts, tokenizer.ragged, settings)
    setting = {"source": args.source, **dataclasses.asdict(settings), "num_texts": len(texts)}
    lengths = num_tokens(texts, tokenizer.ragged, settings.length)
    detail = {"num_tokens": int(lengths.sum()), "median_length": float(np.median(lengths))}
    for form, value in found.items():
        yield Row(
            NAME, {**setting, "form": form}, value, found["as they come"], "tokens", "lower", None, detail
        )


def num_tokens(texts, tokenize, length):
    """Returns the number of tokens that are read of each text, including its end token: int [N]."""
    return np.minimum(asking.lengths_in_tokens(tokenize)([(text,) for text in texts]) + 1, length)


def counts(texts, tokenize, settings):
    """Returns the computed tokens per token for each way to make batches.

    Args:
        texts: list of bytes.
        tokenize: function from strings [N] to a ragged tensor of N rows of tokens.
        settings: `Settings`; `num_texts` is ignored.

    Returns:
        dict of floats.
    """
    lengths = num_tokens(texts, tokenize, settings.length)
    total = lengths.sum()

    def asked(lengths_of, group_size=settings.batch_size):
        """Returns how many tokens are computed if the programs sort the texts by `lengths_of`."""
        computed = 0

        def function(text):
            nonlocal computed
            of_batch = np.sort(num_tokens(text.numpy().tolist(), tokenize, settings.length))
            for start in range(0, len(of_batch), group_size):
                group = of_batch[start : start + group_size]
                computed += len(group) * min(-(-group[-1] // ROUND_TO) * ROUND_TO, settings.length)
            return {"answer": tf.zeros(len(text))}

        asking.in_batches(function, ["text"], [(text,) for text in texts], settings.batch_size, lengths_of)
        return computed

    return {
        "as they come": asked(lambda rows: np.zeros(len(rows))) / total,
        "in groups": asked(lambda rows: np.zeros(len(rows)), settings.group_size) / total,
        "sorted by bytes": asked(asking.lengths_in_bytes) / total,
        "sorted by tokens": asked(asking.lengths_in_tokens(tokenize)) / total,
        "packed": _packed(lengths, settings.length) / total,
    }


def _packed(lengths, row_length):
    """Returns the tokens of the packed rows: the longest text first, each in the first row with room."""
    rows, _, _ = first_fit(np.sort(lengths)[::-1, np.newaxis], np.array([row_length]))
    return (rows.max() + 1) * row_length


if __name__ == "__main__":
    define_flags()
    program.run(rows, full=FULL, short=SHORT)
