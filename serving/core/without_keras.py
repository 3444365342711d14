"""Imports TensorFlow without Keras, which takes a third of the time and memory and is not needed to serve."""

import sys
import types

_TEXT_LAYERS = "tensorflow_text.python.keras"


def import_tensorflow():
    """Imports tensorflow and tensorflow_text without Keras, if TensorFlow has not been imported before.

    TensorFlow imports Keras, and with it SciPy, scikit-learn and Matplotlib, only to register optimisers that
    `tf.saved_model.load` may restore, and works without it if it is not installed. A Session, which only runs
    graphs, does not need it. So Keras is hidden during the import; it can still be imported later.
    """
    if "tensorflow" in sys.modules:
        return
    hidden = {"keras": None, _TEXT_LAYERS: types.ModuleType(_TEXT_LAYERS)}  # the second contains layers
    sys.modules.update({name: module for name, module in hidden.items() if name not in sys.modules})
    try:
        import tensorflow  # noqa: F401
        import tensorflow_text  # noqa: F401
    finally:
        for name, module in hidden.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
