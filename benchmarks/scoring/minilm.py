"""Frozen sentence embeddings by all-MiniLM-L6-v2 in int8, as a peer: weight files alone, by ONNX Runtime."""

import functools
import pathlib

import numpy as np

FILES = ("model.onnx", "tokenizer.json")
_LENGTH, _BATCH_SIZE = 256, 32  # tokens of the model's own configuration; texts


def embeddings(directory, texts):
    """The mean of a text's last states, of length 1, as sentence-transformers does it: float32 [N,384].

    Args:
        directory: path with `FILES`.
        texts: list of str.
    """
    order = np.argsort([len(text) for text in texts], kind="stable")
    found = np.empty((len(texts), 384), "float32")
    session, tokenizer = _loaded(str(directory))
    for start in range(0, len(texts), _BATCH_SIZE):
        chosen = order[start : start + _BATCH_SIZE]
        encoded = tokenizer.encode_batch([texts[i] for i in chosen])
        ids = np.array([row.ids for row in encoded], "int64")
        mask = np.array([row.attention_mask for row in encoded], "int64")
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (states,) = session.run(None, inputs)
        means = np.sum(states * mask[..., None], axis=1) / np.sum(mask, axis=1, keepdims=True)
        found[chosen] = means / np.linalg.norm(means, axis=1, keepdims=True)
    return found


@functools.cache
def _loaded(directory):
    # Not on import: only this peer needs them (requirements-bench.txt).
    import onnxruntime
    from tokenizers import Tokenizer

    model, vocabulary = (str(pathlib.Path(directory, name)) for name in FILES)
    tokenizer = Tokenizer.from_file(vocabulary)
    tokenizer.enable_truncation(_LENGTH)
    tokenizer.enable_padding()
    return onnxruntime.InferenceSession(model), tokenizer
