"""Loads a SavedModel into a Session that takes little memory, and little time to prepare a run.

By default a Session takes ten times a small model's weights: everyone who handles its functions keeps a copy
of them, of some 12 MB for 3 MB of file. And every choice of inputs and outputs is optimised anew.
"""

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer ops that exported models hold)
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.saved_model import loader_impl

_TAGS = [tf.saved_model.SERVING]


class _Loader(loader_impl.SavedModelLoader):
    """Loads a SavedModel without the shapes of its inputs.

    TF Serving leaves it to the model's own ops whether a shape fits, while a Session of Python compares with
    the shape of the placeholder first. The signatures keep their shapes; only the placeholders lose them.
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


class LeanSession:
    """A SavedModel in a Session.

    The Session takes the graph as it is when it is first run, and copies all functions of the model each time
    that it has grown since. So what is to be added belongs between the two steps, this and `restore`.

    Args:
        path: str. The SavedModel's directory.
        config: ConfigProto. Is changed.

    Attributes:
        session: tf.compat.v1.Session.
        signatures: dict of str to SignatureDef.

    Raises:
        Exception: whatever TensorFlow finds wrong with the directory.
    """

    def __init__(self, path, config):
        config.experimental.disable_output_partition_graphs = True  # a copy of each graph, for debugging
        # Leaves the graphs of exported models as they are, and takes a third of the time.
        config.graph_options.rewrite_options.disable_tfg_optimizer = True
        self._loader = _Loader(path)
        with tf.Graph().as_default() as graph:
            self.session = tf.compat.v1.Session(graph=graph, config=config)
            self._saver, _ = self._loader.load_graph(graph, _TAGS)
        # A part of a message would keep all of it in memory.
        self.signatures = {
            name: meta_graph_pb2.SignatureDef.FromString(signature.SerializeToString())
            for name, signature in self._loader.get_meta_graph_def_from_tags(_TAGS).signature_def.items()
        }

    def restore(self):
        """Reads the variables; the model can be asked then.

        Raises:
            Exception: whatever TensorFlow finds wrong with the directory.
        """
        with self.session.graph.as_default() as graph:
            self._loader.restore_variables(self.session, self._saver)
            self._loader.run_init_ops(self.session, _TAGS)
        del self._loader, self._saver
        self.session._extend_graph()  # a model without variables has not been run yet
        for name in list(graph._functions):  # the Session has its own
            graph._remove_function(name)
