"""Prefix language modelling: a single stack, an encoder or a decoder alone, continues a text."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from convnlp import losses
from convnlp.data import rules
from convnlp.models import PrefixLM, PrefixLMPreprocessor, Tokenizer
from convnlp.objectives.objective import Objective, require_mixers, require_token_outputs
from convnlp.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrefixLanguageModeling(Objective):
    """Predicts each token after a prefix from all that comes before; the prefix is read in both directions.

    The encoder alone is the language model; it predicts with its tied embedding, which adds no parameters.
    The prefix has any length from 1 to S - 1, the same for all rows and workers, which then have equally
    many targets.

    A model without an encoder (`num_layers=0`) reads the row as it does when `Seq2SeqLM` generates: the
    prefix is the source and ends in the end token, and the start token comes before the target, S + 1
    positions in all.

    Source: Dong et al., 2019, "Unified Language Model Pre-training" (UniLM), section 2.3,
    https://arxiv.org/abs/1905.03197; Raffel et al., 2020, section 3.2.2.

    Args:
        input_length: int >= 2. S, prefix and targets.
        weight: see `Objective`.

    Examples: `prefix_lm_token_ids` int32 and `prefix_mask` bool [B,S].
    """

    name: ClassVar[str] = "prefix_lm"
    input_length: int = option(rule=rules.integer(2))

    @property
    def logits_per_token(self):
        return 1.0

    def check(self, backbone):
        if not backbone.num_layers:
            return  # its mixers have supports_prefix, or it could not have been built
        require_token_outputs(self, backbone)
        require_mixers(self, backbone, "supports_prefix")

    def model(self, backbone, tokenizer):
        if not backbone.num_layers:
            return None
        return PrefixLM(backbone, PrefixLMPreprocessor(tokenizer, self.input_length))

    @tf.autograph.experimental.do_not_convert
    def examples(self, tokens, seeds, tokenizer):
        length = tokens.shape[1]
        prefix_length = tf.random.stateless_uniform([], seeds.shared, 1, length, tf.int32)
        mask = tf.zeros_like(tokens, tf.bool) | (tf.range(length) < prefix_length)  # [B,S]
        return {"prefix_lm_token_ids": tokens, "prefix_mask": mask}

    def loss(self, backbone, batch, training):
        token_ids, prefix_mask = batch["prefix_lm_token_ids"], batch["prefix_mask"]
        if not backbone.num_layers:
            row, is_source = source_and_target(token_ids, prefix_mask)
            hidden = backbone.read(row, prefix_mask=is_source, training=training)[:, 1:]
            logits = backbone.token_embedding.logits(hidden)
            return *losses.cross_entropy(logits, token_ids, ~prefix_mask), {}
        hidden = backbone.encode(token_ids[:, :-1], prefix_mask=prefix_mask[:, :-1], training=training)
        logits = backbone.token_embedding.logits(hidden)
        return *losses.cross_entropy(logits, token_ids[:, 1:], ~prefix_mask[:, 1:]), {}


def source_and_target(token_ids, prefix_mask):
    """Returns rows as a model without an encoder reads them, with the prefix as source.

    Args:
        token_ids: int32 tensor [B,S].
        prefix_mask: bool tensor [B,S], True = prefix, which comes first.

    Returns:
        (int32 [B,S+1], bool [B,S+1]): the source with its end token, then the start token and the target
        without its last token; and a mask of the source.

    Example:
    >>> prefix = tf.constant([[True, True, False, False]])
    >>> rows, is_source = source_and_target(tf.constant([[5, 6, 7, 8]]), prefix)
    >>> rows.numpy().tolist(), is_source.numpy().astype(int).tolist()
    ([[5, 6, 1, 0, 7]], [[1, 1, 1, 0, 0]])
    """
    count = tf.reduce_sum(tf.cast(prefix_mask, tf.int32), axis=1, keepdims=True)  # [B,1]
    places = tf.range(token_ids.shape[1] + 1)
    source = tf.pad(token_ids, [[0, 0], [0, 1]])  # [B,S+1]
    target = tf.pad(token_ids[:, :-1], [[0, 0], [2, 0]])  # [B,S+1], each token two places later
    target = tf.where(places == count + 1, Tokenizer.start_token_id, target)
    rows = tf.where(places < count, source, tf.where(places == count, Tokenizer.end_token_id, target))
    return rows, places <= count
