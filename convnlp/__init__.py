"""Pre-trained convolutional text models. Importing it registers the models with keras_nlp's `from_preset`."""

from convnlp import startup

if startup.is_program():  # not in a process that only uses us
    startup.begin()  # before TensorFlow is imported

from convnlp import models as models

__version__ = "0.1.0"
