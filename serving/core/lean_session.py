"""Loads a SavedModel into a Session that takes little memory, and little time to prepare a run.

By default a Session takes ten times as much memory as the weights of a small model: every part of TensorFlow
that handles its functions keeps a copy of them, about 12 MB for a file of 3 MB. And every choice of inputs
and outputs is optimised separately.
"""

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer ops that exported models hold)
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.saved_model import loader_impl

from convnlp import saved_model_operations

_TAGS = [tf.saved_model.SERVING]


class _Loader(loader_impl.SavedModelLoader):
    """Loads a SavedModel without the shapes of its inputs.

    TF Serving lets the model's own ops decide whether a shape fits, whereas a Python Session first compares
    it with the shape of the placeholder. Signatures keep their shapes; only the placeholders lose them.
    """

    def __init__(self, path):
        super().__init__(path)
        saved_model_operations.check(self._saved_model, path)

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


class LeanSession:
    """A SavedModel in a Session.

    The Session takes the graph as it is at the first run, and copies all functions of the model whenever the
    graph has grown since. So anything to be added belongs between the two steps: after this, before
    `restore`.

    Args:
        path: str. The SavedModel's directory.
        config: ConfigProto. It is modified.

    Attributes:
        session: tf.compat.v1.Session.
        signatures: dict of str to SignatureDef.

    Raises:
        ValueError: if the graph reaches for more than it may (see `convnlp.saved_model_operations`).
        Exception: whatever TensorFlow finds wrong with the directory.
    """

    def __init__(self, path, config):
        config.experimental.disable_output_partition_graphs = True  # a copy of each graph, for debugging
        # This optimiser takes a third of the time, and does not change the graphs of exported models.
        config.graph_options.rewrite_options.disable_tfg_optimizer = True
        self._loader = _Loader(path)
        with tf.Graph().as_default() as graph:
            self.session = tf.compat.v1.Session(graph=graph, config=config)
            self._saver, _ = self._loader.load_graph(graph, _TAGS)
        # Copies, because a part of a message would keep the whole message in memory.
        self.signatures = {
            name: meta_graph_pb2.SignatureDef.FromString(signature.SerializeToString())
            for name, signature in self._loader.get_meta_graph_def_from_tags(_TAGS).signature_def.items()
        }

    def restore(self):
        """Reads the variables, after which the model can be run.

        Raises:
            Exception: whatever TensorFlow finds wrong with the directory.
        """
        with self.session.graph.as_default() as graph:
            self._loader.restore_variables(self.session, self._saver)
            self._loader.run_init_ops(self.session, _TAGS)
        del self._loader, self._saver
        self.session._extend_graph()  # a model without variables has not been run yet
        for name in list(graph._functions):  # the Session has its own copies
            graph._remove_function(name)
