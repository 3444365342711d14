"""The contract that every architecture in this library keeps."""

import keras
import tensorflow as tf

from convnlp.layers.masks import Masks


class TokenMixer(keras.layers.Layer):
    """The one part of a layer in which positions see each other: [B,T,D] -> [B,T,D].

    A subclass states its facts, and implements `mix` and, where it supports steps, `empty_state` and
    `advance`; the checks of its facts live here. `call` is the whole contract for training; `init_state` and
    `step` compute the same outputs chunk by chunk for incremental decoding.

    Facts (class attributes):
        supports_causal: bool. `causal=True` is possible.
        supports_step: bool. A causal mixer has `init_state` and `step`.
        supports_packing: bool. `segment_ids` are possible: several texts in one row do not see each other.
        supports_prefix: bool. `prefix_mask` is possible: behind a prefix that is seen whole, a position sees
            only what is before it.
        supports_right_to_left: bool. `right_to_left=True` is possible in a call: a position sees only itself
            and what follows.
        needs_max_length: bool. It has weights per position, hence an argument and attribute
            `max_sequence_length`; longer texts raise.
        knows_order: bool. Where the tokens stand matters. A model gives the others positions by itself, see
            `position_embedding` of `convnlp.models.Seq2SeqBackbone`: they would take any order of the tokens
            for the same text, and only permute their outputs.
        pad_length_invariant: bool. The outputs at tokens do not depend on how many pads follow them.
        pads_are_zeros: bool. Pads are to the tokens what zeros would be, which is all that `padding_mask`
            does: a block may hand over an x with zeros there in its place.
        gated: bool. It has no projections of its own: a block puts it between a gate and an output
            projection.
        double_gate: bool. The gated block has a gate behind the mixer too, see `GLUConvBlock`. An option of
            some mixers.
        takes_images: bool. Without masks, x may be [B,1,T,D] too, in what is exported for TFLite.
        contains_feed_forward: bool. It has a feed-forward network inside: a layer around it leaves its own
            out.

    Args:
        hidden_dim: int. Width D of inputs and outputs.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Raises:
        ValueError: for a use that breaks a fact, when the mixer or the model around it is built.
    """

    supports_causal = True
    supports_step = True
    supports_packing = True
    supports_prefix = False
    supports_right_to_left = False
    needs_max_length = False
    knows_order = True
    pad_length_invariant = True
    pads_are_zeros = False
    gated = True
    double_gate = False
    takes_images = False
    contains_feed_forward = False

    def __init__(self, hidden_dim, causal=False, **kwargs):
        super().__init__(**kwargs)
        require_count("hidden_dim", hidden_dim)
        self.hidden_dim = hidden_dim
        self.causal = causal
        if causal and not self.supports_causal:
            raise ValueError(
                f"`causal` must be False: {type(self).__name__} mixes all positions. Received: causal=True"
            )

    def build(self, input_shape):
        if input_shape[-1] != self.hidden_dim:
            raise ValueError(
                f"The last axis of `x` must be hidden_dim = {self.hidden_dim}. Received: shape {input_shape}"
            )

    def call(
        self,
        x,
        padding_mask=None,
        segment_ids=None,
        training=False,
        prefix_mask=None,
        right_to_left=False,
    ):
        """Mixes the positions of each row.

        With a `prefix_mask`, position i sees position m of its text if m <= i or m is in the prefix (the
        prefix language model of Dong et al., 2019, "UniLM", https://arxiv.org/abs/1905.03197). The relation
        is transitive, so that nothing leaks in a stack either. Attention hides the other keys; normalised
        taps are normalised over those that are left; other taps are dropped. Without any prefix, a
        `prefix_mask` of zeros, it is a language model from left to right; `right_to_left` is its mirror
        image, by the same weights: position i sees position m of its text if m >= i.

        Args:
            x: float tensor [B,T,D].
            padding_mask: bool tensor [B,T], True = token. Defaults to no pads.
            segment_ids: int32 tensor [B,T], 0 = pad: only positions of equal ids see each other. Defaults to
                one segment per row.
            training: bool. Whether dropout is active.
            prefix_mask: bool tensor [B,T], True = prefix, which comes first in each text. Defaults to none:
                every position sees as far as the mixer does.
            right_to_left: bool. Whether a position sees only itself and what follows. Defaults to `False`.

        Returns:
            Tensor [B,T,D] of x's type. Its values at pads mean nothing.

        Raises:
            ValueError: if `segment_ids` are given and the mixer does not support packing, `prefix_mask` and
                it does not support a prefix or is causal, `right_to_left` and it does not support that, is
                causal or has a `prefix_mask`, or if T is more than the `max_sequence_length`
                that the mixer needs.
            tf.errors.InvalidArgumentError: of the last, in a graph that does not know T, as in an exported
                model.
        """
        if self.longest_text is not None:
            x = with_length_limit(x, "x", "max_sequence_length", self.longest_text, self._why_limited)
        if padding_mask is not None:
            padding_mask = tf.cast(padding_mask, tf.bool)
        if segment_ids is not None:
            if not self.supports_packing:
                raise ValueError(
                    f"`segment_ids` must be None: {type(self).__name__} cannot keep packed texts apart. "
                    f"Received: segment_ids={segment_ids}"
                )
            segment_ids = tf.cast(segment_ids, tf.int32)
            tokens = segment_ids > 0
            padding_mask = tokens if padding_mask is None else tokens & padding_mask
        if prefix_mask is not None:
            if not self.supports_prefix or self.causal:
                reason = "a causal one hides the prefix too" if self.supports_prefix else "it would leak"
                raise ValueError(
                    f"`prefix_mask` must be None for this {type(self).__name__}: {reason}. "
                    f"Received: causal={self.causal}, prefix_mask={prefix_mask}"
                )
            prefix_mask = tf.cast(prefix_mask, tf.bool)
        if right_to_left and (not self.supports_right_to_left or self.causal or prefix_mask is not None):
            raise ValueError(
                f"`right_to_left` must be False for this {type(self).__name__}: it needs "
                "supports_right_to_left = True, causal = False and no prefix_mask. Received: "
                f"supports_right_to_left={self.supports_right_to_left}, causal={self.causal}, "
                f"prefix_mask={prefix_mask}"
            )
        return self.mix(x, Masks(padding_mask, segment_ids, prefix_mask, right_to_left), training)

    def init_state(self, batch_size, max_length):
        """The state before the first step.

        Args:
            batch_size: int or scalar tensor B.
            max_length: int. The most positions that will be stepped through.

        Returns:
            Flat dict of fixed-shape tensors with the batch on axis 0, so that beams can be gathered.

        Raises:
            ValueError: if the mixer is not causal or does not support steps, or if `max_length` is more than
                the `max_sequence_length` that it needs.
        """
        if not self.supports_step:
            raise ValueError(
                "`mixer` must have supports_step = True for incremental decoding. "
                f"Received: {type(self).__name__}"
            )
        if not self.causal:
            raise ValueError("`causal` must be True for incremental decoding. Received: causal=False")
        self._require_length("max_length", tf.get_static_value(max_length))
        if not self.built:
            self.build((None, None, self.hidden_dim))
        return self.empty_state(batch_size, max_length)

    def step(self, x_chunk, state, index):
        """The outputs of `call` for the next C positions.

        Args:
            x_chunk: float tensor [B,C,D], C >= 1; the same input `call` would get at positions index .. index
                + C - 1.
            state: dict, from `init_state` or the step before.
            index: int or int32 scalar tensor. Position of the chunk's first element.

        Returns:
            Tensor [B,C,D], and the state after the chunk.
        """
        return self.advance(tf.cast(x_chunk, self.compute_dtype), state, index)

    @property
    def entry_projections(self):
        """The projections that are all that a token of x goes into; () where anything else reads it.

        What is constant in front of them, a norm's scale and offset, can become part of them where a model is
        exported, if the mixer does not need what they give at pads to be zero.
        """
        return ()

    @property
    def exit_projections(self):
        """The projections whose outputs, added up, are the mixer's output; () where it is anything else."""
        return ()

    @property
    def longest_text(self):
        """The most positions that the mixer takes, or None for any number."""
        return self.max_sequence_length if self.needs_max_length else None

    def _require_length(self, name, length):
        if None not in (self.longest_text, length) and length > self.longest_text:
            rule = length_rule(name, "max_sequence_length", self.longest_text, self._why_limited)
            raise ValueError(f"{rule} {length}")

    @property
    def _why_limited(self):
        return f"{type(self).__name__} has weights for each of them"

    def mix(self, x, masks, training):
        """`call` behind its checks: the `padding_mask` of `Masks` is bool and covers the pads of segments."""
        raise NotImplementedError

    def empty_state(self, batch_size, max_length):
        """`init_state` behind its checks."""
        raise NotImplementedError

    def advance(self, x_chunk, state, index):
        """`step` on a chunk in the compute type."""
        raise NotImplementedError

    def receptive_field(self, length):
        """The most neighbouring positions that one output of a row of `length` can depend on."""
        raise NotImplementedError

    def cost(self, length):
        """What one example of `length` positions costs.

        Returns:
            Dict of ints: "parameters", "multiply_adds" of one call, "state_elements" of one row while
            decoding up to `length` (0 without steps).
        """
        raise NotImplementedError

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "hidden_dim": self.hidden_dim, "causal": self.causal}


def length_rule(name, limit_name, limit, reason):
    """What an error says of too many positions, up to their number."""
    return f"`{name}` must have at most {limit_name} = {limit} positions: {reason}. Received:"


def with_length_limit(x, name, limit_name, limit, reason):
    """The tensor x [B,T,...], of at most `limit` positions T.

    Where T is not known yet, the check is part of the graph and stands in what is exported from it; TFLite
    and XLA leave it out.

    Args:
        x: tensor [B,T,...].
        name: str. What x is called where it comes from.
        limit_name: str. The argument that sets the limit.
        limit: int.
        reason: str. Why there is a limit.

    Returns:
        `x`, to be read in its place.

    Raises:
        ValueError: if T is more than `limit`.
        tf.errors.InvalidArgumentError: the same, when a graph of unknown T runs.
    """
    rule, length = length_rule(name, limit_name, limit, reason), x.shape[1]
    if length is not None:
        if length > limit:
            raise ValueError(f"{rule} {length}")
        return x
    length = tf.shape(x)[1]
    with tf.control_dependencies([tf.debugging.Assert(length <= limit, [rule, length])]):
        return tf.identity(x)


def require_count(name, value, minimum=1):
    """Raises ValueError unless the argument `name` is an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"`{name}` must be an int >= {minimum}. Received: {name}={value!r}")


def require_heads(hidden_dim, num_heads, name="num_heads"):
    """Raises ValueError unless the argument `name` divides `hidden_dim`."""
    require_count(name, num_heads)
    if hidden_dim % num_heads:
        raise ValueError(
            f"`{name}` must divide hidden_dim. Received: {name}={num_heads}, hidden_dim={hidden_dim}"
        )


def require_rate(name, value):
    """Raises ValueError unless the argument `name` is a dropout rate."""
    if not 0 <= value < 1:
        raise ValueError(f"`{name}` must be in [0, 1). Received: {name}={value!r}")
