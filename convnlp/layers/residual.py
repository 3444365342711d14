"""Where the norm of a sublayer goes: as in the paper, fairseq, the release, or ResMLP, which has none."""

import keras
import tensorflow as tf

from convnlp.layers.checks import require_rate
from convnlp.layers.dropout import Dropout
from convnlp.layers.projection import layer_norm

RESIDUAL_FORMS = ("pre", "post", "sublayer_output", "affine")
_FIRST_SCALE = 0.1  # ResMLP's value for up to 18 layers


def needs_final_norm(residual_form):
    """Whether the output of the last sublayer has not been through a norm yet."""
    return residual_form != "post"


def norm_of(residual_form, **kwargs):
    """Makes the norm of a residual form, or the `Affine` that replaces it: a layer [...,D] -> [...,D].

    Args:
        residual_form: str, one of `RESIDUAL_FORMS`.
        **kwargs: `name` and `dtype` of the Keras layer.
    """
    return Affine(**kwargs) if residual_form == "affine" else layer_norm(**kwargs)


@keras.saving.register_keras_serializable(package="convnlp")
class Affine(keras.layers.Layer):
    """y = a * x + c for each channel: a norm without statistics.

    Source: Touvron et al., 2021, "ResMLP", section 2, https://arxiv.org/abs/2105.03404.

    Args:
        **kwargs: `name` and `dtype` of the Keras layer.

    Example:
    >>> Affine()(tf.ones([1, 2]) * 3.0).numpy().tolist()
    [[3.0, 3.0]]
    """

    def build(self, input_shape):
        shape = (input_shape[-1],)
        self.scale = self.add_weight(name="scale", shape=shape, initializer="ones")
        self.offset = self.add_weight(name="offset", shape=shape, initializer="zeros")

    def call(self, x):
        """Maps x [...,D] to [...,D]."""
        x = tf.cast(x, self.compute_dtype)
        return x * tf.cast(self.scale, x.dtype) + tf.cast(self.offset, x.dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


@keras.saving.register_keras_serializable(package="convnlp")
class Residual(keras.layers.Layer):
    """The residual connection around one sublayer f, with one norm and dropout.

        pre               x + dropout(f(LN(x)))       the release (mesh); stable in deep stacks, the default
        post              LN(x + dropout(f(x)))       fairseq's default
        sublayer_output   x + dropout(LN(f(x)))       the paper's text, section 3.2
        affine            x + dropout(s * f(A(x)))    ResMLP: A is an `Affine`, s is [D] and starts at 0.1

    All forms except `post` leave the running sum without a norm, so a stack of them ends in a norm
    (`needs_final_norm`), or in an `Affine`. Departs from the release: LayerNorm with scale and offset; mesh
    has RMSNorm.

    Use: `x, y = residual.enter(x)`, then the sublayer on y, then `x = residual.leave(x, y)`.

    Args:
        residual_form: str, one of the four above.
        dropout: float in [0, 1). Rate on the sublayer's output.
        **kwargs: `name` and `dtype` of the Keras layer.

    Raises:
        ValueError: if `residual_form` is unknown or `dropout` is not in [0, 1).

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
        require_rate("dropout", dropout)
        self.residual_form = residual_form
        self.dropout_rate = dropout
        self.norm = norm_of(residual_form, dtype=self.dtype_policy, name="norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.norm.build(input_shape)
        if self.residual_form == "affine":
            first = keras.initializers.Constant(_FIRST_SCALE)
            self.layer_scale = self.add_weight(
                name="layer_scale", shape=(input_shape[-1],), initializer=first, autocast=False
            )

    def enter(self, x):
        """Returns x [B,T,D], to use instead of the original, and the sublayer's input [B,T,D]."""
        if self.residual_form == "affine":
            return x, self.norm(x)
        if self.residual_form != "pre":
            return x, x
        y, x = self.norm(x, residual=True)
        return x, y

    def leave(self, x, y, training=False):
        """Returns the connection's output.

        Args:
            x: tensor [B,T,D], as `enter` returned it.
            y: tensor [B,T,D], the sublayer's output for the input that `enter` returned.
            training: bool. Whether dropout is active.

        Returns:
            Tensor [B,T,D].
        """
        if self.residual_form == "sublayer_output":
            y = self.norm(y)
        if self.residual_form == "affine":
            y *= tf.cast(self.layer_scale, y.dtype)
        x = x + self.dropout(y, training=training)
        return self.norm(x) if self.residual_form == "post" else x

    def cost(self, hidden_dim):
        """Like `TokenMixer.cost`; the work per token is not counted."""
        num_vectors = 3 if self.residual_form == "affine" else 2
        return {"parameters": num_vectors * hidden_dim, "multiply_adds": 0, "state_elements": 0}

    def get_config(self):
        return {**super().get_config(), "residual_form": self.residual_form, "dropout": self.dropout_rate}
