"""Pre-trained convolutional text models. Importing it registers the models with keras_nlp's `from_preset`."""

from convnlp import startup

with startup.notes_hidden():
    from convnlp import models as models

__version__ = "0.1.0"
