"""Imports TensorFlow without Keras, which takes a third of the time and memory, and serves nothing."""

import sys
import types

_TEXT_LAYERS = "tensorflow_text.python.keras"


def import_tensorflow():
    """Imports tensorflow and tensorflow_text; nothing else, where neither has been imported before.

    TensorFlow imports Keras, and with it SciPy, scikit-learn and Matplotlib, for its optimisers' entries in a
    registry of what `tf.saved_model.load` restores, and does without where it is not installed. A Session
    runs graphs. So it is not installed for as long as that takes; it can be imported later, as ever.
    """
    if "tensorflow" in sys.modules:
        return
    hidden = {"keras": None, _TEXT_LAYERS: types.ModuleType(_TEXT_LAYERS)}  # the second one holds layers
    sys.modules.update({name: module for name, module in hidden.items() if name not in sys.modules})
    try:
        import tensorflow  # noqa: F401
        import tensorflow_text  # noqa: F401
    finally:
        for name, module in hidden.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
