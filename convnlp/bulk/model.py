"""Runs a SavedModel that takes texts, in batches of similar length."""

import hashlib
import os

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.saved_model import loader_impl

from convnlp import saved_model_operations, saved_model_sums
from convnlp.bulk import outputs
from convnlp.prediction import asking

_VOCABULARY = ("assets", "vocabulary.spm")
_WEIGHTS = "variables.data-"  # variables.index holds their checksums
_NOT_THE_MODEL = ("assets.extra", "fingerprint.pb", "SHA256SUMS")


def text_inputs(directory, signature):
    """Returns the names of a signature's inputs, a sorted list, without loading the model.

    Args:
        directory: string, directory of a SavedModel, with saved_model.pb.
        signature: string, such as "serving_default".

    Raises:
        ValueError: if there is no such model or signature, an input is not a batch of texts, or an output has
            the name of a part of a row.
    """
    path = os.path.join(directory, "saved_model.pb")
    if not tf.io.gfile.exists(path):
        raise ValueError(f"`model` must be the directory of a SavedModel. Received: {directory!r}")
    try:
        graphs = saved_model_pb2.SavedModel.FromString(_contents(path)).meta_graphs
    except Exception as error:  # the class differs between versions of protobuf
        raise ValueError(f"{path} is damaged: {error}") from error
    signatures = {name: found for graph in graphs for name, found in graph.signature_def.items()}
    signatures.pop("__saved_model_init_op", None)  # which answers nothing
    if signature not in signatures:
        names = ", ".join(sorted(signatures))
        raise ValueError(f"`signature` must be one of the model's: {names}. Received: {signature!r}")
    inputs = signatures[signature].inputs
    for name, info in sorted(inputs.items()):
        if info.dtype != tf.string.as_datatype_enum or len(info.tensor_shape.dim) != 1:
            raise ValueError(
                f"`signature` must take one text per example. Received: {signature!r}, whose input {name!r} "
                f"is {tf.as_dtype(info.dtype).name} of rank {len(info.tensor_shape.dim)}"
            )
    outputs.check_names(signatures[signature].outputs)
    return sorted(inputs)


def fingerprint(directory):
    """Returns a hash of a SavedModel's graph, weights and assets, in hex, wherever the model is stored."""
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
        batch_size: int >= 1, examples per batch.

    Raises:
        ValueError: if the files do not match their checksums, if any (not checked behind a URL), or the graph
            reaches for more than it may (see `convnlp.saved_model_operations`).
    """

    def __init__(self, directory, signature, batch_size):
        import tensorflow_text  # also registers the tokenizer's operation

        if "://" not in directory:
            saved_model_sums.check(directory)
        saved_model_operations.check(loader_impl.parse_saved_model(directory), directory)
        self._model = tf.saved_model.load(directory)  # the function alone does not keep it alive
        self._lengths_of = asking.lengths_in_bytes
        vocabulary = os.path.join(directory, *_VOCABULARY)
        if tf.io.gfile.exists(vocabulary):  # a model exported by convnlp
            tokenizer = tensorflow_text.FastSentencepieceTokenizer(_contents(vocabulary))
            self._lengths_of = asking.lengths_in_tokens(tokenizer.tokenize)
        self._function = self._model.signatures[signature]
        self._names = sorted(self._function.structured_input_signature[1])
        self._batch_size = batch_size

    def predict(self, rows):
        """Returns the model's answers.

        Args:
            rows: list of tuples of bytes: for each example, the text of every input, in the inputs' order.

        Returns:
            list of dicts, output -> NumPy value, one per example, in the order of `rows`.

        Raises:
            ValueError: if the number of entries of an output differs from the number of examples.
        """
        return asking.in_batches(self._function, self._names, rows, self._batch_size, self._lengths_of)


def _contents(path):
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()
