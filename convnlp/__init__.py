"""Pre-trained convolutional text models. Importing it registers the models with keras_nlp's `from_preset`."""

__version__ = "0.1.0"

from convnlp import models as models
