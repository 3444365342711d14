"""The reader of SavedModels: what looks at their operations before TensorFlow gets them."""

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from convnlp import saved_model_operations
from tests.fuzz.reader import Reader, documented
from tests.serving.small_models import save_affine


def _save_table(path, vocabulary):
    """A model that looks words up in a table, which it fills from an asset."""
    vocabulary.write_text("good\nbad\n")
    lines = tf.lookup.TextFileIndex
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(
            str(vocabulary), tf.string, lines.WHOLE_LINE, tf.int64, lines.LINE_NUMBER
        ),
        -1,
    )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def look_up(text):
        return {"number": module.table.lookup(text)}

    tf.saved_model.save(module, str(path), {"serving_default": look_up})


class SavedModelGraph(Reader):
    """The bytes are those of saved_model.pb."""

    def __init__(self, folder):
        super().__init__(folder)
        save_affine(folder / "affine", 1)
        _save_table(folder / "table", folder / "words")
        for name in ("affine", "table"):
            content = saved_model_pb2.SavedModel.FromString((folder / name / "saved_model.pb").read_bytes())
            # Nothing looks at the definitions of the operations, most of the file.
            content.meta_graphs[0].meta_info_def.ClearField("stripped_op_list")
            self.seeds.append(content.SerializeToString(deterministic=True))

    def read(self, data):
        try:
            content = saved_model_pb2.SavedModel.FromString(data)
        except DecodeError:
            return "refused"
        with documented(ValueError):
            saved_model_operations.check(content, "model")
            return "read"
        return "refused"
