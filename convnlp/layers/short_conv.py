"""A convolution with few taps, for use before mixers that compare positions."""

import keras

from convnlp.layers.conv_mixer import StaticConvMixer


class ShortConv(StaticConvMixer):
    """One filter of K taps per channel, y[i, c] = sum_j w[c, j] x[i + j - p, c], as part of a mixer.

    p = (K - 1) // 2, or K - 1 if causal. The initial weights keep the variance of the input.

    Args:
        hidden_dim: int. Width D.
        kernel_size: int. Number K of taps, >= 1.
        causal: bool. Whether an output sees only its own and earlier positions.
        **kwargs: `name` and `dtype` of the Keras layer.
    """

    def __init__(self, hidden_dim, kernel_size, causal, **kwargs):
        super().__init__(
            hidden_dim,
            num_heads=hidden_dim,
            kernel_size=kernel_size,
            dilation_rate=1,
            weight_softmax=False,
            kernel_dropout=0.0,
            causal=causal,
            **kwargs,
        )

    def kernel_initializer(self):
        return keras.initializers.RandomNormal(stddev=self.kernel_size**-0.5)
