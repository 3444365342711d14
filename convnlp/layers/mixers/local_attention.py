"""Windowed attention: each position attends to its neighbours, in blocks."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.attention_mixer import BucketedAttentionMixer
from convnlp.layers.checks import require_count


@keras.saving.register_keras_serializable(package="convnlp")
class LocalAttention(BucketedAttentionMixer):
    """Multi-head attention to the w positions i + r (j - p), j < w, with T5's bias within the window.

        A[i, j] = softmax_j(q_i . k_{i + r (j - p)} + b[h, bucket(r (j - p))])
        y_i = concat_h(sum_j A[i, j] v_{i + r (j - p)}) W_O

    p = (w - 1) // 2, or w - 1 if causal: an even window reaches r positions further right than left. With r >
    1, positions with equal i mod r form separate sequences. A sequence is cut into blocks of S = max(w, 32)
    queries; each block meets the S + w - 1 keys that its windows cover, in one matrix product.

    Source: Beltagy et al., 2020, "Longformer", section 3.1, https://arxiv.org/abs/2004.05150 (sliding and
    dilated windows); bias of Raffel et al., 2020, section 2.1, https://arxiv.org/abs/1910.10683.
    Departs from it: no global tokens; windows may be even, while those of the source are symmetric; w counts
    all positions of a window, like `kernel_size`; one dilation rate for all heads; a relative bias instead of
    absolute positions.

    Masking: pads are masked as keys. Causality: yes. Packing: keys of other texts are masked.
    Cost: 4 D^2 + 32 H parameters; 3 T D^2 + R D^2 + 2 R (S + w - 1) D multiply-adds, where R is T rounded up
    to whole blocks, so of order T w D; a state of 2 (w - 1) r D elements.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        window_size: int. Number w of positions that each sees, including itself. Defaults to `64`.
        dilation_rate: int. Distance r between neighbouring positions of a window, >= 1. Defaults to `1`.
        dropout: float in [0, 1). Share of the attention weights dropped in training. Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        output_init_scale: float. Factor on the standard deviation of the initial W_O. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, or `dropout` is
            not in [0, 1).

    Example:
    >>> mixer = LocalAttention(hidden_dim=8, num_heads=2, window_size=4, dilation_rate=3)
    >>> mixer(tf.ones([2, 50, 8])).shape
    TensorShape([2, 50, 8])
    >>> mixer.receptive_field(50)
    10
    """

    name = "local_attention"

    def __init__(
        self,
        hidden_dim,
        num_heads,
        window_size=64,
        dilation_rate=1,
        dropout=0.0,
        causal=False,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(hidden_dim, num_heads, dropout, causal, output_init_scale, **kwargs)
        require_count("window_size", window_size)
        require_count("dilation_rate", dilation_rate)
        self.window_size = window_size
        self.dilation_rate = dilation_rate

    def mix_values(self, x, values, masks, training):
        prefix_mask, time = masks.prefix_mask, tf.shape(x)[1]
        # Which text a position belongs to, and whose prefix it is part of; 0, as outside the row, for none.
        texts = masks.text_ids(x)
        prefix = tf.zeros_like(texts) if prefix_mask is None else texts * tf.cast(prefix_mask, tf.int32)
        labels = tf.stack([texts, prefix], axis=2)  # [B,T,2]
        labels, x, values = (
            kernels.fold_time(value, self.dilation_rate) for value in (labels, x, values)
        )  # [B*r,T/r,2], 2 x [B*r,T/r,D]
        left = kernels.left_taps(self.window_size, self.causal)

        keys_and_values = tf.concat([self.key(x), values], axis=-1)  # [B*r,T/r,2D]
        queries, seen = kernels.to_blocks(self.query(x), keys_and_values, self.window_size, left)
        keys, values = tf.split(kernels.merge_blocks(seen), 2, axis=-1)  # [B*r*N,S+w-1,D]
        own, met = (
            kernels.merge_blocks(part) for part in kernels.to_blocks(labels, labels, self.window_size, left)
        )
        own_text = own[:, :, :1]  # [B*r*N,S,1]
        met_text, met_prefix = tf.unstack(tf.expand_dims(met, 1), axis=3)  # [B*r*N,1,S+w-1]

        query_places = tf.range(queries.shape[2])  # [S]
        key_places = tf.range(seen.shape[2]) - left  # [S+w-1]
        tap = key_places - tf.expand_dims(query_places - left, 1)  # [S,S+w-1]
        bias = self.position_bias(query_places * self.dilation_rate, key_places * self.dilation_rate)
        visible = (own_text == met_text) & (tap >= 0) & (tap < self.window_size)  # [B*r*N,S,S+w-1]
        if prefix_mask is not None:
            visible &= (tap <= left) | (own_text == met_prefix)
        if masks.right_to_left:
            visible &= tap >= left

        keys, values = (kernels.split_heads(part, self.num_heads) for part in (keys, values))
        y = self.attend(kernels.merge_blocks(queries), keys, values, bias, visible, training)
        y = tf.reshape(y, [tf.shape(x)[0], -1, self.hidden_dim])[:, : tf.shape(x)[1]]  # [B*r,T/r,D]
        return kernels.unfold_time(y, self.dilation_rate, time)

    @property
    def _reach(self):
        return (self.window_size - 1) * self.dilation_rate

    def empty_state(self, batch_size, max_length):
        return super().empty_state(batch_size, self._reach)

    def advance(self, x_chunk, state, index):
        chunk = tf.shape(x_chunk)[1]
        keys, values, state = self.slide_window(x_chunk, state)  # [B,(w-1)*r+C,H,D/H]
        query_positions = index + tf.range(chunk)  # [C]
        key_positions = index - self._reach + tf.range(self._reach + chunk)  # [(w-1)*r+C]
        distance = tf.expand_dims(query_positions, 1) - key_positions
        visible = (distance >= 0) & (distance <= self._reach) & (key_positions >= 0)
        visible &= distance % self.dilation_rate == 0
        bias = self.position_bias(query_positions, key_positions)  # [H,C,(w-1)*r+C]
        return self.attend(self.query(x_chunk), keys, values, bias, tf.expand_dims(visible, 0)), state

    def receptive_field(self, length):
        return min(length, self._reach + 1)

    def cost(self, length):
        cost = super().cost(self._reach)  # for the parameters and the state
        block = kernels.block_size(self.window_size)
        num_blocks = self.dilation_rate * -(-length // (self.dilation_rate * block))
        rows = num_blocks * block  # whole blocks; their rows are projected before they are cut
        pairs = rows * (block + self.window_size - 1)
        multiply_adds = (3 * length + rows) * self.hidden_dim**2 + 2 * pairs * self.hidden_dim
        return {**cost, "multiply_adds": multiply_adds}

    def get_config(self):
        return {
            **super().get_config(),
            "window_size": self.window_size,
            "dilation_rate": self.dilation_rate,
        }
