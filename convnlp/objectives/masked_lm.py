"""Masked language modelling, the pre-training objective of BERT, for whole batches inside the graph."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from convnlp import losses
from convnlp.data import rules
from convnlp.models import Tokenizer
from convnlp.objectives.objective import Objective, require_token_outputs
from convnlp.options import option

NOISE_DENSITY = 0.15
DENSITY = rules.number("(0, 1)")
KEPT, REPLACED = 0.1, 0.1  # shares of the predicted tokens; the others are masked
FIRST_TEXT_TOKEN_ID = 3  # after pad, end and unknown


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedLanguageModeling(Objective):
    """Predicts hidden tokens of the encoder's input with its tied embedding, which adds no parameters.

    Args:
        input_length: int. S.
        weight: see `Objective`.
        noise_density: float in (0, 1). The share of tokens to predict. Defaults to 0.15.

    Examples: `masked_token_ids` [B,S], `masked_positions`, `masked_targets` [B,M], all int32; see `mask`.
    """

    name: ClassVar[str] = "masked_lm"
    noise_density: float = option(NOISE_DENSITY, DENSITY)

    @property
    def logits_per_token(self):
        return self.noise_density

    def check(self, backbone):
        require_token_outputs(self, backbone)

    @tf.autograph.experimental.do_not_convert
    def examples(self, tokens, seeds, tokenizer):
        masked, positions, targets = mask(
            tokens,
            seeds.own,
            **replacements(tokenizer),
            noise_density=self.noise_density,
            end_token_id=tokenizer.end_token_id,
        )
        return {"masked_token_ids": masked, "masked_positions": positions, "masked_targets": targets}

    def loss(self, backbone, batch, training):
        hidden = backbone.encode(batch["masked_token_ids"], training=training)
        at_masks = tf.gather(hidden, batch["masked_positions"], batch_dims=1)  # [B,M,D]
        targets = batch["masked_targets"]
        logits = backbone.token_embedding.logits(at_masks)
        return *losses.cross_entropy(logits, targets, tf.ones_like(targets)), {}


def num_predictions(length, noise_density=NOISE_DENSITY):
    """Returns the number of tokens to predict in each sequence of `length` tokens, at least 1."""
    DENSITY.check("noise_density", noise_density)
    return max(round(length * noise_density), 1)


def replacements(tokenizer):
    """Returns what `mask` and `hide` put in the place of tokens: their arguments, by name.

    Args:
        tokenizer: see `Objective.examples`. Its first sentinel stands for the mask.

    Raises:
        ValueError: if it has no sentinel.
    """
    sentinels = tokenizer.sentinel_token_ids
    if not sentinels:
        raise ValueError("`tokenizer` must have a sentinel, which stands for the mask. Received: one without")
    return {
        "mask_token_id": sentinels[0],
        "num_text_tokens": tokenizer.vocabulary_size() - len(sentinels),
    }


def mask(
    tokens,
    seed,
    mask_token_id,
    num_text_tokens,
    *,
    noise_density=NOISE_DENSITY,
    end_token_id=Tokenizer.end_token_id,
):
    """Hides random tokens of each row: 80 % become the mask, 10 % another token, 10 % stay.

    Reference: Devlin et al., 2019, "BERT", section 3.1, https://arxiv.org/abs/1810.04805. Departs from it:
    each row has exactly `num_predictions` positions, chosen without replacement; ends of documents come last.

    Args:
        tokens: int tensor [B, S], S known.
        seed: int tensor [2]; the same seed and tokens give the same positions.
        mask_token_id: int.
        num_text_tokens: int, upper bound of random tokens.
        noise_density: float in (0, 1). Defaults to 0.15.
        end_token_id: int. Defaults to the tokenizer's, 1.

    Returns:
        (masked, positions, targets) of the type of `tokens`: the rows [B, S], the positions to predict
        [B, M], ascending, and the original tokens there [B, M].

    Raises:
        ValueError: if `noise_density` is out of range.

    Example:
    >>> masked, positions, targets = mask(tf.range(10, 24)[tf.newaxis], (0, 1), 99, num_text_tokens=90)
    >>> print(masked.numpy(), positions.numpy(), targets.numpy())
    [[10 11 12 99 14 15 99 17 18 19 20 21 22 23]] [[3 6]] [[13 16]]
    """
    batch_size, length = tf.shape(tokens)[0], tokens.shape[1]
    count = num_predictions(length, noise_density)
    choice_seed, fate_seed, token_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    rank = tf.random.stateless_uniform([batch_size, length], choice_seed)
    rank = tf.where(tokens == end_token_id, rank - 1.0, rank)
    positions = tf.sort(tf.math.top_k(rank, count).indices, axis=1)  # [B,M]
    masked, targets = _hide(tokens, positions, fate_seed, token_seed, mask_token_id, num_text_tokens)
    return masked, tf.cast(positions, tokens.dtype), targets


def hide(tokens, positions, seed, mask_token_id, num_text_tokens):
    """Hides chosen tokens: 80 % become the mask, 10 % another token, 10 % stay.

    Args:
        tokens: int tensor [B,S].
        positions: int tensor [B,M], distinct in each row.
        seed: int tensor [2].
        mask_token_id: int.
        num_text_tokens: int, upper bound of random tokens.

    Returns:
        (masked [B,S], targets [B,M]) of the type of `tokens`.
    """
    fate_seed, token_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
    return _hide(tokens, positions, fate_seed, token_seed, mask_token_id, num_text_tokens)


def _hide(tokens, positions, fate_seed, token_seed, mask_token_id, num_text_tokens):
    shape = tf.shape(positions)  # [B,M]
    targets = tf.gather(tokens, positions, axis=1, batch_dims=1)
    fate = tf.random.stateless_uniform(shape, fate_seed)
    random_tokens = tf.random.stateless_uniform(
        shape, token_seed, FIRST_TEXT_TOKEN_ID, num_text_tokens, tokens.dtype
    )
    hidden = tf.where(fate < REPLACED, random_tokens, tf.cast(mask_token_id, tokens.dtype))
    hidden = tf.where(fate >= 1.0 - KEPT, targets, hidden)
    rows = tf.broadcast_to(tf.range(shape[0])[:, tf.newaxis], shape)
    return tf.tensor_scatter_nd_update(tokens, tf.stack([rows, positions], axis=2), hidden), targets
