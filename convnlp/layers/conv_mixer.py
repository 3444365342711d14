"""What the convolutional mixers share: normalised taps, full kernels, a window of past inputs, costs."""

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.kernels import zero_pads
from convnlp.layers.checks import require_count, require_heads, require_rate
from convnlp.layers.dropout import Dropout
from convnlp.layers.token_mixer import TokenMixer


class WindowMixer(TokenMixer):
    """A mixer whose outputs see K inputs, r positions apart; its decoding state is the last (K - 1) r inputs.

    Args:
        hidden_dim: int. Width D.
        kernel_size: int. Number K of inputs that an output sees.
        dilation_rate: int. Distance r between neighbouring inputs.
        causal: bool. Whether an output sees only its own and earlier positions.
        **kwargs: `name` and `dtype` of the Keras layer.
    """

    supports_prefix = True
    supports_right_to_left = True

    def __init__(self, hidden_dim, kernel_size, dilation_rate, causal, **kwargs):
        super().__init__(hidden_dim, causal, **kwargs)
        require_count("kernel_size", kernel_size)
        require_count("dilation_rate", dilation_rate)
        self.kernel_size = kernel_size
        self.dilation_rate = dilation_rate

    @property
    def _reach(self):
        return (self.kernel_size - 1) * self.dilation_rate

    def empty_state(self, batch_size, max_length):
        return {"inputs": tf.zeros([batch_size, self._reach, self.hidden_dim], self.compute_dtype)}

    def _kept(self, masks, shape):
        """Returns which taps the masks of a language model, with a prefix or right to left, keep.

        Args:
            masks: `Masks`.
            shape: int32 tensor or sequence that starts with B and T.

        Returns:
            Bool tensor [B,T,K], or None if all taps are kept.
        """
        left = kernels.left_taps(self.kernel_size, self.causal)
        if masks.right_to_left:
            return tf.broadcast_to(tf.range(self.kernel_size) >= left, [shape[0], shape[1], self.kernel_size])
        if masks.prefix_mask is None:
            return None
        where = (self.kernel_size, left, self.dilation_rate)
        return kernels.seen_with_prefix(masks.prefix_mask, masks.segment_ids, *where)

    def advance(self, x_chunk, state, index):
        window = tf.concat([state["inputs"], x_chunk], axis=1)  # [B,(K-1)*r+C,D]
        y = self.mix_window(window, x_chunk)
        return y, {"inputs": tf.ensure_shape(window[:, tf.shape(x_chunk)[1] :], state["inputs"].shape)}

    def mix_window(self, window, x_chunk):
        """Mixes a chunk [B,C,D] -> [B,C,D]; the window [B,(K-1)*r+C,D] also has the inputs before it."""
        raise NotImplementedError

    def receptive_field(self, length):
        return min(length, self._reach + 1)

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "dilation_rate": self.dilation_rate,
        }


class ConvMixer(WindowMixer):
    """A depthwise convolution over time: y[i, c] = sum_j taps[h(c), j] x[i + r (j - p), c].

    p = K - 1 if causal, else (K - 1) // 2; h(c) = c // (D / H). Inputs outside the row, at pads and in other
    segments count as zero; the taps are not renormalised over the remaining inputs. A subclass provides the
    taps.

    Args:
        hidden_dim: int. Width D.
        num_heads: int. Number H of different filters; each serves D / H neighbouring channels.
        kernel_size: int. Number K of taps, even or odd. Defaults to `7`.
        dilation_rate: int. Distance r between neighbouring taps. Defaults to `1`.
        weight_softmax: bool. Whether a softmax makes the taps of a filter positive with sum 1. Defaults to
            `True`.
        kernel_dropout: float in [0, 1). Share of the taps dropped in training, after the softmax
            (DropConnect). Defaults to `0.0`.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        double_gate: bool. Whether the block around the mixer also has a gate after it. Defaults to `False`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Raises:
        ValueError: if a size is not a positive int, `num_heads` does not divide `hidden_dim`, or
            `kernel_dropout` is not in [0, 1).
    """

    pads_are_zeros = True

    def __init__(
        self,
        hidden_dim,
        num_heads,
        kernel_size=7,
        dilation_rate=1,
        weight_softmax=True,
        kernel_dropout=0.0,
        causal=False,
        double_gate=False,
        **kwargs,
    ):
        super().__init__(hidden_dim, kernel_size, dilation_rate, causal, **kwargs)
        require_heads(hidden_dim, num_heads)
        require_rate("kernel_dropout", kernel_dropout)
        self.num_heads = num_heads
        self.weight_softmax = weight_softmax
        self.kernel_dropout = kernel_dropout
        self.double_gate = double_gate
        self._dropout = Dropout(kernel_dropout, dtype=self.dtype_policy, name="kernel_dropout")

    def normalize(self, logits, training, kept=None):
        """Turns logits [...,H,K] into taps [...,H,K] in the compute dtype; the softmax runs in float32.

        With `kept`, bool [B,T,K], the logits are [B,T,H,K]: the other taps are zero, and the softmax is over
        those that are kept.
        """
        if self.weight_softmax:
            kept = None if kept is None else tf.expand_dims(kept, 2)  # [B,T,1,K]
            logits = kernels.masked_softmax(tf.cast(logits, tf.float32), kept)
        elif kept is not None:
            logits *= tf.cast(tf.expand_dims(kept, 2), logits.dtype)  # [B,T,H,K]
        return self._dropout(tf.cast(logits, self.compute_dtype), training=training)

    def mix(self, x, masks, training):
        if masks.prefix_mask is None and not masks.right_to_left:
            return self.convolve(x, masks, training)
        # Positions keep different taps, so each gets its own; with H = D these are K times as large as x.
        x = zero_pads(x, masks.padding_mask)
        taps = self.taps(x, training, self._kept(masks, tf.shape(x)))  # [B,T,H,K]
        return kernels.dynamic_conv(x, taps, self.dilation_rate, self.causal, masks.segment_ids)

    def convolve(self, x, masks, training):
        """Like `mix`, if every tap counts at every position."""
        raise NotImplementedError

    def taps(self, x, training=False, kept=None):
        """Returns the taps [H,K], or [B,T,H,K] if each position of x [B,T,D] has its own.

        With `kept`, bool [B,T,K], they are always [B,T,H,K]; see `normalize`.
        """
        raise NotImplementedError

    def mix_window(self, window, x_chunk):
        taps = self.taps(x_chunk)
        conv = kernels.depthwise_conv_valid if taps.shape.rank == 2 else kernels.dynamic_conv_valid
        return conv(window, taps, self.dilation_rate)

    def cost(self, length):
        return {
            "parameters": self.num_heads * self.kernel_size,
            "multiply_adds": length * self.kernel_size * self.hidden_dim,
            "state_elements": self._reach * self.hidden_dim,
        }

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "weight_softmax": self.weight_softmax,
            "kernel_dropout": self.kernel_dropout,
            "double_gate": self.double_gate,
        }


class StaticConvMixer(ConvMixer):
    """A `ConvMixer` whose taps are weights.

    Attributes:
        folded_taps: float array [H,K], the normalised taps; None except on export, see
            `convnlp.models.folded_constants`.
    """

    folded_taps = None

    def build(self, input_shape):
        super().build(input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.num_heads, self.kernel_size),
            initializer=self.kernel_initializer(),
            autocast=False,  # The softmax reads it in float32.
        )

    @property
    def takes_images(self):
        return self.dilation_rate == 1 and kernels.current_implementation() == "edge"

    def kernel_initializer(self):
        """Returns a Keras initializer for the taps."""
        return keras.initializers.GlorotUniform()

    def convolve(self, x, masks, training):
        # A block has already applied the padding mask in its gate, see `pads_are_zeros`.
        x = kernels.zero_pads(x, masks.padding_mask)
        return kernels.depthwise_conv(
            x, self.taps(x, training), self.dilation_rate, self.causal, masks.segment_ids
        )

    def taps(self, x, training=False, kept=None):
        if self.folded_taps is not None and kept is None:
            return tf.constant(self.folded_taps, self.compute_dtype)
        return self.normalize(tf.convert_to_tensor(self.kernel), training, kept)


class FullConvMixer(WindowMixer):
    """A convolution over all channels, with 2 D output channels: two halves that a subclass combines.

        [H, G] = Conv(X)        kernel [K,D,2D], taps at i + r (j - p), p = K - 1 if causal, else (K - 1) // 2

    Inputs outside the row, at pads and in other segments count as zero. There is no bias, as in `projection`.

    Args:
        hidden_dim, kernel_size, dilation_rate, causal, **kwargs: as in `WindowMixer`.
        kernel_initializer: Keras initializer of the kernel.
    """

    gated = False

    def __init__(self, hidden_dim, kernel_size, dilation_rate, causal, kernel_initializer, **kwargs):
        super().__init__(hidden_dim, kernel_size, dilation_rate, causal, **kwargs)
        self.kernel_initializer = kernel_initializer

    def build(self, input_shape):
        super().build(input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.kernel_size, self.hidden_dim, 2 * self.hidden_dim),
            initializer=self.kernel_initializer,
            autocast=False,  # Steps run outside Keras's autocast.
        )

    def mix(self, x, masks, training):
        x = zero_pads(x, masks.padding_mask)
        inputs = self.prepare(x, training)
        kernel = tf.convert_to_tensor(self.kernel)
        both = kernels.full_conv(
            inputs, kernel, self.dilation_rate, self.causal, masks.segment_ids, self._kept(masks, tf.shape(x))
        )  # [B,T,2D]
        return self.combine(x, *tf.split(both, 2, axis=-1), training)

    def mix_window(self, window, x_chunk):
        kernel = tf.convert_to_tensor(self.kernel)
        both = kernels.full_conv_valid(window, kernel, self.dilation_rate)  # [B,C,2D]
        return self.combine(x_chunk, *tf.split(both, 2, axis=-1), training=False)

    def prepare(self, x, training):
        """Prepares x [B,T,D] for the convolution, for example by dropout; does nothing in inference."""
        return x

    def combine(self, x, linear, gate, training):
        """Combines x and the two halves of the convolution, each [B,T,D], into the output [B,T,D]."""
        raise NotImplementedError

    def cost(self, length):
        weights = 2 * self.kernel_size * self.hidden_dim**2
        return {
            "parameters": weights,
            "multiply_adds": length * weights,
            "state_elements": self._reach * self.hidden_dim,
        }
