"""The Synthesizer's attention logits, which are not products of queries and keys."""

import math

import keras
import tensorflow as tf

from convnlp.kernels import split_heads
from convnlp.layers.projection import projection


class SyntheticScores(keras.layers.Layer):
    """Logits over positions 0 .. L - 1 for a chunk of positions.

    Source: Tay et al., 2020, "Synthesizer", section 3, https://arxiv.org/abs/2005.00743.

    Args:
        hidden_dim: int. D.
        num_heads: int. H.
        max_sequence_length: int. L.
        **kwargs: `name` and `dtype` of the Keras layer.
    """

    def __init__(self, hidden_dim, num_heads, max_sequence_length, **kwargs):
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.max_sequence_length = max_sequence_length

    def call(self, x, index, length, positions=None):
        """Returns the logits of a chunk.

        Args:
            x: tensor [B,C,D], the inputs at positions index .. index + C - 1.
            index: int or int32 scalar tensor.
            length: int or scalar tensor. Number T of positions to score.
            positions: int32 tensor [B,C], the position of each input in its text. Defaults to index, index +
                1, ...

        Returns:
            Tensor [B or 1,H,C,T].
        """
        raise NotImplementedError

    def cost(self, length):
        """Returns "parameters" and "multiply_adds" as in `TokenMixer.cost`, for a text of `length`."""
        raise NotImplementedError

    def _table(self, name, *shape, stddev, trainable=True):
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=keras.initializers.RandomNormal(stddev=stddev),
            trainable=trainable,
        )


class DenseScores(SyntheticScores):
    """B[i] = W2 relu(W1 x[i]) for each head; W1: D -> D / H, W2: D / H -> L.

    If factorised, W2 gives a with p and b with q numbers, p q >= L, and B[i, j] = a[j // q] b[j % q].

    Args:
        hidden_dim, num_heads, max_sequence_length: as in `SyntheticScores`.
        factorized: bool. Whether B is factorised. Defaults to `False`.
        **kwargs: `name` and `dtype` of the Keras layer.
    """

    def __init__(self, hidden_dim, num_heads, max_sequence_length, factorized=False, **kwargs):
        super().__init__(hidden_dim, num_heads, max_sequence_length, **kwargs)
        self.hidden = projection(hidden_dim, dtype=self.dtype_policy, name="hidden")
        self._widths = {"kernel": max_sequence_length}
        if factorized:
            small = math.isqrt(max_sequence_length - 1) + 1
            self._widths = {"kernel_a": math.ceil(max_sequence_length / small), "kernel_b": small}

    def build(self, input_shape):
        self.hidden.build(input_shape)
        width = self.hidden_dim // self.num_heads
        for name, size in self._widths.items():
            setattr(self, name, self._table(name, self.num_heads, width, size, stddev=width**-0.5))

    def call(self, x, index, length, positions=None):
        hidden = split_heads(tf.nn.relu(self.hidden(x)), self.num_heads)  # [B,C,H,D/H]
        tables = [tf.cast(getattr(self, name), x.dtype) for name in self._widths]
        scores = [tf.einsum("bchk,hkl->bhcl", hidden, table) for table in tables]  # [B,H,C,L or p or q]
        if len(scores) == 2:
            products = tf.expand_dims(scores[0], 4) * tf.expand_dims(scores[1], 3)  # [B,H,C,p,q]
            shape = tf.shape(products)
            size = math.prod(self._widths.values())
            scores = [tf.reshape(products, [shape[0], self.num_heads, shape[2], size])]  # [B,H,C,p*q]
        return scores[0][..., :length]

    def cost(self, length):
        parameters = self.hidden_dim**2 + self.hidden_dim * sum(self._widths.values())
        products = length**2 * self.num_heads if len(self._widths) == 2 else 0
        return {"parameters": parameters, "multiply_adds": length * parameters + products}


class RandomScores(SyntheticScores):
    """B = R for each head, the same for all texts; R is [L,L], or R1 R2^T with R1, R2: [L,r].

    Args:
        hidden_dim, num_heads, max_sequence_length: as in `SyntheticScores`.
        rank: int. r, or None for R itself. Defaults to `None`.
        trainable: bool. Whether R is learned; otherwise it keeps its random initial values. Defaults to
            `True`.
        **kwargs: `name` and `dtype` of the Keras layer.
    """

    def __init__(self, hidden_dim, num_heads, max_sequence_length, rank=None, trainable=True, **kwargs):
        super().__init__(hidden_dim, num_heads, max_sequence_length, **kwargs)
        self.rank = rank
        self._learned = trainable

    def build(self, *_):
        shape = (self.num_heads, self.max_sequence_length)
        if self.rank is None:
            self.table = self._table(
                "table", *shape, self.max_sequence_length, stddev=1.0, trainable=self._learned
            )
        else:
            # so that the products, which are sums of r terms, also have variance 1
            stddev = self.rank**-0.25
            self.left = self._table("left", *shape, self.rank, stddev=stddev)
            self.right = self._table("right", *shape, self.rank, stddev=stddev)

    def call(self, x, index, length, positions=None):
        end = index + tf.shape(x)[1]
        if self.rank is None:
            scores = tf.cast(self.table, x.dtype)[:, index:end, :length]  # [H,C,T]
        else:
            left, right = (tf.cast(table, x.dtype) for table in (self.left, self.right))
            scores = tf.matmul(left[:, index:end], right[:, :length], transpose_b=True)  # [H,C,T]
        if positions is None:
            return tf.expand_dims(scores, 0)
        return tf.transpose(tf.gather(scores, positions, axis=1), [1, 0, 2, 3])  # [B,H,C,T]

    def cost(self, length):
        tables = self.num_heads * self.max_sequence_length
        if self.rank is None:
            return {"parameters": tables * self.max_sequence_length, "multiply_adds": 0}
        return {
            "parameters": 2 * tables * self.rank,
            "multiply_adds": self.num_heads * length**2 * self.rank,
        }
