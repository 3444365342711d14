"""One version of a model: a SavedModel in a Session of its own, as TF Serving runs it."""

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer ops that exported models hold)
from tensorflow.core.protobuf import error_codes_pb2
from tensorflow.python.saved_model import loader_impl

from serving.errors import ServingError, invalid_argument


class _Loader(loader_impl.SavedModelLoader):
    """Loads a SavedModel without the shapes of its inputs.

    TF Serving leaves it to the model's own ops whether a shape fits, while `Session.run` compares with the
    shape of the placeholder first. The signatures keep their shapes; only the placeholders lose them.
    """

    def get_meta_graph_def_from_tags(self, tags):
        meta_graph = super().get_meta_graph_def_from_tags(tags)
        signatures = meta_graph.signature_def.values()
        fed = {info.name.split(":")[0] for signature in signatures for info in signature.inputs.values()}
        for node in meta_graph.graph_def.node:
            if node.name in fed:
                node.attr["shape"].shape.Clear()
                node.attr["shape"].shape.unknown_rank = True
                node.attr.pop("_output_shapes", None)
        return meta_graph


class Servable:
    """A loaded version of a model.

    It runs in a Session, not by `tf.saved_model.load`, for the sake of the same answers: a model that a
    Session cannot run (see the export's notes on Keras variables) must fail here too, before it fails in
    production.

    Args:
        name: str. The model's name.
        version: int.
        path: str. The SavedModel's directory.

    Raises:
        Exception: whatever TensorFlow finds wrong with the directory.
    """

    def __init__(self, name, version, path):
        self.name = name
        self.version = version
        with tf.Graph().as_default() as graph:
            self._session = tf.compat.v1.Session(graph=graph)
            self._meta_graph = _Loader(path).load(self._session, [tf.saved_model.SERVING])

    @property
    def signatures(self):
        """The signatures, a dict of str to SignatureDef."""
        return self._meta_graph.signature_def

    def signature(self, name):
        """Returns the signature of that name.

        Raises:
            ServingError: if there is none.
        """
        if name not in self.signatures:
            raise invalid_argument(f'Serving signature name: "{name}" not found in signature def')
        return self.signatures[name]

    def run(self, signature_name, arrays, timeout_ms=0):
        """Runs a signature.

        Args:
            signature_name: str. "" for the default one.
            arrays: dict of str to array. A value for each input.
            timeout_ms: int. How long it may take; 0 for as long as it likes.

        Returns:
            dict of str to array, by the names of the outputs.

        Raises:
            ServingError: with the status and the words of the op that failed.
        """
        signature = self.signature(signature_name or "serving_default")
        feeds = {signature.inputs[name].name: array for name, array in arrays.items()}
        fetches = {name: info.name for name, info in sorted(signature.outputs.items())}
        options = tf.compat.v1.RunOptions(timeout_in_ms=timeout_ms) if timeout_ms else None
        try:
            outputs = self._session.run(fetches, feeds, options=options)
        except tf.errors.DeadlineExceededError as error:
            raise ServingError("DEADLINE_EXCEEDED", "Timed out waiting for notification") from error
        except tf.errors.OpError as error:
            # Session.run rewrites messages for Python users; the op's own words are in the error it caught.
            message = getattr(error.__context__, "message", error.message)
            raise ServingError(error_codes_pb2.Code.Name(error.error_code), message) from error
        return {name: _array(value) for name, value in outputs.items()}


def _array(value):
    """A scalar string comes as bytes, of which NumPy would make an array without their final NULs."""
    return np.asarray(value, object if isinstance(value, bytes) else None)
