"""A version of a model that runs texts through the TFLite file in its directory: `--prefer_tflite_model`.

With this flag, TF Serving runs only that file, which takes token ids. This server first runs the tokenizer
that the file contains, so clients send the same requests as without the flag; the SavedModel beside it
answers what the file cannot, such as `explain`.
"""

import queue

import numpy as np

from convnlp.export.edge_model import EdgeModel, softmax
from convnlp.serving.core.servable import Servable

_PAIR = ("text", "text_pair")
_INPUTS = {  # by signature; the first that fit
    "serving_default": (("text",), _PAIR),
    "pair": (_PAIR,),
    "embed": (("text",),),
    "ids": (("token_ids",),),
}


class LiteServable(Servable):
    """A `Servable` that answers with LiteRT whatever its TFLite file can answer.

    These are the signatures `serving_default`, `pair` and `ids` of classifiers, and `embed` of language
    models. A run of the file takes one core and cannot be stopped; several may run at the same time, each in
    its own interpreter.

    Args:
        name, version: as for `Servable`.
        file: str. The TFLite file.
        path, timeout_ms: as for `Servable`.
        num_interpreters: int. The most runs of the file at the same time.
        num_runs: as for `Servable`.

    Raises:
        ValueError: if the file was not written by `convnlp.export.tflite` for token ids.
        Exception: as for `Servable`.
    """

    def __init__(self, name, version, file, path, timeout_ms=0, num_interpreters=1, num_runs=None):
        self._interpreters = queue.LifoQueue()  # the last one to run still has its memory in the cache
        for _ in range(num_interpreters):
            model = EdgeModel(file)
            self._interpreters.put(model)
        super().__init__(name, version, path, timeout_ms, num_runs)
        self._num_ids = model.num_token_ids
        self._answers = _answers(model.facts)
        self._asked = {}  # the tensors fed to a signature -> (its columns, tensor -> output)
        for signature, possible in _INPUTS.items():
            found = self.signatures.get(signature)
            columns = next((each for each in possible if found and {*found.inputs} == {*each}), None)
            if columns is None or not {*found.outputs} <= {*self._answers}:
                continue
            inputs = tuple(found.inputs[column].name for column in columns)
            outputs = {info.name: output for output, info in found.outputs.items()}
            self._asked[frozenset(inputs)] = inputs, outputs

    def run(self, feeds, fetches, cancellation=None):
        """Like `Servable.run`."""
        inputs, outputs = self._asked.get(frozenset(feeds), ((), {}))
        columns = _readable([feeds[name] for name in inputs])
        interpreters = self._interpreters
        if interpreters is None or not columns or not {*fetches} <= {*outputs} or not self._fit(columns):
            return super().run(feeds, fetches, cancellation)
        model = interpreters.get()
        try:
            if cancellation:
                cancellation.check()
            is_ids = isinstance(columns[0], np.ndarray)
            raw = model.run(columns[0] if is_ids else model.token_ids(*columns))
        finally:
            interpreters.put(model)
        return [self._answers[outputs[name]](raw) for name in fetches]

    def _fit(self, columns):
        """Whether the file can answer; otherwise the SavedModel gives an answer or the right error."""
        first = columns[0]
        if isinstance(first, np.ndarray):
            return first.size > 0 and 0 <= first.min() <= first.max() < self._num_ids
        return all(len(column) == len(first) > 0 for column in columns)

    def close(self):
        """Like `Servable.close`; runs that wait for an interpreter still get it."""
        self._interpreters = None
        super().close()


def _readable(columns):
    """Returns token ids int32 [B,T] unchanged and texts as lists of str; [] if a column is neither."""
    if all(column.dtype == np.int32 and column.ndim == 2 for column in columns):
        return columns
    if not all(column.dtype == object and column.ndim == 1 for column in columns):
        return []
    try:
        return [[text.decode() for text in column.tolist()] for column in columns]
    except UnicodeDecodeError:  # the two tokenizers treat such bytes differently
        return []


def _answers(facts):
    """Returns how to compute the outputs of signatures from the file's output [B,N]: name -> function."""
    labels = np.array([label.encode() for label in facts["labels"] or ()], object)
    return {
        "logits": {"label": lambda logits: labels[np.argmax(logits, axis=1)], "scores": softmax},
        "probabilities": {
            "labels": lambda scores: np.where(scores >= 0.5, labels, b""),
            "scores": lambda scores: scores,
        },
        "embedding": {"embedding": lambda vectors: vectors},
    }.get(facts["output"], {})
