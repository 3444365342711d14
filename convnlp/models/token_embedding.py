"""The tied embedding: token ids in, logits out, one table."""

import keras
import keras_nlp
from keras import ops

from convnlp.layers.exporting import is_exporting
from convnlp.layers.table_rows import gather_rows

INPUT_SCALE = 0.25


@keras.saving.register_keras_serializable(package="convnlp")
class TokenEmbedding(keras_nlp.layers.ReversibleEmbedding):
    """x = sqrt(D)/4 E[id] and logits = h E^T.

    E [V,D] starts with standard deviation D^-1/2: its rows have unit length, so that the logits of a normed
    state h have unit variance, and the first loss is about ln V. The input starts at a quarter of unit scale,
    which is less than what the layers add to it. At unit scale, the tied logits would leak: the last state
    would be mostly the embedding of its own input token, whose logit is near sqrt(D), and the first loss
    would be about that. Scaling the logits by D^-1/2 instead, as T5 does, hides the leak but leaves them too
    small a range: the embedding has to grow many times over, and training stalls (docs/recipes.md).

    Args:
        vocabulary_size: int. V.
        hidden_dim: int. D.
        **kwargs: `name` and `dtype` of the Keras layer.

    Attributes:
        is_folded: bool. Whether the table includes the input's factor; True only on export, see
            `convnlp.models.folded_constants`.
        row_scales: float32 [V], the scales of an int8 table, see `convnlp.models.int8_tables`; None except
            on export.
    """

    is_folded = False
    row_scales = None

    def __init__(self, vocabulary_size, hidden_dim, **kwargs):
        initializer = keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
        super().__init__(vocabulary_size, hidden_dim, embeddings_initializer=initializer, **kwargs)

    def call(self, inputs, reverse=False):
        """Embeds token ids [B,T] as [B,T,D]; if `reverse`, maps states [B,T,D] to float32 logits [B,T,V]."""
        if reverse:
            return ops.cast(self.logits(inputs), "float32")
        if is_exporting():
            # Keras would check for ids that count from the end.
            x = ops.cast(gather_rows(self.embeddings, self.row_scales, inputs), self.compute_dtype)
        else:
            x = super().call(inputs)
        return x if self.is_folded else x * self.input_scale

    @property
    def input_scale(self):
        """The factor by which the rows of the table are multiplied."""
        return INPUT_SCALE * self.output_dim**0.5

    def row_length(self):
        """Returns the root mean square of the lengths of the table's rows: 1, about, if it is untrained."""
        return float(ops.sqrt(ops.mean(ops.sum(ops.square(self.embeddings), axis=1))))

    def logits(self, hidden):
        """Returns logits [B,T,V] for states [B,T,D], in the compute dtype."""
        hidden, table = (ops.cast(value, self.compute_dtype) for value in (hidden, self.embeddings))
        return ops.matmul(hidden, ops.transpose(table))

    def get_config(self):
        base = keras.layers.Layer.get_config(self)
        return {**base, "vocabulary_size": self.input_dim, "hidden_dim": self.output_dim}
