"""The one skeleton: an encoder-decoder whose token mixer is the only thing that changes."""

import keras
import keras_nlp
from keras import ops

from convnlp.models import (
    arguments,
    backbone_arguments,
    backbone_copies,
    backbone_cost,
    backbone_layers,
    lora,
    precision,
    presets,
)
from convnlp.models.backbone_computation import BackboneComputation
from convnlp.models.checked_preset import ModelPreset


@keras.saving.register_keras_serializable(package="convnlp")
class Seq2SeqBackbone(ModelPreset, BackboneComputation, keras_nlp.models.Backbone):
    """Encoder and causal decoder with cross-attention and one tied embedding, around any token mixer.

    Source: Tay et al., 2021, section 3, https://arxiv.org/abs/2105.03322; sizes and skeleton of T5 (Raffel
    et al., 2020). There is no position table unless `position_embedding` asks for one: convolutions know the
    order of their taps, and attention has a relative position bias.
    Departs from the release: LayerNorm instead of RMSNorm; the scale of embedding and logits, see
    `TokenEmbedding`.

    Called on a dict, it is a functional Keras model; `encode`, `decode`, `logits`, `init_decoder_state` and
    `decode_step` of `BackboneComputation` are the same in parts, with segment ids for packed rows.

    Args:
        vocabulary_size: int. Rows of the embedding, sentinels included.
        num_layers: int. Encoder layers. 0 builds a decoder-only model, see `convnlp.layers.PrefixDecoder`:
            `encode` returns the embedded source, which the decoder's stack reads before the target.
        num_heads: int. Heads of attention and cross-attention, and kernels of a convolution with shared taps.
        hidden_dim: int. D.
        intermediate_dim: int. Inner width of the feed-forward sublayers.
        num_decoder_layers: int. Defaults to `num_layers`; 0 builds an encoder alone.
        mixer: str, or a list with a name per layer. See `convnlp.layers.MIXERS`, and
            `convnlp.models.LAYOUTS` for names of whole stacks.
        encoder_mixer, decoder_mixer: like `mixer`, for one side.
        kernel_size: int, or a list with one per encoder layer; the decoder takes the first
            `num_decoder_layers`, unless it has a `decoder_kernel_size`.
        decoder_kernel_size: int, or a list with one per decoder layer. Default None: as in the encoder.
        dilation_rate: like `kernel_size`.
        weight_softmax: bool. Whether taps are normalised. Default None: the mixer's own default (no for
            dilated_conv, yes for the others).
        pool_size: int, or a list with one per encoder layer: how many neighbouring positions are merged into
            one before it; see `convnlp.layers.Encoder`. The decoder attends to the merged positions.
        mixer_options: dict. Further arguments of the mixer's class; they also override those above for the
            mixer alone, as in `{"num_heads": 2}` for the paper's two depth filters. If the mixers differ,
            each takes the options that it has, and `{"mb_conv": {"expansion": 2}}` applies only to the layers
            of that name.
        residual_form: "pre" (default), "post", "sublayer_output" or "affine"; see
            `convnlp.layers.Residual`.
        dropout: float in [0, 1).
        max_sequence_length: int. The longest text, for mixers and learned position embeddings that have
            weights for each position.
        position_embedding: "learned" or "sinusoidal", see `PositionEmbedding`, for the inputs of both sides;
            "none" or None for none. Default "auto": sinusoidal if no mixer of the encoder or none of the
            decoder knows the order of its tokens (`knows_order`), else none. In a decoder-only model, the
            target's positions continue those of its source.
        cross_attention_init: "independent" or "tied"; see `convnlp.layers.CrossAttention`.
        dtype: dtype policy: "float32", "mixed_bfloat16" or "mixed_float16". Default None: the global one.
        **kwargs: `name` and `trainable` of the Keras model.

    Raises:
        ValueError: if an argument, dtype or mixer is unknown, a list has the wrong length, or a mixer does
            not support its use, as in a decoder if it cannot be causal.

    Example:
    ```python
    import numpy as np
    from convnlp.models import SIZES, Seq2SeqBackbone
    backbone = Seq2SeqBackbone(50, **SIZES["tiny"], mixer="lightweight_conv", kernel_size=[3, 7])
    ids = np.array([[5, 6, 7, 1, 0]])
    assert backbone.encode(ids, padding_mask=ids != 0).shape == (1, 5, 128)
    ```
    """

    _is_written = staticmethod(presets.of_backbone)

    def __init__(
        self,
        vocabulary_size,
        num_layers,
        num_heads,
        hidden_dim,
        intermediate_dim,
        num_decoder_layers=None,
        mixer="dynamic_conv",
        encoder_mixer=None,
        decoder_mixer=None,
        kernel_size=7,
        dilation_rate=1,
        weight_softmax=None,
        pool_size=1,
        mixer_options=None,
        residual_form="pre",
        dropout=0.1,
        max_sequence_length=512,
        cross_attention_init="independent",
        position_embedding="auto",
        decoder_kernel_size=None,
        dtype=None,
        **kwargs,
    ):
        arguments.refuse_unknown(Seq2SeqBackbone, kwargs)
        precision.check_dtype(dtype)
        if num_decoder_layers is None:
            num_decoder_layers = num_layers
        config = {
            "vocabulary_size": vocabulary_size,
            "num_layers": num_layers,
            "num_heads": num_heads,
            "hidden_dim": hidden_dim,
            "intermediate_dim": intermediate_dim,
            "num_decoder_layers": num_decoder_layers,
            "mixer": mixer,
            "encoder_mixer": encoder_mixer,
            "decoder_mixer": decoder_mixer,
            "kernel_size": kernel_size,
            "decoder_kernel_size": decoder_kernel_size,
            "dilation_rate": dilation_rate,
            "weight_softmax": weight_softmax,
            "pool_size": pool_size,
            "mixer_options": mixer_options,
            "residual_form": residual_form,
            "dropout": dropout,
            "max_sequence_length": max_sequence_length,
            "cross_attention_init": cross_attention_init,
            "position_embedding": position_embedding,
        }
        config = backbone_arguments.plain(config)
        backbone_arguments.check(config)

        # === Layers ===
        layers = backbone_layers.build(config, dtype)
        self.token_embedding, self.position_layer = layers.token_embedding, layers.position_layer
        self.encoder, self.decoder = layers.encoder, layers.decoder
        self.num_layers = config["num_layers"]
        config["position_embedding"] = getattr(layers.position_layer, "kind", None)  # not "auto"

        # === Functional model ===
        inputs = {
            "encoder_token_ids": keras.Input((None,), dtype="int32", name="encoder_token_ids"),
            "encoder_padding_mask": keras.Input((None,), dtype="int32", name="encoder_padding_mask"),
        }
        encoder_mask = ops.cast(inputs["encoder_padding_mask"], "bool")
        x = self._embed(inputs["encoder_token_ids"])
        outputs = {"encoder_sequence_output": self.encoder(x, padding_mask=encoder_mask)}
        if self.decoder is not None:
            inputs["decoder_token_ids"] = keras.Input((None,), dtype="int32", name="decoder_token_ids")
            inputs["decoder_padding_mask"] = keras.Input((None,), dtype="int32", name="decoder_padding_mask")
            outputs["decoder_sequence_output"] = self.decoder(
                self._embed(inputs["decoder_token_ids"], start=self._target_start(encoder_mask)),
                outputs["encoder_sequence_output"],
                allowed=ops.expand_dims(self.encoder.output_mask(encoder_mask), 1),
                padding_mask=ops.cast(inputs["decoder_padding_mask"], "bool"),
            )
        super().__init__(inputs=inputs, outputs=outputs, dtype=dtype, **kwargs)

        # === Config ===
        for name, value in config.items():
            setattr(self, name, value)
        self._config_names = tuple(config)

    def depth_of(self, variable):
        """Returns how far down in its stack a variable is, for learning rates that fall from layer to layer.

        Args:
            variable: Keras variable, of this model or of a head on it.

        Returns:
            int. L - i in layer i = 0, 1, ... of L layers of the encoder or the decoder, whichever has the
            variable; in the embeddings, one more than in the lowest layer of the deeper stack; 0 in what
            follows the layers, such as the last norm and a head.
        """

        def holds(layer):
            return layer is not None and any(each is variable for each in layer.variables)

        stacks = [stack.layers for stack in (self.encoder, self.decoder) if stack is not None]
        for layers in stacks:
            for i, layer in enumerate(layers):
                if holds(layer):
                    return len(layers) - i
        embeds = holds(self.token_embedding) or holds(self.position_layer)
        return max(map(len, stacks)) + 1 if embeds else 0

    @classmethod
    def from_config(cls, config):
        """As in Keras; configs older than `position_embedding` mean none."""
        return super().from_config({"position_embedding": None, **config})

    def save_weights(self, filepath, *args, **kwargs):
        """As in Keras; in a preset, the weight files of an earlier save are removed."""
        super().save_weights(filepath, *args, **kwargs)
        presets.remove_older_weights(filepath)

    def load_weights(self, filepath, skip_mismatch=False, **kwargs):
        """As in Keras; a preset's weights are checked first, whoever reads them. See `from_preset`."""
        with presets.reading_weights(filepath, lora.saved_variables(self), complete=not skip_mismatch):
            super().load_weights(filepath, skip_mismatch=skip_mismatch, **kwargs)

    def default_lora_layer_names(self):
        """Returns the names of all projections of the mixers, the gates and the feed-forward sublayers."""
        return lora.layer_names(self)

    def enable_lora(self, rank, target_layer_names=None):
        """Freezes all but a low-rank update of each target: W + A B with A [D,rank] and B [rank,E].

        Source: Hu et al., 2021, https://arxiv.org/abs/2106.09685; on all projections, as Dettmers et al.,
        2023, section 4, https://arxiv.org/abs/2305.14314. `save_to_preset` writes W + A B in place of W.

        Args:
            rank: int >= 1.
            target_layer_names: list of str from `default_lora_layer_names()`. Defaults to all of them.

        Raises:
            ValueError: if a name is not that of a projection, or if LoRA is already enabled. Then nothing is
                frozen.
        """
        lora.check(self, rank, target_layer_names)
        super().enable_lora(rank, target_layer_names)

    def encoder_only(self):
        """Returns a new backbone without the decoder, with copies of the embedding and the encoder's weights.

        For a decoder-only model, it is the decoder's stack without the mask.

        Raises:
            ValueError: if LoRA is enabled; enable it on the copy.
        """
        return backbone_copies.encoder_only(self)

    def with_decoder(self, num_layers, mixer=None, cross_attention_init="independent", kernel_size=None):
        """Returns a new backbone with copies of the embedding and the encoder, and an untrained decoder.

        Training makes the rows of the embedding longer. The decoder's outputs start as much smaller, so that
        its logits have unit variance, as those of an untrained model (`TokenEmbedding`).

        Args:
            num_layers: int >= 1. Decoder layers. Dilations are those of the first encoder layers.
            mixer: like `decoder_mixer`. Default None: as in the encoder.
            cross_attention_init: "independent" or "tied"; see `convnlp.layers.CrossAttention`.
            kernel_size: like `decoder_kernel_size`. Default None: those of the first encoder layers.

        Raises:
            ValueError: if there already is a decoder, the mixer cannot be causal, or LoRA is enabled.
        """
        return backbone_copies.with_decoder(self, num_layers, mixer, cross_attention_init, kernel_size)

    def cost(self, encoder_length, decoder_length=0):
        """Returns the cost of one example, by the formulae of the layers.

        Args:
            encoder_length: int. Encoder tokens.
            decoder_length: int. Decoder tokens.

        Returns:
            dict with "parameters" (all), "multiply_adds" (for the given lengths, with the logits but without
            norms, gates and softmax), "state_elements" (what decoding keeps) and "receptive_field" (of one
            encoder output).
        """
        cost = backbone_cost.cost(self, encoder_length, decoder_length)
        return {**cost, "receptive_field": self.reading_stack.receptive_field(encoder_length)}

    def longest_text(self, side):
        """Returns the most tokens that the "encoder" or "decoder" takes, or None for any number."""
        limits = [getattr(self, side).longest_text()]
        if self.position_embedding == "learned":
            limits.append(self.max_sequence_length)
        return min((limit for limit in limits if limit is not None), default=None)

    def require_length(self, side, name, length):
        """Raises ValueError if the mixers of the "encoder" or "decoder" cannot take texts of `length` tokens.

        Args:
            side: str. "encoder" or "decoder".
            name: str. The name of the argument that gives the length.
            length: int.
        """
        longest = self.longest_text(side)
        if longest is not None and length > longest:
            of_mixers = longest == getattr(self, side).longest_text()
            taken_by = f"{side}'s mixers take" if of_mixers else "learned position embedding has rows for"
            is_limit = longest >= self.max_sequence_length  # a mixer's own option may be smaller
            limit = f" (max_sequence_length={self.max_sequence_length})" if is_limit else ""
            raise ValueError(
                f"`{name}` must be at most {longest}, the longest text that the {taken_by}{limit}. "
                f"Received: {name}={length}"
            )

    def require_vocabulary(self, preprocessor):
        """Raises ValueError if the ids of a preprocessor's tokenizer are not the rows of the embedding.

        Args:
            preprocessor: a task's preprocessor; None, or one whose vocabulary is not loaded yet, passes.
        """
        tokenizer = getattr(preprocessor, "tokenizer", None)
        if (
            getattr(tokenizer, "proto", None) is not None
            and tokenizer.vocabulary_size() != self.vocabulary_size
        ):
            raise ValueError(
                "`preprocessor` must have a tokenizer with as many ids as the embedding has rows, "
                f"vocabulary_size={self.vocabulary_size}. Received: one with {tokenizer.vocabulary_size()}"
            )

    def get_config(self):
        config = {**super().get_config(), **{name: getattr(self, name) for name in self._config_names}}
        if presets.is_saving() and self.dtype_policy.name.startswith("mixed_"):
            # Whoever loads it chooses: weights are float32, and keras_nlp's loader refuses a mixed policy.
            policy = keras.DTypePolicy(self.dtype_policy.variable_dtype)
            config["dtype"] = keras.dtype_policies.serialize(policy)
        return config
