"""The position-wise feed-forward sublayer."""

import keras

from convnlp import kernels
from convnlp.layers.checks import require_count, require_rate
from convnlp.layers.dropout import Dropout
from convnlp.layers.projection import projection


@keras.saving.register_keras_serializable(package="convnlp")
class FeedForward(keras.layers.Layer):
    """y = relu(x W_1) W_2, the same at every position.

    Source: Vaswani et al., 2017, section 3.3, https://arxiv.org/abs/1706.03762; without biases as in T5
    (Raffel et al., 2020).
    Masking, causality, packing: not needed, as positions do not see each other.
    Cost: 2 D F parameters, and as many multiply-adds per position.

    Args:
        intermediate_dim: int. F, the inner width.
        dropout: float in [0, 1). Rate on the inner activations.
        output_init_scale: float. Factor on the standard deviation of the initial W_2.
        **kwargs: `name` and `dtype` of the Keras layer.

    Raises:
        ValueError: if `intermediate_dim` is not a positive int or `dropout` is not in [0, 1).

    Example:
    ```python
    import numpy as np
    from convnlp.layers import FeedForward
    assert FeedForward(intermediate_dim=32)(np.ones([2, 5, 8], "float32")).shape == (2, 5, 8)
    ```
    """

    def __init__(self, intermediate_dim, dropout=0.0, output_init_scale=1.0, **kwargs):
        super().__init__(**kwargs)
        require_count("intermediate_dim", intermediate_dim)
        require_rate("dropout", dropout)
        self.intermediate_dim = intermediate_dim
        self.dropout_rate = dropout
        self.output_init_scale = output_init_scale
        self.inner = projection(intermediate_dim, dtype=self.dtype_policy, name="inner")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        hidden_dim = input_shape[-1]
        self.outer = projection(hidden_dim, self.output_init_scale, dtype=self.dtype_policy, name="outer")
        self.inner.build(input_shape)
        self.outer.build((*input_shape[:-1], self.intermediate_dim))

    @property
    def entry_projections(self):
        """See `TokenMixer.entry_projections`."""
        return (self.inner,)

    @property
    def exit_projections(self):
        """See `TokenMixer.exit_projections`."""
        return (self.outer,)

    def call(self, x, training=False):
        """Maps x [B,T,D] to [B,T,D]."""
        if kernels.current_implementation() == "inference":
            return kernels.feed_forward(x, self.inner.kernel, self.outer.kernel, self.inner.folded_offset)
        return self.outer(self.dropout(kernels.relu(self.inner(x)), training=training))

    def cost(self, length, hidden_dim):
        """Like `TokenMixer.cost`, for one example of `length` tokens."""
        parameters = 2 * hidden_dim * self.intermediate_dim
        return {"parameters": parameters, "multiply_adds": parameters * length, "state_elements": 0}

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout_rate,
            "output_init_scale": self.output_init_scale,
        }
