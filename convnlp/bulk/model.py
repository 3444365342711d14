"""A SavedModel that takes texts, asked in batches of texts of much the same length."""

import hashlib
import os

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from convnlp import saved_model_sums
from convnlp.prediction import asking

_VOCABULARY = ("assets", "vocabulary.spm")
_WEIGHTS = "variables.data-"  # their checksums are in variables.index
_NOT_THE_MODEL = ("assets.extra", "fingerprint.pb", "SHA256SUMS")


def text_inputs(directory, signature):
    """Names of a signature's inputs, sorted; the model is not loaded.

    Args:
        directory: string, a SavedModel: with saved_model.pb in it.
        signature: string, such as "serving_default".

    Raises:
        ValueError: if there is no such model or signature, or an input is not a batch of texts.
    """
    path = os.path.join(directory, "saved_model.pb")
    if not tf.io.gfile.exists(path):
        raise ValueError(f"`model` must be the directory of a SavedModel. Received: {directory!r}")
    try:
        graphs = saved_model_pb2.SavedModel.FromString(_contents(path)).meta_graphs
    except Exception as error:  # protobuf's own class moves between its versions
        raise ValueError(f"{path} is damaged: {error}") from error
    signatures = {name: found for graph in graphs for name, found in graph.signature_def.items()}
    if signature not in signatures:
        names = ", ".join(sorted(set(signatures) - {"__saved_model_init_op"}))
        raise ValueError(f"`signature` must be one of the model's: {names}. Received: {signature!r}")
    inputs = signatures[signature].inputs
    for name, info in sorted(inputs.items()):
        if info.dtype != tf.string.as_datatype_enum or len(info.tensor_shape.dim) != 1:
            raise ValueError(
                f"`signature` must take one text per example. Received: {signature!r}, whose input {name!r} "
                f"is {tf.as_dtype(info.dtype).name} of rank {len(info.tensor_shape.dim)}"
            )
    return sorted(inputs)


def fingerprint(directory):
    """A hash that tells a SavedModel from another one, wherever it lies: graph, weights and assets."""
    digest = hashlib.sha256()
    for folder, folders, names in tf.io.gfile.walk(directory):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), directory)
            if not (name.startswith(_WEIGHTS) or path.startswith(_NOT_THE_MODEL)):
                digest.update(
                    f"{path}\n".encode() + hashlib.sha256(_contents(f"{directory}/{path}")).digest()
                )
    return digest.hexdigest()[:16]


class Predictor:
    """A loaded SavedModel.

    Args:
        directory: string.
        signature: string; its inputs are texts, its outputs have one entry per example.
        batch_size: int >= 1, texts at a time.

    Raises:
        ValueError: if its files have sums, and are not those; not looked at behind a URL.
    """

    def __init__(self, directory, signature, batch_size):
        import tensorflow_text  # which registers the tokenizer's operation, too

        if "://" not in directory:
            saved_model_sums.check(directory)
        self._model = tf.saved_model.load(directory)  # which the function alone does not keep
        self._lengths_of = asking.lengths_in_bytes
        vocabulary = os.path.join(directory, *_VOCABULARY)
        if tf.io.gfile.exists(vocabulary):  # of a model that convnlp has exported
            tokenizer = tensorflow_text.FastSentencepieceTokenizer(_contents(vocabulary))
            self._lengths_of = asking.lengths_in_tokens(tokenizer.tokenize)
        self._function = self._model.signatures[signature]
        self._names = sorted(self._function.structured_input_signature[1])
        self._batch_size = batch_size

    def predict(self, rows):
        """What the model answers.

        Args:
            rows: list of tuples of bytes: of each example the text of every input, in the inputs' order.

        Returns:
            list of dicts, output -> NumPy value, one per example, in the order of `rows`.

        Raises:
            ValueError: if an output has another number of entries than there are examples.
        """
        return asking.in_batches(self._function, self._names, rows, self._batch_size, self._lengths_of)


def _contents(path):
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()
