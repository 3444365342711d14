"""The contract of all token mixers."""

import keras
import tensorflow as tf

from convnlp.layers.checks import length_rule, require_count, with_length_limit
from convnlp.layers.masks import Masks


class TokenMixer(keras.layers.Layer):
    """The one part of a layer in which positions see each other: [B,T,D] -> [B,T,D].

    A subclass states its `name`, which is its key in `convnlp.layers.MIXERS`, and its facts. It implements
    `mix` and `cost`; if not every output can see the whole row, also `receptive_field`; if it supports steps,
    also `empty_state` and `advance`. This class checks that no use breaks the facts. `call` is for training
    and for whole texts; `init_state` and `step` compute the same outputs chunk by chunk, for incremental
    decoding.

    Facts (class attributes):
        supports_causal: bool. Accepts `causal=True`.
        supports_step: bool. Has `init_state` and `step` if causal.
        supports_packing: bool. Accepts `segment_ids`: several texts in a row do not see each other.
        supports_prefix: bool. Accepts `prefix_mask`: all positions see the whole prefix, and each position
            after it sees only what comes before.
        supports_right_to_left: bool. Accepts `right_to_left=True` in a call: a position sees only itself and
            what follows.
        needs_max_length: bool. Has weights per position, hence an argument and attribute
            `max_sequence_length`; longer texts raise.
        knows_order: bool. The order of the tokens matters. Without it, a mixer only permutes its outputs if
            the tokens are permuted, so a model adds positions; see `position_embedding` of
            `convnlp.models.Seq2SeqBackbone`.
        pad_length_invariant: bool. The outputs at tokens do not depend on how many pads follow.
        pads_are_zeros: bool. All that `padding_mask` does is to set pads to zero, so a block may pass an x
            with zeros there instead.
        gated: bool. Has no projections of its own: a block puts it between a gate and an output projection.
        double_gate: bool. The block also has a gate after the mixer, see `GLUConvBlock`. An option of some
            mixers.
        takes_images: bool. Without masks, x may also be [B,1,T,D], in functions exported to TFLite.
        contains_feed_forward: bool. Contains a feed-forward network, so the layer around it adds none.

    Args:
        hidden_dim: int. Width D of inputs and outputs.
        causal: bool. Whether an output sees only its own and earlier positions. Defaults to `False`.
        **kwargs: `name` and `dtype` of the Keras layer.

    Raises:
        ValueError: if a use breaks a fact, when the mixer or the model around it is built.
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
        prefix language model of Dong et al., 2019, "UniLM", https://arxiv.org/abs/1905.03197). This relation
        is transitive, so nothing leaks in a stack either. Attention masks the other keys; softmax taps are
        renormalised over those that remain; other taps are dropped. With an empty prefix, a `prefix_mask` of
        all False, it is a left-to-right language model; `right_to_left` is its mirror image with the same
        weights: position i sees position m of its text if m >= i.

        Args:
            x: float tensor [B,T,D].
            padding_mask: bool tensor [B,T], True = token. Pads come last, since some mixers count positions
                from the start of the row; mixers with `supports_prefix` also take them in front of the text.
                Defaults to no pads.
            segment_ids: int32 tensor [B,T], 0 = pad: only positions of equal ids see each other. A text is
                one run of equal ids, and no other text of its row has its id. Defaults to one segment per
                row.
            training: bool. Whether dropout is active.
            prefix_mask: bool tensor [B,T], True = prefix, which comes first in each text. Defaults to none:
                every position sees as far as the mixer reaches.
            right_to_left: bool. Whether a position sees only itself and what follows. Defaults to `False`.

        Returns:
            Tensor [B,T,D] of the compute dtype. Its values at pads are undefined.

        Raises:
            ValueError: if `segment_ids` are given but the mixer does not support packing; if `prefix_mask` is
                given but the mixer does not support a prefix or is causal; if `right_to_left` is True but the
                mixer does not support it, is causal or has a `prefix_mask`; or if T exceeds
                `max_sequence_length`.
            tf.errors.InvalidArgumentError: if T exceeds `max_sequence_length` in a graph that does not know
                T, such as an exported model.
        """
        if self.longest_text is not None:
            x = with_length_limit(x, "x", *self._length_limit())
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
        """Returns the state before the first step.

        Args:
            batch_size: int or scalar tensor B.
            max_length: int. The largest number of positions that will be decoded.

        Returns:
            Flat dict of fixed-shape tensors with the batch on axis 0, so that beams can be gathered.

        Raises:
            ValueError: if the mixer is not causal or does not support steps, or if `max_length` exceeds
                `max_sequence_length`.
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
        """Computes the outputs of `call` for the next C positions.

        Args:
            x_chunk: float tensor [B,C,D], C >= 1; the inputs of `call` at positions index .. index + C - 1.
            state: dict, from `init_state` or the previous step.
            index: int or int32 scalar tensor. Position of the chunk's first element.

        Returns:
            Tensor [B,C,D], and the state after the chunk.
        """
        return self.advance(tf.cast(x_chunk, self.compute_dtype), state, index)

    @property
    def entry_projections(self):
        """The only projections that read the tokens of x; () if anything else reads them.

        On export, a norm's constant scale and offset before them can become part of these projections,
        provided that the mixer does not need their outputs at pads to be zero.
        """
        return ()

    @property
    def exit_projections(self):
        """The projections whose outputs add up to the mixer's output; () if it is computed otherwise."""
        return ()

    @property
    def longest_text(self):
        """The largest number of positions that the mixer supports, or None for no limit."""
        return self.max_sequence_length if self.needs_max_length else None

    def _length_limit(self):
        """Returns the argument that sets `longest_text`, its value, and why there is a limit."""
        reason = f"{type(self).__name__} has weights for each of them"
        return "max_sequence_length", self.longest_text, reason

    def _require_length(self, name, length):
        if None not in (self.longest_text, length) and length > self.longest_text:
            raise ValueError(f"{length_rule(name, *self._length_limit())} {length}")

    def mix(self, x, masks, training):
        """Implements `call` after its checks.

        Args:
            x: tensor [B,T,D] in the compute dtype.
            masks: `Masks`; the `padding_mask` is bool and covers the pads of `segment_ids`.
            training: bool. Whether dropout is active.

        Returns:
            Tensor [B,T,D].
        """
        raise NotImplementedError

    def empty_state(self, batch_size, max_length):
        """Implements `init_state` after its checks: returns a flat dict, name -> tensor [B,...]."""
        raise NotImplementedError

    def advance(self, x_chunk, state, index):
        """Implements `step` for a chunk in the compute dtype: x_chunk [B,C,D] -> ([B,C,D], state)."""
        raise NotImplementedError

    def receptive_field(self, length):
        """Returns the largest number of adjacent positions that an output of a row of `length` can see.

        By default, all of them.
        """
        return length

    def cost(self, length):
        """Returns the cost of one example of `length` positions.

        Returns:
            Dict of ints: "parameters", "multiply_adds" of one call, and "state_elements" of one row that is
            decoded up to `length` (0 without steps).
        """
        raise NotImplementedError

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "hidden_dim": self.hidden_dim, "causal": self.causal}
