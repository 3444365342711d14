"""UniLM's pre-training: masked tokens of a single encoder that reads in four ways in turn."""

import dataclasses
import functools
from typing import ClassVar

import tensorflow as tf

from convnlp import losses
from convnlp.data import rules
from convnlp.objectives import masked_lm
from convnlp.objectives.objective import Objective, require, require_mixers, require_token_outputs
from convnlp.options import option

MODES = ("bidirectional", "sequence_to_sequence", "left_to_right", "right_to_left")


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnifiedLanguageModeling(Objective):
    """Predicts masked tokens from both sides, from the left, from the right, or after a source.

    What a position sees, always including itself:

        bidirectional           the whole row
        left_to_right           what comes before it
        right_to_left           what follows it
        sequence_to_sequence    the source, which is the beginning of the row; and, in the target, what comes
                                before it there

    Of the tokens to predict, 80 % become the mask, 10 % another token, and 10 % stay. They may be in the
    source or the target, and each is predicted at its own place, by the tied embedding.

    Source: Dong et al., 2019, "Unified Language Model Pre-training for Natural Language Understanding and
    Generation" (UniLM), section 2.3 and its pre-training setup, https://arxiv.org/abs/1905.03197.
    Departs from it: all rows of a batch, on all workers, are read in one way, which is drawn for each batch
    with the paper's shares, so that bidirectional batches cost no more than in masked_lm; no segment
    embeddings distinguish the ways, or source and target; there is no prediction of the next sentence; a
    source ends anywhere in the row; equally many tokens are hidden in each row, in spans that may touch.

    Args:
        input_length: int >= 2. S.
        weight: see `Objective`.
        noise_density: float in (0, 1). The share of tokens to predict. Defaults to 0.15.
        ngram_share: float in [0, 1]. The share of spans to predict that have two or three tokens, equally
            often; the others have one. Defaults to 0.2.
        bidirectional, sequence_to_sequence, left_to_right, right_to_left: float >= 0. How often rows are read
            in this way, relative to the others. Default to 2, 2, 1 and 1. A way of 0 requires nothing of the
            mixers.

    Examples: `unilm_token_ids` [B,S], `unilm_positions`, `unilm_targets` [B,M] as in masked_lm, all int32;
    `unilm_mode` int32 [B], an index into `MODES`, the same for all rows; `unilm_prefix_mask` bool [B,S], the
    source, or nothing from left to right, or all.

    Metrics: in evaluation, `unilm_bidirectional` and so on, the loss of the batches that were read in this
    way, in nats per token; 0 if there were none.

    Raises:
        ValueError: if an option is out of range, or if no way is left.
    """

    name: ClassVar[str] = "unilm"
    input_length: int = option(rule=rules.integer(2))
    noise_density: float = option(masked_lm.NOISE_DENSITY, masked_lm.DENSITY)
    ngram_share: float = option(0.2, rules.number("[0, 1]"))
    bidirectional: float = option(2.0, rules.number("[0, inf)"))
    sequence_to_sequence: float = option(2.0, rules.number("[0, inf)"))
    left_to_right: float = option(1.0, rules.number("[0, inf)"))
    right_to_left: float = option(1.0, rules.number("[0, inf)"))

    def __post_init__(self):
        super().__post_init__()
        require(self, "bidirectional", self._modes, "above 0 unless another way of reading is")

    @property
    def logits_per_token(self):
        return self.noise_density

    @property
    def _modes(self):
        """The indices into `MODES` of the ways in use."""
        return [number for number, mode in enumerate(MODES) if getattr(self, mode)]

    def check(self, backbone):
        require_token_outputs(self, backbone)
        for fact, modes in (
            ("supports_prefix", ("sequence_to_sequence", "left_to_right")),
            ("supports_right_to_left", ("right_to_left",)),
        ):
            if any(getattr(self, mode) for mode in modes):
                otherwise = f", or {' and '.join(f'{mode}=0' for mode in modes)}"
                require_mixers(self, backbone, fact, otherwise)

    @tf.autograph.experimental.do_not_convert
    def examples(self, tokens, seeds, tokenizer):
        batch_size, length = tf.shape(tokens)[0], tokens.shape[1]
        places_seed, hide_seed, prefix_seed = tf.unstack(tf.random.experimental.stateless_split(seeds.own, 3))
        positions = self._positions(tokens, places_seed, tokenizer.end_token_id)
        masked, targets = masked_lm.hide(tokens, positions, hide_seed, **masked_lm.replacements(tokenizer))
        mode = self._mode(seeds.shared)
        prefix_length = tf.random.stateless_uniform([batch_size, 1], prefix_seed, 1, length, tf.int32)
        prefix_mask = tf.range(length) < prefix_length  # [B,S]
        everything = mode != MODES.index("left_to_right")
        return {
            "unilm_token_ids": masked,
            "unilm_positions": positions,
            "unilm_targets": targets,
            "unilm_mode": tf.fill([batch_size], mode),
            "unilm_prefix_mask": tf.where(
                mode == MODES.index("sequence_to_sequence"), prefix_mask, everything
            ),
        }

    def _mode(self, seed):
        """Draws a way of reading, as often as its option says: int32 []."""
        shares = [getattr(self, MODES[number]) for number in self._modes]
        bounds = tf.cumsum(tf.constant(shares, tf.float32))[:-1] / sum(shares)
        drawn = tf.random.stateless_uniform([], seed)
        return tf.gather(self._modes, tf.reduce_sum(tf.cast(drawn >= bounds, tf.int32)))

    def _positions(self, tokens, seed, end_token_id):
        order_seed, size_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
        order = tf.random.stateless_uniform(tf.shape(tokens), order_seed)
        drawn = tf.random.stateless_uniform(tf.shape(tokens), size_seed)
        sizes = tf.where(drawn < self.ngram_share / 2, 3, tf.where(drawn < self.ngram_share, 2, 1))
        count = masked_lm.num_predictions(tokens.shape[1], self.noise_density)
        return span_positions(order, sizes, tokens == end_token_id, count)

    def hidden(self, backbone, batch, training=False):
        """Returns the encoder's output [B,S,D] for a batch, read in its way."""
        token_ids, prefix_mask = batch["unilm_token_ids"], batch["unilm_prefix_mask"]
        masks = {
            "bidirectional": {},
            "sequence_to_sequence": {"prefix_mask": prefix_mask},
            "left_to_right": {"prefix_mask": prefix_mask},
            "right_to_left": {"right_to_left": True},
        }

        def reading(mode):
            encode = functools.partial(backbone.encode, token_ids, training=training, **masks[mode])
            # A separate function: kernels with gradients of ours have none as parts of a branch.
            return encode if tf.executing_eagerly() else tf.function(lambda: encode(), autograph=False)

        *earlier, _ = self._modes
        branch = tf.reduce_sum(tf.cast(batch["unilm_mode"][0] > tf.constant(earlier, tf.int32), tf.int32))
        return tf.switch_case(branch, [reading(MODES[number]) for number in self._modes])

    def loss(self, backbone, batch, training):
        hidden, targets = self.hidden(backbone, batch, training), batch["unilm_targets"]
        at_masks = tf.gather(hidden, batch["unilm_positions"], batch_dims=1)  # [B,M,D]
        logits = backbone.token_embedding.logits(at_masks)
        total, weight = losses.cross_entropy(logits, targets, tf.ones_like(targets))
        if training:
            return total, weight, {}
        metrics = {}
        for number in self._modes:
            chosen = tf.cast(batch["unilm_mode"][0] == number, tf.float32)
            metrics[f"unilm_{MODES[number]}"] = (total * chosen, weight * chosen)
        return total, weight, metrics


def span_positions(order, sizes, is_end, count):
    """Returns which tokens to predict: spans in a random order, until there are enough tokens.

    Each position begins a span of one to three tokens, which ends no later than its row or its document; the
    last span taken may be cut short. Ends of documents are taken last, each on its own.

    Args:
        order: float tensor [B,S] in [0, 1). Spans are taken in ascending order.
        sizes: int tensor [B,S] in {1, 2, 3}, tokens of the span that begins there.
        is_end: bool tensor [B,S], True = end of a document.
        count: int. M <= S.

    Returns:
        int32 tensor [B,M], ascending.

    Example:
    >>> order = tf.constant([[0.5, 0.1, 0.9, 0.3, 0.2]])
    >>> span_positions(order, tf.constant([[1, 3, 1, 1, 2]]), tf.zeros([1, 5], tf.bool), 4).numpy().tolist()
    [[1, 2, 3, 4]]
    """
    # A position is taken with the first of the spans that it is in.
    taken = tf.where(is_end, order + 1.0, order)
    inside = ~is_end
    for distance in (1, 2):
        behind = [[0, 0], [distance, 0]]
        begins = tf.pad(order[:, :-distance], behind)
        reaches = tf.pad(sizes[:, :-distance] > distance, behind)
        inside &= tf.pad(~is_end[:, :-distance], behind)  # no end between the beginning of the span and here
        taken = tf.where(inside & reaches, tf.minimum(taken, begins), taken)
    # Among equal values, as within a span, the first comes first.
    return tf.sort(tf.math.top_k(-taken, count).indices, axis=1)
