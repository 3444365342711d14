"""Runs a TFLite file of `convnlp.export.tflite` with only ai-edge-litert, NumPy and sentencepiece.

    model = EdgeModel("sentiment.tflite")
    model.predict(["a gripping film"])  # [{"label": "positive", "scores": {"negative": 0.03, ...}}]

This module imports neither TensorFlow nor convnlp, so it can be copied beside an application.
"""

import concurrent.futures
import json
import os
import queue
import re
import threading
import zipfile
import zlib

import numpy as np
import sentencepiece
from ai_edge_litert.interpreter import Interpreter

FACTS = "model.json"
VOCABULARY = "vocabulary.spm"
_MOST_TOKENS = 512  # at a time, so that their activations stay in a core's cache
_MOST_BYTES = 2**28  # of an unpacked file of the archive; packed, it may be a thousand times smaller
_FACTS = {"inputs": str, "output": str, "sequence_length": int, "pad_token_id": int, "end_token_id": int}
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a pair, of which no UTF-8 can be made
_NOT_READABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    KeyError,
    ValueError,
)


class EdgeModel:
    """The model of a file, with its tokenizer and the names of its classes.

    Args:
        path: str. A file of `convnlp.export.tflite`, made for token ids.
        num_threads: int. How many threads share a single text, or compute the parts of a batch side by side,
            for which each of several has a copy of the weights, made when a batch first needs it. Default 1.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not such a file.

    Attributes:
        facts: dict with "inputs" ("ids"), "output" ("logits", "embedding" or a task's own), "num_texts" (2 if
            a single text has no answer), "mode", "sequence_length" (at which texts are cut), "labels" (None
            without classes), "pad_token_id" and "end_token_id".
    """

    def __init__(self, path, num_threads=1):
        try:
            with zipfile.ZipFile(path) as archive:
                self.facts = _checked(json.loads(_content(archive, FACTS)))
                vocabulary = _content(archive, VOCABULARY)
            self._tokenizer = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
        except _NOT_READABLE as error:
            raise ValueError(f"{path} is not a file of export.tflite: {error}") from error
        if self.facts["inputs"] != "ids":
            raise ValueError(
                f"{path} has its tokenizer inside, as operations of tensorflow_text that an app registers: "
                "export with --inputs=ids for this runner"
            )
        try:
            self._run = runner(Interpreter(model_path=str(path), num_threads=num_threads))
            # Shows damage that loading misses.
            self._run(np.full([1, 2], self.facts["end_token_id"], np.int32))
        except (RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{path} is not a file of export.tflite: {reason}") from error
        self._side_by_side = _SideBySide(str(path), num_threads) if num_threads > 1 else None

    @property
    def num_token_ids(self):
        """The number of pieces in the vocabulary; ids are in [0, num_token_ids)."""
        return self._tokenizer.get_piece_size()

    def token_ids(self, texts, pairs=None):
        """Returns token ids like those that the model was trained on, padded to the longest row.

        A text gives `tokens </s>`, a pair `first </s> second </s>`. The end of a text that is too long is cut
        off; of a pair, the longer text is cut until both fit.

        Args:
            texts: list of B >= 1 str.
            pairs: list of B str, the second texts. Default None.

        Returns:
            int32 [B,T].

        Raises:
            ValueError: if an argument is not such a list.
        """
        columns = _columns(texts, pairs)
        if not columns[0]:
            raise ValueError("`texts` must hold at least one text. Received: none")
        if pairs is None and self.facts.get("num_texts") == 2:  # files of older versions do not say
            raise ValueError(
                "`pairs` (--text_pair) must be given: this model reads two texts each. Received: one"
            )
        rows = [self._row(segments) for segments in zip(*map(self._tokenizer.encode, columns), strict=True)]
        longest = max(map(len, rows))
        pad = self.facts["pad_token_id"]
        return np.array([row + [pad] * (longest - len(row)) for row in rows], np.int32)

    def run(self, token_ids):
        """Returns the output [B,N] for token ids int32 [B,T]: logits, an embedding, or the task's own.

        Rows of the same length run together, without the pads behind them: a pad costs LiteRT as much work
        as a token, and in a batch of mixed lengths more than half of the positions may be pads. Many rows run
        some at a time, because the activations of thousands of tokens do not fit into a core's cache.
        """
        if len(token_ids) < 2:
            return self._run(token_ids)
        lengths = _lengths(token_ids, self.facts["pad_token_id"])
        groups = [rows for length in np.unique(lengths) for rows in _parts(lengths == length, length)]
        parts = [np.ascontiguousarray(token_ids[rows, : lengths[rows[0]]]) for rows in groups]
        if self._side_by_side is not None and len(parts) > 1 and self._side_by_side.prepare(len(parts)):
            found = self._side_by_side.run(parts)
        else:
            found = list(map(self._run, parts))
        return np.concatenate(found)[np.argsort(np.concatenate(groups))]

    def predict(self, texts, pairs=None):
        """Returns the answer to each text or pair of texts.

        Args:
            texts: list of str.
            pairs: list of str, the second texts. Default None.

        Returns:
            list of dicts: {"label": str, "scores": {label: probability}}; if a text may have several labels,
            {"labels": list of the labels with a score of at least 0.5, "scores": ...}; if the model has no
            classes, or an output of its task's own, {facts["output"]: list of float, or a float if it is only
            one}: "embedding", "score".

        Raises:
            ValueError: as for `token_ids`, but there may be no texts.
        """
        columns = _columns(texts, pairs)
        if not columns[0]:
            return []
        outputs = self.run(self.token_ids(*columns))
        labels = self.facts["labels"]
        if labels is None or self.facts["output"] not in ("logits", "probabilities"):
            return [{self.facts["output"]: row.tolist() if len(row) > 1 else row.item()} for row in outputs]
        if self.facts["output"] == "probabilities":
            named = [dict(zip(labels, row.tolist(), strict=True)) for row in outputs]
            return [{"labels": [name for name in row if row[name] >= 0.5], "scores": row} for row in named]
        return [
            {"label": labels[row.argmax()], "scores": dict(zip(labels, row.tolist(), strict=True))}
            for row in softmax(outputs)
        ]

    def _row(self, segments):
        room = self.facts["sequence_length"] - len(segments)
        kept = [room]
        if len(segments) == 2:
            first = min(len(segments[0]), max(room - len(segments[1]), room - room // 2))
            kept = [first, room - first]
        row = []
        for segment, count in zip(segments, kept, strict=True):
            row += [*segment[:count], self.facts["end_token_id"]]
        return row


class _SideBySide:
    """Runs arrays in several threads, each with an interpreter: LiteRT gains little from sharing a short one.

    Args:
        path: str.
        num_threads: int.
    """

    def __init__(self, path, num_threads):
        self._path, self._num_threads = path, num_threads
        self._file = _identity(path)
        self._free, self._num_made, self._making = queue.SimpleQueue(), 0, threading.Lock()
        self._threads = concurrent.futures.ThreadPoolExecutor(num_threads)

    def prepare(self, count):
        """Makes the interpreters that `count` arrays need and that are not there yet.

        None is made from a file that is no longer the one that was loaded: its answers could be others.

        Returns:
            bool. Whether there is at least one, so that `run` can be called.
        """
        with self._making:
            while self._num_made < min(count, self._num_threads) and _identity(self._path) == self._file:
                run = runner(Interpreter(model_path=self._path, num_threads=1))
                if _identity(self._path) != self._file:  # replaced meanwhile
                    break
                self._free.put(run)
                self._num_made += 1
            return self._num_made > 0

    def run(self, arrays):
        """Returns the outputs of arrays, in their order; begins with the last ones, which are the longest."""
        return list(self._threads.map(self._run, arrays[::-1]))[::-1]

    def _run(self, array):
        run = self._free.get()
        try:
            return run(array)
        finally:
            self._free.put(run)


def _identity(path):
    """Returns what differs between a file and one that replaces it; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _columns(texts, pairs):
    """Returns the texts, and the second ones if there are any, as lists of equal length."""
    columns = {"texts": texts} if pairs is None else {"texts": texts, "pairs": pairs}
    for name, column in columns.items():
        columns[name] = [column] if isinstance(column, bytes) else list(column)
        wrong = [column] if isinstance(column, str) else [x for x in columns[name] if not isinstance(x, str)]
        if wrong:
            raise ValueError(f"`{name}` must be a list of str. Received: {wrong[0]!r:.100}")
        if halves := [text for text in columns[name] if _SURROGATE.search(text)]:
            raise ValueError(f"`{name}` must not hold half of a surrogate pair. Received: {halves[0]!r:.100}")
    counts = [*map(len, columns.values())]
    if len({*counts}) > 1:
        raise ValueError(
            f"`pairs` must have a text for each of `texts`. Received: {counts[1]} for {counts[0]}"
        )
    return [*columns.values()]


def _content(archive, name):
    """Returns a file of the archive; raises ValueError if it would fill the memory."""
    size = archive.getinfo(name).file_size
    if size > _MOST_BYTES:
        raise ValueError(f"{name} has {size} bytes, more than {_MOST_BYTES}")
    with archive.open(name) as file:
        return file.read(size)  # never more than that, even if more could be unpacked


def _checked(facts):
    """Returns the facts; raises ValueError if one is missing or of the wrong type."""
    if not isinstance(facts, dict):
        raise ValueError(f"{FACTS} must hold a JSON object")
    for name, kind in _FACTS.items():
        if type(facts.get(name)) is not kind:
            raise ValueError(f"{name!r} in {FACTS} must be of type {kind.__name__}")
    labels = facts.get("labels")
    if labels is not None and not (
        isinstance(labels, list) and all(isinstance(each, str) for each in labels)
    ):
        raise ValueError(f"'labels' in {FACTS} must be a list of strings, or null")
    facts["labels"] = labels
    return facts


def _lengths(token_ids, pad):
    """Returns the lengths of the rows without trailing pads, at least 1: int32 [B,T] -> int [B]."""
    positions = np.arange(1, token_ids.shape[1] + 1)
    return np.maximum((positions * (token_ids != pad)).max(axis=1), 1)


def _parts(chosen, length):
    """Splits the indices of the chosen rows, bool [B], all of one length, into groups that run fastest."""
    rows, count = np.flatnonzero(chosen), max(_MOST_TOKENS // length, 1)
    return [rows[start : start + count] for start in range(0, len(rows), count)]


def softmax(logits):
    """Returns the probabilities of classes for their logits, both float [B,C]."""
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def runner(interpreter):
    """Returns a function that runs a LiteRT interpreter with one input array and one output array.

    Batch size and length may change from call to call: the tensors are resized whenever the shape changes.
    Threads take turns: one must not resize or fill the input while another runs.
    """
    source, target = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    shape, in_use = None, threading.Lock()

    def run(array):
        nonlocal shape
        with in_use:
            if shape != array.shape:
                interpreter.resize_tensor_input(source, array.shape)
                interpreter.allocate_tensors()
                shape = array.shape
            interpreter.set_tensor(source, array)
            interpreter.invoke()
            return interpreter.get_tensor(target)

    return run
