"""Finds the damaged file of a SavedModel; TensorFlow only says that something is damaged."""

import fnmatch
import os
import re

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from convnlp.serving.core.errors import first_line


def damaged_file(directory):
    """Looks for a file of a SavedModel that cannot be read completely.

    This reads all variables again, so it is meant for directories that failed to load.

    Args:
        directory: str. The SavedModel.

    Returns:
        (path, what is wrong with the file), or None if every file can be read.
    """
    graph = os.path.join(directory, "saved_model.pb")
    try:
        if reason := _damage_of_graph(graph):
            return graph, reason
        return _damage_of_variables(os.path.join(directory, "variables", "variables"))
    except OSError as error:
        return error.filename or directory, (error.strerror or str(error)).lower()


def _damage_of_graph(path):
    with open(path, "rb") as file:
        content = file.read()
    if not content:
        return "it is empty"
    try:
        saved_model_pb2.SavedModel.FromString(content)
    except DecodeError as error:
        return f"it is truncated or damaged: {error}"
    return None


def _damage_of_variables(prefix):
    index, folder = f"{prefix}.index", os.path.dirname(prefix)
    if not os.path.isdir(folder):
        return None  # a model without variables
    if not os.path.exists(index):
        return index, "it is missing"
    try:
        reader = tf.train.load_checkpoint(prefix)
        names = sorted(reader.get_variable_to_shape_map())
    except Exception as error:  # of several classes
        return index, f"it is truncated or damaged: {first_line(error)}"
    for name in names:
        try:
            reader.get_tensor(name)
        except Exception as error:
            named = re.search(r"[^/\s]+\.data-\d+-of-\d+", str(error))
            found = [named[0]] if named else fnmatch.filter(os.listdir(folder), "*.data-*")
            file = os.path.join(folder, found[0] if len(found) == 1 else "variables.data-*")
            return file, f"it is missing, truncated or damaged: {first_line(error)} ({name})"
    return None
