"""What the models of several tasks share: one dense layer on the pooled encoder."""

import keras
import numpy as np

from convnlp.layers import Dropout
from convnlp.layers.checks import require_rate
from convnlp.models import arguments, arrays, given_data
from convnlp.models.pooled_encoder import PooledEncoder, token_inputs


class PooledHead(PooledEncoder):
    """Gives U values per text, W dropout([mean_t h_t ; max_t h_t]) + b over the tokens t of its row.

    h is the encoder's output; pads are ignored. The head computes in float32, whatever the backbone does.
    Comes before a keras_nlp class among the bases of a model.

    Args:
        backbone: a `Seq2SeqBackbone`. One with a decoder is replaced by its `encoder_only()`, a copy.
        units: int >= 1. U.
        preprocessor: a `TextClassifierPreprocessor`, or None to feed token ids.
        pooling: str, as for a `TextClassifier`.
        dropout: float in [0, 1), on the pooled vector.
        compile: bool.
        **kwargs: `name` and `trainable` of the Keras model.

    Raises:
        ValueError: if an argument is unknown or out of its range.
    """

    pipeline_tag = "text-classification"  # in the model card, in the terms of the Hugging Face hub
    head_arguments = ("pooling",)

    def __init__(self, backbone, units, preprocessor, pooling, dropout, compile, /, **kwargs):
        arguments.refuse_unknown(type(self), kwargs)
        require_rate("dropout", dropout)
        self._take(backbone, preprocessor, pooling)
        self.head_dropout = Dropout(dropout, dtype="float32", name="head_dropout")
        self.head = keras.layers.Dense(units, dtype="float32", name="head")
        inputs = token_inputs()
        outputs = self.head(self.head_dropout(self._head_input(inputs, pooling)))
        super().__init__(inputs=inputs, outputs=self._output(outputs), compile=False, **kwargs)
        self.pooling, self.dropout = pooling, dropout
        self._prepare(compile)

    def _head_input(self, inputs, pooling):
        """Returns the vector of each text, float32 [B,N]; `inputs` are as for `pool`."""
        return self.pooled(inputs, pooling)

    def _output(self, values):
        """Returns the model's output for the head's values [B,U]."""
        return values

    def predict(self, x=None, batch_size=None, **kwargs):
        """As in keras_nlp: float32 [B,U], and [0,U] for no text."""
        given_data.check_batch_size(batch_size)
        x = arrays.of_tables(x)
        if arrays.is_empty(x):
            return np.zeros([0, self.head.units], "float32")
        self._check_form(x)
        given_data.check(self, x)
        return super().predict(x=x, batch_size=batch_size, **kwargs)

    def get_config(self):
        return {**super().get_config(), "pooling": self.pooling, "dropout": self.dropout}
