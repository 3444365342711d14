"""The tied embedding: token ids in, logits out, one table."""

import keras
import keras_nlp
from keras import ops


@keras.saving.register_keras_serializable(package="convnlp")
class TokenEmbedding(keras_nlp.layers.ReversibleEmbedding):
    """x = sqrt(D) E[id] and logits = h E^T, both at unit scale at the start.

    E [V,D] starts with standard deviation D^-1/2: the rows are then of unit length, so that the logits of a normed
    state have unit variance (a first loss of about ln V), and the factor sqrt(D) gives the input unit variance.

    Args:
        vocabulary_size: int. V.
        hidden_dim: int. D.
        **kwargs: `name` and `dtype` of the Keras layer.
    """

    def __init__(self, vocabulary_size, hidden_dim, **kwargs):
        initializer = keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
        super().__init__(vocabulary_size, hidden_dim, embeddings_initializer=initializer, **kwargs)

    def call(self, inputs, reverse=False):
        """Token ids [B,T] -> [B,T,D]; if `reverse`, states [B,T,D] -> float32 logits [B,T,V]."""
        outputs = super().call(inputs, reverse=reverse)
        return ops.cast(outputs, "float32") if reverse else outputs * self.output_dim**0.5

    def get_config(self):
        base = keras.layers.Layer.get_config(self)
        return {**base, "vocabulary_size": self.input_dim, "hidden_dim": self.output_dim}
