"""FNet's token mixing: a Fourier transform, without parameters."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.kernels import same_segment, zero_pads
from convnlp.layers.checks import require_count
from convnlp.layers.masks import positions_in_segments
from convnlp.layers.token_mixer import TokenMixer


@keras.saving.register_keras_serializable(package="convnlp")
class FourierMixing(TokenMixer):
    """The real part of the discrete Fourier transform over channels and positions.

        y = (n D)^-1/2 Re(F_n X F_D) = (n D)^-1/2 (C_n X C_D - S_n X S_D)
        F_n[p, q] = exp(-2 pi i p q / n),  C_n = Re F_n,  S_n = -Im F_n

    n is the number of tokens of the text itself, or `fixed_length`. If all rows have the same n, this is a
    complex FFT; for texts of different n, and in exported models, it is the real matrix products. The results
    are equal.

    Source: Lee-Thorp et al., 2021, "FNet: Mixing Tokens with Fourier Transforms", section 3,
    https://arxiv.org/abs/2105.03824.
    Departs from it: in the paper, n is the padded length, so that an output changes with the pads after the
    text; here it does not. The factor (n D)^-1/2 keeps the size of x, as the skeleton's residual connection
    and half precision require.

    Masking: inputs at pads are zero and do not count in n. Causality: no, a transform sees all positions.
    Packing: each text has its own transform.
    Cost: no parameters; 2 T D^2 + 2 T^2 D multiply-adds as matrix products, about T D (log T + log D) as FFT.

    Args:
        hidden_dim: int. Width D.
        fixed_length: int >= 1. The n of all texts, which are padded with zeros to it; longer texts raise.
            Defaults to `None`: the number of tokens of each text.
        normalize: bool. Whether to multiply by (n D)^-1/2, which the paper does not. Defaults to `True`.
        causal: bool. Must be False.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, a text is longer than `fixed_length`, or `causal` is
            True.

    Example:
    >>> mixer = FourierMixing(hidden_dim=8)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> mixer.cost(5)
    {'parameters': 0, 'multiply_adds': 1040, 'state_elements': 0}
    """

    name = "fourier"
    supports_causal = False
    supports_step = False
    gated = False

    def __init__(self, hidden_dim, fixed_length=None, normalize=True, causal=False, **kwargs):
        super().__init__(hidden_dim, causal, **kwargs)
        if fixed_length is not None:
            require_count("fixed_length", fixed_length)
        self.fixed_length = fixed_length
        self.normalize = normalize

    @property
    def longest_text(self):
        return self.fixed_length

    def _length_limit(self):
        return "fixed_length", self.fixed_length, "its transform covers no more"

    def mix(self, x, masks, training):
        x, length = zero_pads(x, masks.padding_mask), tf.shape(x)[1]
        if masks.segment_ids is not None:
            visible = same_segment(masks.segment_ids)
            positions = positions_in_segments(masks.segment_ids)
            sizes = self._sizes(tf.reduce_sum(tf.cast(visible, tf.int32), axis=2))  # [B,T]
            y = kernels.real_dft_of_texts(x, positions, sizes, visible)
        elif masks.padding_mask is not None and not self.fixed_length:
            tokens = tf.cast(masks.padding_mask, tf.int32)
            sizes = tf.maximum(tf.reduce_sum(tokens, axis=1, keepdims=True), 1)  # [B,1]
            sizes = tf.tile(sizes, [1, length])
            y = kernels.real_dft_of_texts(x, tf.expand_dims(tf.range(length), 0), sizes)
        else:
            sizes = self._sizes(tf.reshape(length, [1, 1]))
            y = kernels.real_dft(x, sizes[0, 0])
        if not self.normalize:
            return y
        scale = tf.math.rsqrt(tf.cast(sizes * self.hidden_dim, tf.float32))  # [B or 1,T or 1]
        return y * tf.cast(tf.expand_dims(scale, 2), y.dtype)

    def _sizes(self, lengths):
        """Returns the n of texts of these lengths."""
        return tf.ones_like(lengths) * self.fixed_length if self.fixed_length else lengths

    def cost(self, length):
        width = self.hidden_dim
        return {
            "parameters": 0,
            "multiply_adds": 2 * length * width**2 + 2 * length**2 * width,
            "state_elements": 0,
        }

    def get_config(self):
        return {**super().get_config(), "fixed_length": self.fixed_length, "normalize": self.normalize}
