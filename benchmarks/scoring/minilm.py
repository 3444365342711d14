"""A peer: frozen sentence embeddings by all-MiniLM-L6-v2 in int8, from its files, with ONNX Runtime."""

import functools
import pathlib

import numpy as np

FILES = ("model.onnx", "tokenizer.json")
MODULES = ("onnxruntime", "tokenizers")
_LENGTH, _BATCH_SIZE = 256, 32  # tokens, as in the model's own configuration; texts


def embeddings(directory, texts):
    """Returns mean final states, normalised to length 1 as by sentence-transformers: float32 [N,384].

    Args:
        directory: path with `FILES`.
        texts: list of str.
    """
    order = np.argsort([len(text) for text in texts], kind="stable")
    found = np.empty((len(texts), 384), "float32")
    session, pieces = _loaded(str(directory))
    for start in range(0, len(texts), _BATCH_SIZE):
        chosen = order[start : start + _BATCH_SIZE]
        found[chosen] = embedded(session, *token_ids(pieces, [texts[i] for i in chosen]))
    return found


def token_ids(pieces, texts):
    """Returns the token ids and the mask of B texts, padded to the longest: int64 [B,T] each."""
    encoded = pieces.encode_batch(texts)
    return (np.array([getattr(row, name) for row in encoded], "int64") for name in ("ids", "attention_mask"))


def embedded(session, ids, mask):
    """Returns the embeddings of token ids int64 [B,T] with a mask of ones and zeros: float32 [B,384]."""
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (states,) = session.run(None, inputs)
    means = np.sum(states * mask[..., None], axis=1) / np.sum(mask, axis=1, keepdims=True)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


@functools.cache
def _loaded(directory):
    # Imported here because only this peer needs it (requirements-bench.txt).
    import onnxruntime

    return onnxruntime.InferenceSession(str(pathlib.Path(directory, FILES[0]))), tokenizer(directory)


def tokenizer(directory):
    """Returns its tokenizer, which truncates texts and pads them to the longest."""
    from tokenizers import Tokenizer

    found = Tokenizer.from_file(str(pathlib.Path(directory, FILES[1])))
    found.enable_truncation(_LENGTH)
    found.enable_padding()
    return found
