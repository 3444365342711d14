"""Prefix language modelling: an encoder alone that continues a text."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from convnlp import losses
from convnlp.data import rules
from convnlp.models import PrefixLM, PrefixLMPreprocessor
from convnlp.objectives.objective import Objective, require_token_outputs
from convnlp.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrefixLanguageModeling(Objective):
    """Each token behind a prefix, from what is before it; the prefix is read from both sides.

    The encoder alone is the language model; its tied embedding predicts, so that it adds no parameters. The
    prefix is of any length from 1 to S - 1, the same for all rows and workers, which then have equally many
    targets.

    Source: Dong et al., 2019, "Unified Language Model Pre-training" (UniLM), section 2.3,
    https://arxiv.org/abs/1905.03197; Raffel et al., 2020, section 3.2.2.

    Args:
        input_length: int >= 2. S, prefix and targets.
        weight: see `Objective`.

    Examples: `prefix_lm_token_ids` int32 and `prefix_mask` bool [B,S].
    """

    name: ClassVar[str] = "prefix_lm"
    input_length: int = option(rule=rules.integer(2))

    def check(self, backbone):
        require_token_outputs(self, backbone)
        leaking = {layer.mixer.name for layer in backbone.encoder.layers if not layer.mixer.supports_prefix}
        if leaking:
            raise ValueError(
                "The objective prefix_lm needs mixers with supports_prefix = True in the encoder. "
                f"Received: {', '.join(sorted(leaking))}"
            )

    def model(self, backbone, tokenizer):
        return PrefixLM(backbone, PrefixLMPreprocessor(tokenizer, self.input_length))

    @tf.autograph.experimental.do_not_convert
    def examples(self, tokens, seeds, tokenizer):
        length = tokens.shape[1]
        prefix_length = tf.random.stateless_uniform([], seeds.shared, 1, length, tf.int32)
        mask = tf.zeros_like(tokens, tf.bool) | (tf.range(length) < prefix_length)  # [B,S]
        return {"prefix_lm_token_ids": tokens, "prefix_mask": mask}

    def loss(self, backbone, batch, training):
        token_ids, prefix_mask = batch["prefix_lm_token_ids"], batch["prefix_mask"]
        hidden = backbone.encode(token_ids[:, :-1], prefix_mask=prefix_mask[:, :-1], training=training)
        return *losses.cross_entropy(backbone.logits(hidden), token_ids[:, 1:], ~prefix_mask[:, 1:]), {}
