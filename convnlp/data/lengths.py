"""Chooses how many tokens of a text to read, from the lengths of the texts."""

import numpy as np
from absl import logging

from convnlp.data import errors, sources

SHARE = 0.95  # share of the texts that must fit in full
SHORTEST, LONGEST = 128, 1_024
MULTIPLE = 64
SAMPLE_TEXTS = 20_000


def fitting(source, fields, tokenizer, most=None):
    r"""Returns the length that fits most texts, between `SHORTEST` and `LONGEST`; logs it if not `SHORTEST`.

    Args:
        source: `Source`; its first `SAMPLE_TEXTS` examples decide.
        fields: tuple of one string, or of two for pairs.
        tokenizer: has `ragged`.
        most: int, which the length must not exceed; None for no such limit.

    Returns:
        int, tokens; a multiple of `MULTIPLE`, or `most`.

    Raises:
        SourceError: if an example cannot be read.

    Example:
    >>> rows = [{"text": "the river and " * count} for count in (10, 50)]
    >>> _ = open("texts.jsonl", "w").write("\n".join(map(json.dumps, rows)))
    >>> fitting(Source("jsonl:texts.jsonl"), ("text",), tokenizer)
    320
    """
    texts = sources.read(source, fields).take(SAMPLE_TEXTS).batch(1_000)
    with errors.unwrapped():
        counts = [_num_tokens([batch[name] for name in fields], tokenizer) for batch in texts]
    lengths = np.concatenate(counts)
    length = int(np.quantile(lengths, SHARE, method="higher"))
    length = min(max(-(-length // MULTIPLE) * MULTIPLE, SHORTEST), LONGEST, most or LONGEST)
    if length != SHORTEST:
        logging.warning("%s: using data.input_length=%d", source, length)
    return length


def _num_tokens(texts, tokenizer):
    """Returns the number of tokens of each example, with an end token after each text: int array [B]."""
    return sum(tokenizer.ragged(text).row_lengths().numpy() + 1 for text in texts)
