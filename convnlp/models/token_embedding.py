"""The tied embedding: token ids in, logits out, one table."""

import keras
import keras_nlp
from keras import ops


@keras.saving.register_keras_serializable(package="convnlp")
class TokenEmbedding(keras_nlp.layers.ReversibleEmbedding):
    """x = sqrt(D) E[id] and logits = D^-1/2 h E^T.

    E [V,D] starts with standard deviation D^-1/2, and the factor sqrt(D) gives the input unit variance. The
    factor D^-1/2 on the states is T5's. Without it the logits leak: at the start a state is mostly the
    embedding of its own input token, whose logit would then be sqrt(D), and the first loss about that
    instead of ln V.

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
        scale = self.output_dim**0.5
        if reverse:
            return ops.cast(super().call(inputs / scale, reverse=True), "float32")
        return super().call(inputs) * scale

    def get_config(self):
        base = keras.layers.Layer.get_config(self)
        return {**base, "vocabulary_size": self.input_dim, "hidden_dim": self.output_dim}
