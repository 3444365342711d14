"""Texts to the token ids that our models read, with sentencepiece alone: what a peer has in front of it."""

import json
import pathlib

import numpy as np
import sentencepiece

FACTS, VOCABULARY = "facts.json", "vocabulary.spm"


class Pieces:
    """The tokenizer of a folder that `benchmarks.inferring.model.write` has written.

    Args:
        folder: path.
    """

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        self._end, self._room = facts["end_token_id"], facts["sequence_length"] - 1
        self._tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / VOCABULARY))

    def __call__(self, texts):
        """A list of B str -> int32 [B,T], `tokens, end`, padded with 0 to the longest."""
        rows = [[*row[: self._room], self._end] for row in self._tokenizer.encode(list(texts))]
        ids = np.zeros([len(rows), max(map(len, rows))], np.int32)
        for row, target in zip(rows, ids, strict=True):
            target[: len(row)] = row
        return ids
