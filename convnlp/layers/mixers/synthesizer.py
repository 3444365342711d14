"""Synthesizer: attention whose weights are learned, or made from one position at a time."""

import functools
import operator

import keras
import tensorflow as tf

from convnlp.kernels import channels_by_head, masked_softmax, merge_heads, split_heads, zero_pads
from convnlp.layers.cache import write
from convnlp.layers.checks import require_count, require_heads, require_rate
from convnlp.layers.dropout import Dropout
from convnlp.layers.masks import positions_in_segments, visible_in_cache
from convnlp.layers.projection import projection
from convnlp.layers.synthetic_scores import DenseScores, RandomScores
from convnlp.layers.token_mixer import TokenMixer

MODES = ("dense", "random", "frozen_random", "factorized_dense", "factorized_random", "attention")


@keras.saving.register_keras_serializable(package="convnlp")
class Synthesizer(TokenMixer):
    """Multi-head attention whose weights need no products of queries and keys.

        Y = concat_h(softmax(B) V) W_O                       V = X W_V
        B = sum_k softmax(alpha)_k B_k                       over the modes k, for each head

    | mode | B_k of a head |
    | --- | --- |
    | dense | B[i] = W2 relu(W1 x[i]), W1: D -> D / H, W2: D / H -> L |
    | random, frozen_random | R [L,L], the same for all texts; learned, or left at its random values |
    | factorized_dense | B[i, j] = a[j // q] b[j % q]; W2 gives a with p and b with q numbers, p q >= L |
    | factorized_random | R1 R2^T, both [L,r] |
    | attention | Q K^T; the usual factor (D / H)^-1/2 is part of the initial W_Q |

    A text of T <= L positions uses the first T columns of W2, and the first T rows and columns of R.

    Source: Tay et al., 2020, "Synthesizer: Rethinking Self-Attention for Transformer Models", section 3,
    https://arxiv.org/abs/2005.00743.
    Departs from it: W1, W2, W_V and W_O have no biases; a and b are made from one hidden layer.

    Masking: pads are masked as keys. Causality: yes. Packing: keys of other texts are masked, and positions
    are counted from the start of each text. Order: does not matter to attention alone unless it is causal.
    Cost: 2 D^2 parameters, 2 T D^2 + T^2 D multiply-adds and a state of T D elements for values and output.
    The modes add, in parameters and multiply-adds: dense D^2 + D L, and T times as many; random H L^2, and 0;
    factorized_dense D^2 + D (p + q), and T times as many plus H T^2; factorized_random 2 H L r, and H T^2 r;
    attention 2 D^2, and 2 T D^2 + T^2 D, and T D elements of state. A mixture has one parameter alpha per
    mode.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of heads; divides D.
        max_sequence_length: int. The longest text L, >= 1.
        modes: one name from the table, or a list of names to be mixed. Defaults to `("dense", "random")`.
        rank: int. r of factorized_random, >= 1. Defaults to `8`.
        dropout: float in [0, 1). Share of the attention weights dropped in training. Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        output_init_scale: float. Factor on the standard deviation of the initial W_O. Defaults to `1.0`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Call returns a tensor [B,T,D]; see `TokenMixer.call`.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, `dropout` is
            not in [0, 1), a mode is unknown or repeated, or a text is longer than `max_sequence_length`.

    Example:
    >>> modes = ["random", "attention"]
    >>> mixer = Synthesizer(8, num_heads=2, max_sequence_length=16, modes=modes, causal=True)
    >>> mixer(tf.ones([2, 5, 8])).shape
    TensorShape([2, 5, 8])
    >>> y, state = mixer.step(tf.ones([2, 1, 8]), mixer.init_state(batch_size=2, max_length=5), 0)
    >>> {name: value.shape for name, value in state.items()}
    {'values': TensorShape([2, 5, 2, 4]), 'keys': TensorShape([2, 5, 2, 4])}
    """

    name = "synthesizer"
    needs_max_length = True
    gated = False

    def __init__(
        self,
        hidden_dim,
        num_heads,
        max_sequence_length,
        modes=("dense", "random"),
        rank=8,
        dropout=0.0,
        causal=False,
        output_init_scale=1.0,
        **kwargs,
    ):
        super().__init__(hidden_dim, causal, **kwargs)
        require_heads(hidden_dim, num_heads)
        require_count("max_sequence_length", max_sequence_length)
        require_count("rank", rank)
        require_rate("dropout", dropout)
        modes = [modes] if isinstance(modes, str) else list(modes)
        if not modes or set(modes) - set(MODES) or len(set(modes)) < len(modes):
            raise ValueError(
                f"`modes` must be one or more distinct names from {', '.join(MODES)}. Received: modes={modes}"
            )
        self.num_heads = num_heads
        self.max_sequence_length = max_sequence_length
        self.modes = modes
        self.rank = rank
        self.dropout = dropout
        self.output_init_scale = output_init_scale
        self.knows_order = causal or modes != ["attention"]
        dtype = self.dtype_policy
        self.value = projection(hidden_dim, dtype=dtype, name="value")
        self.output_projection = projection(hidden_dim, output_init_scale, dtype=dtype, name="output")
        self._dropout = Dropout(dropout, dtype=dtype, name="dropout")
        if "attention" in modes:
            self.query = projection(hidden_dim, (hidden_dim // num_heads) ** -0.5, dtype=dtype, name="query")
            self.key = projection(hidden_dim, dtype=dtype, name="key")
        self.scores = {mode: self._synthetic(mode) for mode in modes if mode != "attention"}

    def _synthetic(self, mode):
        arguments = {
            "hidden_dim": self.hidden_dim,
            "num_heads": self.num_heads,
            "max_sequence_length": self.max_sequence_length,
            "dtype": self.dtype_policy,
            "name": mode,
        }
        if mode.endswith("dense"):
            return DenseScores(**arguments, factorized=mode == "factorized_dense")
        rank = self.rank if mode == "factorized_random" else None
        return RandomScores(**arguments, rank=rank, trainable=mode != "frozen_random")

    def build(self, input_shape):
        super().build(input_shape)
        attention = [self.query, self.key] if "attention" in self.modes else []
        for layer in (self.value, self.output_projection, *attention, *self.scores.values()):
            layer.build(input_shape)
        if len(self.modes) > 1:
            self.mixture = self.add_weight(
                name="mixture", shape=(len(self.modes),), initializer="zeros", autocast=False
            )  # The softmax reads it in float32.

    def _attend(self, x, cache, visible, index, positions=None, training=False):
        """Attends from x [B,C,D] to the cache, tensors [B,T,H,D/H] -> [B,C,D].

        Args:
            x: tensor [B,C,D].
            cache: dict, as `_keys_and_values` returns it.
            visible: bool tensor [B or 1,C or 1,T], or None if all are visible.
            index: int or int32 scalar tensor. Position of the first of the C queries.
            positions: int32 tensor [B,T], the position of each token in its text, or None without packing.
            training: bool. Whether dropout is active.
        """
        length = tf.shape(cache["values"])[1]
        logits = []  # float32 [B or 1,H,C,T] each
        for mode in self.modes:
            if mode == "attention":
                queries = split_heads(self.query(x), self.num_heads)
                scores = tf.einsum("bqhd,bkhd->bhqk", queries, cache["keys"])
            else:
                scores = self.scores[mode](x, index=index, length=length, positions=positions)
                if positions is not None:
                    scores = tf.gather(scores, positions, axis=3, batch_dims=1)
            logits.append(tf.cast(scores, tf.float32))
        shares = tf.unstack(tf.nn.softmax(self.mixture)) if len(logits) > 1 else [1.0]
        mixture = functools.reduce(
            operator.add, [share * scores for share, scores in zip(shares, logits, strict=True)]
        )
        visible = None if visible is None else tf.expand_dims(visible, 1)  # [B or 1,1,C or 1,T]
        weights = tf.cast(masked_softmax(mixture, visible), x.dtype)  # [B or 1,H,C,T]
        weights = self._dropout(weights, training=training)
        # Not an einsum, because the weights may be the same for all rows of the batch.
        values = tf.transpose(cache["values"], [0, 2, 1, 3])  # [B,H,T,D/H]
        mixed = tf.transpose(tf.matmul(weights, values), [0, 2, 1, 3])  # [B,C,H,D/H]
        return self.output_projection(merge_heads(mixed))

    def _keys_and_values(self, x):
        """Returns what later positions need of x [B,C,D]: a dict of tensors [B,C,H,D/H]."""
        values = {"values": split_heads(self.value(x), self.num_heads)}
        if "attention" in self.modes:
            values["keys"] = split_heads(self.key(x), self.num_heads)
        return values

    @property
    def exit_projections(self):
        return (self.output_projection,)

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        visible = masks.visible_keys(x, self.causal)
        positions = None if masks.segment_ids is None else positions_in_segments(masks.segment_ids)
        return self._attend(x, self._keys_and_values(x), visible, 0, positions, training)

    def empty_state(self, batch_size, max_length):
        shape = [batch_size, max_length, *channels_by_head(self.hidden_dim, self.num_heads)]
        names = ["values", "keys"] if "attention" in self.modes else ["values"]
        return {name: tf.zeros(shape, self.compute_dtype) for name in names}

    def advance(self, x_chunk, state, index):
        new = self._keys_and_values(x_chunk)
        state = {name: write(cache, new[name], index) for name, cache in state.items()}
        visible = visible_in_cache(index, tf.shape(x_chunk)[1], tf.shape(state["values"])[1])
        return self._attend(x_chunk, state, visible, index), state

    def cost(self, length):
        width = self.hidden_dim
        num_attentions = 1 if "attention" in self.modes else 0
        projections = 2 * width**2 * (1 + num_attentions)
        parts = [scores.cost(length) for scores in self.scores.values()]
        return {
            "parameters": projections
            + sum(part["parameters"] for part in parts)
            + (len(self.modes) if len(self.modes) > 1 else 0),
            "multiply_adds": length * projections
            + length**2 * width * (1 + num_attentions)
            + sum(part["multiply_adds"] for part in parts),
            "state_elements": length * width * (1 + num_attentions),
        }

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "max_sequence_length": self.max_sequence_length,
            "modes": self.modes,
            "rank": self.rank,
            "dropout": self.dropout,
            "output_init_scale": self.output_init_scale,
        }
