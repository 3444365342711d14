"""Turns texts into our models' token ids with sentencepiece alone, for the other libraries."""

import json
import pathlib

import numpy as np
import sentencepiece

FACTS, VOCABULARY = "facts.json", "vocabulary.spm"


class Pieces:
    """The tokenizer of a directory that `benchmarks.inferring.model.written` wrote.

    Args:
        folder: path.
    """

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        self._end, self._room = facts["end_token_id"], facts["sequence_length"] - 1
        self._tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / VOCABULARY))

    def __call__(self, texts):
        """Turns a list of B str into int32 [B,T], each row `tokens, end`, padded with 0 to the longest."""
        rows = [[*row[: self._room], self._end] for row in self._tokenizer.encode(list(texts))]
        ids = np.zeros([len(rows), max(map(len, rows))], np.int32)
        for row, target in zip(rows, ids, strict=True):
            target[: len(row)] = row
        return ids
