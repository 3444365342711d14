"""A model that predicts a number for a text."""

import math
import numbers

import keras
import keras_nlp
import numpy as np

from convnlp.layers.rescaling import Rescaling
from convnlp.models import arrays, given_data
from convnlp.models.pooled_head import PooledHead


@keras.saving.register_keras_serializable(package="convnlp")
class TextRegressor(PooledHead, keras_nlp.models.Task):
    """Gives a number per text, float32 [B,1]: mean + scale v, where v is the value of the head.

    Args:
        backbone: a `Seq2SeqBackbone`. One with a decoder is replaced by its `encoder_only()`, a copy.
        preprocessor: a `TextClassifierPreprocessor`, or None to feed token ids.
        pooling: str, as for a `TextClassifier`. Defaults to "mean_max".
        dropout: float in [0, 1), on the pooled vector. Default 0.3.
        mean: float. Mean of the numbers to learn, so that the head need not learn it. Default 0.
        scale: float > 0. Their standard deviation. Default 1.
        compile: bool. Default False. `compile()` without arguments uses the mean squared error.
        **kwargs: `name` and `trainable` of the Keras model.

    Raises:
        ValueError: if an argument is unknown or out of its range.
    """

    def __init__(
        self,
        backbone,
        preprocessor=None,
        pooling="mean_max",
        dropout=0.3,
        mean=0.0,
        scale=1.0,
        compile=False,
        **kwargs,
    ):
        are_finite = all(isinstance(each, numbers.Real) and math.isfinite(each) for each in (mean, scale))
        if not are_finite or scale <= 0:
            raise ValueError(
                f"`mean` must be finite and `scale` positive. Received: mean={mean!r}, scale={scale!r}"
            )
        self._moments = (float(mean), float(scale))
        super().__init__(backbone, 1, preprocessor, pooling, dropout, compile, **kwargs)
        self.mean, self.scale = self._moments

    def _output(self, values):
        return Rescaling(*self._moments, dtype="float32", name="rescaling")(values)

    def compile(self, optimizer="auto", loss="auto", **kwargs):
        """As for a `TextClassifier`; the loss "auto" is the mean squared error."""
        loss = "mean_squared_error" if isinstance(loss, str) and loss == "auto" else loss
        super().compile(optimizer=optimizer, loss=loss, **kwargs)

    def _targets(self, x, y):
        given_data.check_numbers(y, 1, "`y` must hold a finite number for each example", np.isfinite)
        return y

    def preprocess_samples(self, x, y=None, sample_weight=None):
        """As in keras_nlp."""
        return super().preprocess_samples(x, arrays.flat(y), sample_weight)

    def get_config(self):
        return {**super().get_config(), "mean": self.mean, "scale": self.scale}
