"""Focal attention: attends to neighbours one by one, and to windows of what is farther away."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.attention_mixer import AttentionMixer
from convnlp.layers.checks import counts, require_count
from convnlp.layers.window_run import WindowRun


@keras.saving.register_keras_serializable(package="convnlp")
class FocalAttention(AttentionMixer):
    """Multi-head attention to single neighbours and, at several scales, to sums over windows of positions.

        z_i[j]    = q_i . k_{i+j-p} + b[h, j]                                     j < w, one by one
        z_i[l, n] = q_i . sum_u f[l, u] k_{e(l,n)+u} + c[l, h, n]                 n < 2 r, or n < r if causal
        y_i       = concat_h(sum A_i[j] v_{i+j-p} + sum A_i[l, n] sum_u f[l, u] v_{e(l,n)+u}) W_O

    A_i is one softmax over all of z_i. At scale l, there are r adjacent windows of s_l positions each right
    before position i, and r right after it. n counts the windows from left to right; window n begins at e(l,
    n), and u counts the positions in it. p = (w - 1) // 2, or w - 1 if causal: an even w reaches one position
    further right than left. The weights f[l], [s_l], are shared by all windows of a scale and start as a
    mean. The scales overlap, as in the source: near positions are seen at all of them. The usual factor 1 /
    sqrt(D / H) is part of the initial W_Q.

    Source: Yang et al., 2021, "Focal Self-attention for Local-Global Interactions in Vision Transformers",
    section 3.2 (?), https://arxiv.org/abs/2107.00641: windows pooled by a linear layer over their positions,
    one softmax over all levels, position biases for each level.
    Departs from it: one dimension; each position has windows around itself, while those of the source lie on
    a grid and are shared by all positions of a cell. So nothing depends on where a text begins in its row,
    and a position can look in one direction only. No pooled window contains the position itself. No bias in
    the pooling.

    Masking: pads are masked as keys and left out of the windows' sums. A window is masked if its position
    nearest to i is not a token of the text; beyond the end of a text, all windows are. Causality: yes, with
    windows before the position only. Packing: other texts are left out like pads. Prefix: so are positions
    after i that are not in the prefix.
    Cost: 4 D^2 + H w + sum_l (s_l + Z H r) parameters for Z sides, 2 or 1 if causal; of order T D (w + sum_l
    Z (s_l + r)) multiply-adds, computed in blocks like `LocalAttention`, plus 4 T D^2 for the projections; a
    state of 2 D max(w - 1, r s_l) elements.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        window_size: int. Number w of positions that are seen one by one, including the position itself.
            Defaults to `15`.
        pool_sizes: int or sequence of distinct ints >= 2. Numbers s_l of positions in a window, one per
            scale. Defaults to `(4, 16)`.
        num_windows: int. Number r of windows of each scale on each side, >= 1. Defaults to `8`.
        dropout: float in [0, 1). Share of the attention weights dropped in training. Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        output_init_scale: float. Factor on the standard deviation of the initial W_O. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, `dropout` is
            not in [0, 1), or `pool_sizes` is empty, repeats a size or has one below 2.

    Example:
    >>> mixer = FocalAttention(hidden_dim=8, num_heads=2, window_size=5, pool_sizes=(4, 8), num_windows=2)
    >>> mixer(tf.ones([2, 50, 8])).shape
    TensorShape([2, 50, 8])
    >>> mixer.receptive_field(50)
    33
    """

    name = "focal_attention"

    def __init__(
        self,
        hidden_dim,
        num_heads,
        window_size=15,
        pool_sizes=(4, 16),
        num_windows=8,
        dropout=0.0,
        causal=False,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(hidden_dim, num_heads, dropout, causal, output_init_scale, **kwargs)
        require_count("window_size", window_size)
        require_count("num_windows", num_windows)
        self.window_size = window_size
        self.pool_sizes = _checked_sizes(pool_sizes)
        self.num_windows = num_windows

    @property
    def _sides(self):
        return 1 if self.causal else 2

    @property
    def _left(self):
        """How many of the single neighbours are before the position."""
        return kernels.left_taps(self.window_size, self.causal)

    def build(self, input_shape):
        super().build(input_shape)
        normal = keras.initializers.RandomNormal(stddev=0.02)
        self.local_bias = self.add_weight(
            name="local_bias",
            shape=(self.num_heads, self.window_size),
            initializer=normal,
            autocast=False,  # Attention logits are float32.
        )
        self.window_bias = self.add_weight(
            name="window_bias",
            shape=(len(self.pool_sizes), self.num_heads, self._sides * self.num_windows),
            initializer=normal.clone(),
            autocast=False,
        )
        self.pool_weights = [
            self.add_weight(
                name=f"pool_weights_{size}",
                shape=(size,),
                initializer=keras.initializers.Constant(1 / size),
                autocast=False,  # Steps run outside Keras's autocast.
            )
            for size in self.pool_sizes
        ]

    def _runs(self, right_to_left=False):
        """Returns what an output attends to, as runs of windows.

        Returns:
            Two lists of `WindowRun`: before a position, itself included in the first run, and after it.
        """
        count, left = self.num_windows, self._left
        own = left if right_to_left else 0
        in_front = [WindowRun(1, None, 0, self.local_bias[:, own : left + 1])]
        behind = (
            [WindowRun(1, None, 1, self.local_bias[:, left + 1 :])] if left + 1 < self.window_size else []
        )
        scales = zip(self.pool_sizes, self.pool_weights, tf.unstack(self.window_bias), strict=True)
        for size, weights, bias in scales:
            if not right_to_left:
                in_front.append(WindowRun(size, weights, 1, bias[:, :count]))
            if not self.causal:
                behind.append(WindowRun(size, weights, 1, bias[:, count:]))
        return in_front, behind

    @property
    def entry_projections(self):
        return ()  # The windows' sums need keys and values to be zero at pads.

    def mix_values(self, x, values, masks, training):
        segment_ids, prefix_mask = masks.segment_ids, masks.prefix_mask
        texts = masks.text_ids(x)  # 0 for none, as outside the row
        queries, seen = self.query(x), tf.concat([self.key(x), values], axis=2)  # [B,T,D], [B,T,2D]
        in_front, behind = self._runs(masks.right_to_left)
        parts = [
            self._part(run, queries, run.pool(seen, segment_ids), texts, texts, True, training)
            for run in in_front
        ]
        met = texts
        if prefix_mask is not None:  # Of what follows, only the prefix is seen, and only from within it.
            seen, met = kernels.zero_pads(seen, prefix_mask), texts * tf.cast(prefix_mask, tf.int32)
        parts += [
            self._part(run, queries, run.pool_behind(seen, segment_ids), texts, met, False, training)
            for run in behind
        ]
        y = tf.cast(kernels.merge_softmax_parts(parts), self.compute_dtype)  # [B,T,H,D/H]
        return self.output_projection(kernels.merge_heads(y))

    def _part(self, run, queries, seen, texts, met, in_front, training):
        """Attends to one run of windows.

        Args:
            run: `WindowRun`.
            queries: tensor [B,T,D].
            seen: tensor [B,T,2D], keys and values of the windows that end at each position if they are before
                the queries, else of those that begin there.
            texts: int32 tensor [B,T], the text of each query.
            met: int32 tensor [B,T], the text that a query must be in to see the window at a position.
            in_front: bool. Whether the windows are before the queries.
            training: bool. Whether dropout is active.

        Returns:
            A part for `kernels.merge_softmax_parts`: float32 [B,T,H,D/H], [B,T,H,1], [B,T,H,1].
        """
        time, num_heads, count = tf.shape(queries)[1], self.num_heads, run.bias.shape[1]
        left = count - 1 if in_front else 0
        labels, met = tf.expand_dims(texts, 2), tf.expand_dims(met, 2)
        if run.distance:
            seen, met = (_next_to(value, in_front) for value in (seen, met))
        queries, seen, labels, met = (
            kernels.fold_time(value, run.size) for value in (queries, seen, labels, met)
        )  # [B*s,T/s,...]
        folded = tf.shape(queries)[1]
        queries, seen = kernels.to_blocks(queries, seen, count, left)  # [B*s,N,S,D], [B*s,N,S+r-1,2D]
        labels, met = kernels.to_blocks(labels, met, count, left)
        num_blocks, block = tf.shape(queries)[1], queries.shape[2]
        queries, seen, labels, met = (kernels.merge_blocks(value) for value in (queries, seen, labels, met))
        keys, values = (kernels.split_heads(half, num_heads) for half in tf.split(seen, 2, axis=2))

        tap = tf.range(block + count - 1) - tf.expand_dims(tf.range(block), 1)  # [S,S+r-1]
        visible = (labels == tf.transpose(met, [0, 2, 1])) & (tap >= 0) & (tap < count)  # [B*s*N,S,S+r-1]
        bias = kernels.banded(run.bias, block)  # [H,S,S+r-1]
        logits = tf.einsum("bqhd,bkhd->bhqk", kernels.split_heads(queries, num_heads), keys)
        logits = tf.cast(logits, tf.float32) + tf.expand_dims(bias, 0)  # [B*s*N,H,S,S+r-1]
        weights, largest, total = kernels.softmax_part(logits, tf.expand_dims(visible, 1))
        weights = self._dropout(tf.cast(weights, values.dtype), training=training)
        mixed = tf.cast(tf.einsum("bhqk,bkhd->bqhd", weights, values), tf.float32)
        largest, total = (tf.transpose(value, [0, 2, 1, 3]) for value in (largest, total))  # [B*s*N,S,H,1]

        part = tf.concat([mixed, largest, total], axis=3)  # [B*s*N,S,H,D/H+2]
        part = tf.reshape(part, [tf.shape(part)[0] // num_blocks, num_blocks * block, *part.shape[2:]])
        part = kernels.unfold_time(part[:, :folded], run.size, time)  # [B,T,H,D/H+2]
        return part[..., :-2], part[..., -2:-1], part[..., -1:]

    @property
    def _reach(self):
        """How many positions before its own a causal mixer sees."""
        return max(self.window_size - 1, max(self.pool_sizes) * self.num_windows)

    def empty_state(self, batch_size, max_length):
        return super().empty_state(batch_size, self._reach)

    def advance(self, x_chunk, state, index):
        chunk, reach, num_heads = tf.shape(x_chunk)[1], self._reach, self.num_heads
        keys, values, state = self.slide_window(x_chunk, state)  # [B,R+C,H,D/H]
        # The logit of a sum of keys is the sum of their logits, and the weight of a sum of values applies to
        # each of them, so the windows' sums need not be in the state.
        runs, _ = self._runs()
        sums = tf.concat([run.as_matrix(reach) for run in runs], axis=0)  # [M,R+1]
        nearest = tf.concat([run.nearest() for run in runs], axis=0)  # [M]
        bias = tf.concat([run.bias for run in runs], axis=1)  # [H,M]
        place = tf.range(reach + chunk) - tf.expand_dims(tf.range(chunk), 1)  # [C,R+C]
        within = tf.cast((place >= 0) & (place <= reach), tf.float32)
        sums = tf.gather(sums, tf.clip_by_value(place, 0, reach), axis=1) * within  # [M,C,R+C]

        queries = kernels.split_heads(self.query(x_chunk), num_heads)  # [B,C,H,D/H]
        logits = tf.cast(tf.einsum("bchd,bkhd->bhck", queries, keys), tf.float32)
        logits = tf.einsum("bhck,mck->bhcm", logits, sums) + tf.expand_dims(bias, 1)  # [B,H,C,M]
        position = index + tf.range(chunk)  # [C]
        visible = tf.expand_dims(position, 1) >= nearest  # [C,M]
        weights = kernels.masked_softmax(logits, tf.reshape(visible, [1, 1, chunk, -1]))
        weights = tf.cast(tf.einsum("bhcm,mck->bhck", weights, sums), values.dtype)
        mixed = tf.einsum("bhck,bkhd->bchd", weights, values)  # [B,C,H,D/H]
        return self.output_projection(kernels.merge_heads(mixed)), state

    def receptive_field(self, length):
        windows = max(self.pool_sizes) * self.num_windows
        ahead = 0 if self.causal else max(self.window_size - 1 - self._left, windows)
        return min(length, max(self._left, windows) + 1 + ahead)

    def cost(self, length):
        dim, num_heads, sides, count = self.hidden_dim, self.num_heads, self._sides, self.num_windows
        ahead = self.window_size - 1 - self._left
        pairs = _pairs(length, 1, self._left + 1) + (_pairs(length, 1, ahead) if ahead else 0)
        pairs += sum(sides * _pairs(length, size, count) for size in self.pool_sizes)
        pooling = sides * sum(self.pool_sizes) * length
        return {
            "parameters": 4 * dim**2
            + num_heads * self.window_size
            + sum(size + sides * num_heads * count for size in self.pool_sizes),
            "multiply_adds": 4 * length * dim**2 + 2 * dim * (pairs + pooling),
            "state_elements": 2 * self._reach * dim,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "window_size": self.window_size,
            "pool_sizes": self.pool_sizes,
            "num_windows": self.num_windows,
        }


def _next_to(x, in_front):
    """Returns for each position the entry right before it, or right after it: [B,T,...] each."""
    if in_front:
        return tf.pad(x[:, :-1], [[0, 0], [1, 0], [0, 0]])
    return tf.pad(x[:, 1:], [[0, 0], [0, 1], [0, 0]])


def _pairs(length, size, count):
    """Returns how many pairs of a query and a key the blocks of a run hold."""
    block = kernels.block_size(count)
    return size * -(-length // (size * block)) * block * (block + count - 1)


def _checked_sizes(pool_sizes):
    sizes = counts("pool_sizes", pool_sizes, minimum=2)
    if not sizes or len(set(sizes)) < len(sizes):
        raise ValueError(
            f"`pool_sizes` must be one or several distinct sizes. Received: pool_sizes={pool_sizes!r}"
        )
    return sizes
