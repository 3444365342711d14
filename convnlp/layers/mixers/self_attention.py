"""T5's self-attention: the Transformer baseline."""

import keras

from convnlp.layers.attention_mixer import BucketedAttentionMixer


@keras.saving.register_keras_serializable(package="convnlp")
class SelfAttention(BucketedAttentionMixer):
    """Multi-head attention with T5's relative position bias.

        A = softmax(Q K^T + b)         Q, K, V = X W_Q, X W_K, X W_V, each [T,D] split into H heads
        Y = concat_h(A V) W_O          b[h, i, j] = table[h, bucket(j - i)]

    The usual factor 1 / sqrt(D / H) is part of the initial W_Q instead of the equation.

    Source: Vaswani et al., 2017, equation 1, https://arxiv.org/abs/1706.03762; Raffel et al., 2020, section
    2.1, https://arxiv.org/abs/1910.10683.
    Departs from it: every layer has its own bias table, while T5 shares one in a stack.

    Masking: pads are masked as keys. Causality: yes. Packing: keys of other texts are masked.
    Cost: 4 D^2 + 32 H parameters, 4 T D^2 + 2 T^2 D multiply-adds, a state of 2 T D elements.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        dropout: float in [0, 1). Share of the attention weights dropped in training. Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        output_init_scale: float. Factor on the standard deviation of the initial W_O. Defaults to `1.0`.
        bias_initializer: str. "normal": the table starts near 0, as in T5. "alibi": it starts as minus slope
            times distance (Press et al., 2022, https://arxiv.org/abs/2108.12409), so that attention starts
            local, which learns faster on a small budget. Defaults to `"normal"`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, `dropout` is
            not in [0, 1), or `bias_initializer` is unknown.

    Example:
    >>> mixer = SelfAttention(hidden_dim=8, num_heads=2, causal=True)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> y, state = mixer.step(tf.ones([2, 1, 8]), mixer.init_state(batch_size=2, max_length=5), 0)
    >>> {name: value.shape for name, value in state.items()}
    {'keys': TensorShape([2, 5, 2, 4]), 'values': TensorShape([2, 5, 2, 4])}
    """

    name = "self_attention"

    def __init__(
        self,
        hidden_dim,
        num_heads,
        dropout=0.0,
        causal=False,
        output_init_scale=1.0,
        bias_initializer="normal",
        **kwargs,
    ):
        super().__init__(
            hidden_dim, num_heads, dropout, causal, output_init_scale, bias_initializer, **kwargs
        )

    def get_config(self):
        return {**super().get_config(), "bias_initializer": self.bias.initializer}
