"""What a `Seq2SeqBackbone` computes, part by part."""

from keras import ops

from convnlp.layers.masks import same_segment


class BackboneComputation:
    """The methods of a `Seq2SeqBackbone` that apply its layers, outside of the functional model.

    A class that extends it has the layers `token_embedding`, `position_layer`, `encoder` and `decoder`, and
    `num_layers`; see `convnlp.models.backbone_layers`.
    """

    def encode(
        self,
        token_ids,
        padding_mask=None,
        segment_ids=None,
        training=False,
        prefix_mask=None,
        right_to_left=False,
    ):
        """Applies the encoder to token ids.

        Args:
            token_ids: int32 [B,S].
            padding_mask: bool [B,S], True = token. None: all are tokens.
            segment_ids: int32 [B,S], 0 = pad, for packed rows.
            training: bool. Whether to apply dropout.
            prefix_mask: bool [B,S], True = prefix; all other tokens see only what comes before them. See
                `convnlp.layers.TokenMixer.call`.
            right_to_left: bool. Whether tokens see only themselves and what follows.

        Returns:
            [B,S,D], or fewer positions with a `pool_size`; see `encoder_output_mask`.
        """
        return self.encoder(
            self._embed(token_ids, segment_ids),
            padding_mask=_as_bool(padding_mask),
            segment_ids=segment_ids,
            training=training,
            prefix_mask=prefix_mask,
            right_to_left=right_to_left,
        )

    @property
    def reading_stack(self):
        """The stack that reads a text: the encoder or, in a decoder-only model, the decoder."""
        return self.encoder if self.num_layers else self.decoder

    def read(self, token_ids, padding_mask=None, training=False, prefix_mask=None):
        """Applies the `reading_stack` to a row, as `encode` of its `encoder_only()` does.

        Args:
            token_ids: int32 [B,S].
            padding_mask: bool [B,S], True = token. None: all are tokens.
            training: bool. Whether to apply dropout.
            prefix_mask: bool [B,S], as in `encode`. None: every token sees the whole text.

        Returns:
            [B,S,D], or fewer positions with a `pool_size`; see `encoder_output_mask`.
        """
        if self.num_layers:
            return self.encode(
                token_ids, padding_mask=padding_mask, training=training, prefix_mask=prefix_mask
            )
        return self.decoder.read(self._embed(token_ids), _as_bool(padding_mask), prefix_mask, training)

    def encoder_output_mask(self, padding_mask):
        """Returns which positions of `encode`'s output hold tokens: bool [B,S], fewer with a `pool_size`."""
        return self.encoder.output_mask(_as_bool(padding_mask))

    def decode(
        self,
        token_ids,
        encoder_output,
        encoder_padding_mask=None,
        padding_mask=None,
        segment_ids=None,
        encoder_segment_ids=None,
        training=False,
    ):
        """Applies the decoder to whole sequences.

        Args:
            token_ids: int32 [B,T], the targets shifted right by one, start token first.
            encoder_output: what `encode` returned.
            encoder_padding_mask: bool [B,S], True = token; the mask that `encode` was given.
            padding_mask: bool [B,T], True = token.
            segment_ids: int32 [B,T], for packed rows.
            encoder_segment_ids: int32 [B,S], needed with `segment_ids`.
            training: bool. Whether to apply dropout.

        Returns:
            [B,T,D].

        Raises:
            ValueError: if there is no decoder, or `segment_ids` without `encoder_segment_ids`.
        """
        self._require_decoder("decode")
        allowed = None
        if encoder_padding_mask is not None:
            allowed = ops.expand_dims(self.encoder_output_mask(encoder_padding_mask), 1)  # [B,1,S]
        if segment_ids is not None:
            if encoder_segment_ids is None:
                raise ValueError(
                    "`encoder_segment_ids` must be given with `segment_ids`. "
                    "Received: encoder_segment_ids=None"
                )
            ids = [ops.cast(ids, "int32") for ids in (segment_ids, encoder_segment_ids)]
            same = same_segment(*ids)  # [B,T,S]
            allowed = same if allowed is None else ops.logical_and(allowed, same)
        start = self._target_start(encoder_padding_mask, encoder_output)
        return self.decoder(
            self._embed(token_ids, segment_ids, start),
            encoder_output,
            allowed=allowed,
            padding_mask=_as_bool(padding_mask),
            segment_ids=segment_ids,
            training=training,
        )

    def logits(self, hidden):
        """Returns logits float32 [B,T,V] for states [B,T,D], with the tied embedding."""
        return self.token_embedding(hidden, reverse=True)

    def init_decoder_state(self, encoder_output, encoder_padding_mask, max_length):
        """Returns the decoder's state before the first token: a flat dict, name -> tensor, batch on axis 0.

        Args:
            encoder_output: what `encode` returned.
            encoder_padding_mask: bool [B,S], the mask that `encode` was given.
            max_length: int. Upper bound of the positions to come.
        """
        self._require_decoder("init_decoder_state")
        state = self.decoder.init_state(encoder_output, max_length)
        return {**state, "encoder_padding_mask": self.encoder_output_mask(encoder_padding_mask)}

    def decode_step(self, token_ids, state, index):
        """Applies the decoder at positions index, index + 1, ...: int32 [B,C], state -> ([B,C,D], state)."""
        mask = state["encoder_padding_mask"]
        layer_state = {name: value for name, value in state.items() if name != "encoder_padding_mask"}
        start = self._target_start(mask) + index if self.position_layer is not None else 0
        hidden, layer_state = self.decoder.step(
            self._embed(token_ids, start=start), layer_state, index, allowed=ops.expand_dims(mask, 1)
        )
        return hidden, {**layer_state, "encoder_padding_mask": mask}

    def _embed(self, token_ids, segment_ids=None, start=0):
        """Returns the input of the first layer.

        Args:
            token_ids: int32 [B,T].
            segment_ids: int32 [B,T], for packed rows, or None.
            start: int, or int32 [B,1] or []: the position of the first token.

        Returns:
            [B,T,D].
        """
        x = self.token_embedding(token_ids)
        return (
            x if self.position_layer is None else self.position_layer(x, segment_ids=segment_ids, start=start)
        )

    def _target_start(self, encoder_padding_mask, encoder_output=None):
        """Returns the position of the first target token: 0, or after the source in the same row."""
        if self.num_layers or self.position_layer is None:
            return 0
        if encoder_padding_mask is None:
            return ops.shape(encoder_output)[1]
        return ops.sum(ops.cast(encoder_padding_mask, "int32"), axis=1, keepdims=True)  # [B,1]

    def _require_decoder(self, method):
        if self.decoder is None:
            raise ValueError(
                f"`{method}` needs a decoder: build the backbone with `num_decoder_layers` >= 1, not 0."
            )


def _as_bool(mask):
    return None if mask is None else ops.cast(mask, "bool")
