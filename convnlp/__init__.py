"""Pre-trained convolutional text models. Importing convnlp registers them with keras_nlp's `from_preset`."""

import importlib

from convnlp import folders, startup

folders.make_importable()
if not startup.is_command():  # the command does both once it knows its program
    if startup.is_program():  # not in a process that only uses the library
        startup.begin()  # before TensorFlow is imported
    if not (folders.is_asked_for() or startup.is_light()):
        from convnlp import models as models

__version__ = "0.1.0"


def __getattr__(name):
    """Imports subpackages such as `convnlp.models` on first access."""
    try:
        return importlib.import_module(f"convnlp.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"convnlp.{name}":
            raise
        raise AttributeError(f"module 'convnlp' has no attribute {name!r}") from None
