"""Where a sublayer's norm stands: the three orders that the paper, fairseq and the release use."""

import keras

from convnlp.layers.dropout import Dropout
from convnlp.layers.projection import layer_norm

RESIDUAL_FORMS = ("pre", "post", "sublayer_output")


def needs_final_norm(residual_form):
    """Whether the sum that leaves the last sublayer has not been through a norm yet."""
    return residual_form != "post"


@keras.saving.register_keras_serializable(package="convnlp")
class Residual(keras.layers.Layer):
    """The residual connection around one sublayer f, with one norm and dropout.

        pre               x + dropout(f(LN(x)))       the release (mesh); safe at depth, the default
        post              LN(x + dropout(f(x)))       fairseq's default
        sublayer_output   x + dropout(LN(f(x)))       the paper's text, section 3.2

    `pre` and `sublayer_output` leave the running sum without a norm, so a stack of them ends in one
    (`needs_final_norm`). Departs from the release: LayerNorm with scale and offset, where mesh has RMSNorm.

    Use: `x, y = residual.enter(x)`, then the sublayer on y, then `x = residual.leave(x, y)`.

    Args:
        residual_form: str. One of the three above.
        dropout: float in [0, 1).

    Raises:
        ValueError: on another `residual_form`.

    Example:
    ```python
    import numpy as np
    from convnlp.layers import Residual
    residual, x = Residual("pre"), np.ones([2, 5, 8], "float32")
    residual.build(x.shape)
    assert residual.leave(*residual.enter(x)).shape == (2, 5, 8)
    ```
    """

    def __init__(self, residual_form="pre", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        if residual_form not in RESIDUAL_FORMS:
            raise ValueError(f"`residual_form` must be one of {RESIDUAL_FORMS}. Received: {residual_form!r}")
        self.residual_form = residual_form
        self.dropout_rate = dropout
        self.norm = layer_norm(dtype=self.dtype_policy, name="norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.norm.build(input_shape)

    def enter(self, x):
        """X [B,T,D] -> x, to be read in its place, and what the sublayer sees [B,T,D]."""
        if self.residual_form != "pre":
            return x, x
        y, x = self.norm(x, residual=True)
        return x, y

    def leave(self, x, y, training=False):
        """The sum of the input x and the sublayer's output y: 2 x [B,T,D] -> [B,T,D]."""
        if self.residual_form == "sublayer_output":
            y = self.norm(y)
        x = x + self.dropout(y, training=training)
        return self.norm(x) if self.residual_form == "post" else x

    def get_config(self):
        return {**super().get_config(), "residual_form": self.residual_form, "dropout": self.dropout_rate}
