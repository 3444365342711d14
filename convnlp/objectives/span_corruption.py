"""Span corruption, the pre-training objective of T5, for whole batches inside the graph."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from convnlp import losses
from convnlp.data import rules
from convnlp.models import Seq2SeqLM, Seq2SeqLMPreprocessor, Tokenizer
from convnlp.objectives.masked_lm import DENSITY, NOISE_DENSITY
from convnlp.objectives.objective import Objective
from convnlp.options import option

MEAN_SPAN_LENGTH = 3.0
SPAN_LENGTH = rules.number("(0, inf)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanCorruption(Objective):
    """Replaces spans of text by sentinels in the encoder's input; the decoder writes them. See `corrupt`.

    Args:
        input_length: int >= 3. S, with one sentinel per span and the end token.
        weight: see `Objective`.
        noise_density: float in (0, 1). The share of tokens to remove. Defaults to 0.15.
        mean_span_length: float > 0. Mean number of tokens per span. Defaults to 3.

    Examples: `encoder_token_ids`, `encoder_padding_mask` [B,S], `decoder_token_ids` (the targets one place
    later, after the start token), `target_token_ids`, `decoder_padding_mask` [B,T], T = `target_length`.

    Metrics: in evaluation, `encoder_use`, the cross-entropy with another example's encoder output minus that
    with the right one, in nats per token. If it is near 0, the decoder is a language model that ignores its
    encoder, and nothing will transfer to a classifier; or each replica has only one example, whose own output
    then stands for another's.
    """

    name: ClassVar[str] = "span_corruption"
    noise_density: float = option(NOISE_DENSITY, DENSITY)
    mean_span_length: float = option(MEAN_SPAN_LENGTH, SPAN_LENGTH)

    def __post_init__(self):
        super().__post_init__()
        lengths(self.input_length, self.noise_density, self.mean_span_length)  # raises

    @property
    def row_length(self):
        return lengths(self.input_length, self.noise_density, self.mean_span_length)[0]

    @property
    def target_length(self):
        return lengths(self.input_length, self.noise_density, self.mean_span_length)[1]

    def check(self, backbone):
        if backbone.decoder is None:
            raise ValueError("The objective span_corruption needs a decoder. Received: num_decoder_layers=0")

    def model(self, backbone, tokenizer):
        return Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, self.input_length, self.target_length))

    def predictor(self, backbone, tokenizer):
        lm = Seq2SeqLM(backbone)
        generate = tf.function(
            lambda ids, mask: lm.generate_ids(ids, mask, self.target_length), autograph=False
        )

        def predict(batch):
            inputs, targets = batch["encoder_token_ids"], batch["target_token_ids"]
            found = generate(inputs, batch["encoder_padding_mask"])
            return list(zip(*(tokenizer.detokenize(ids) for ids in (inputs, targets, found)), strict=True))

        return predict

    @tf.autograph.experimental.do_not_convert
    def examples(self, tokens, seeds, tokenizer):
        inputs, targets = corrupt(
            tokens,
            seeds.own,
            tokenizer.sentinel_token_ids,
            noise_density=self.noise_density,
            mean_span_length=self.mean_span_length,
            end_token_id=tokenizer.end_token_id,
        )
        start = tf.fill([tf.shape(targets)[0], 1], tokenizer.start_token_id)
        return {
            "encoder_token_ids": inputs,
            "encoder_padding_mask": tf.ones_like(inputs, tf.bool),
            "decoder_token_ids": tf.concat([start, targets[:, :-1]], axis=1),
            "decoder_padding_mask": tf.ones_like(targets, tf.bool),
            "target_token_ids": targets,
        }

    def loss(self, backbone, batch, training):
        targets, mask = batch["target_token_ids"], batch["decoder_padding_mask"]
        encoded, encoder_mask = losses.encode(backbone, batch, training), batch["encoder_padding_mask"]
        logits = losses.target_logits(backbone, batch, encoded, encoder_mask, training)
        total, weight = losses.cross_entropy(logits, targets, mask)
        if training:
            return total, weight, {}
        others, other_mask = tf.roll(encoded, 1, axis=0), tf.roll(encoder_mask, 1, axis=0)
        logits = losses.target_logits(backbone, batch, others, other_mask, training)
        other_total, _ = losses.cross_entropy(logits, targets, mask)
        return total, weight, {"encoder_use": (other_total - total, weight)}


def counts(raw_length, noise_density=NOISE_DENSITY, mean_span_length=MEAN_SPAN_LENGTH):
    """Returns the numbers of noise tokens and noise spans in `raw_length` tokens, both at least 1.

    Args:
        raw_length: int >= 2.
        noise_density: float in (0, 1), the share of tokens to remove. Defaults to 0.15.
        mean_span_length: float, mean number of tokens per span. Defaults to 3.

    Returns:
        (num_noise_tokens, num_spans).

    Raises:
        ValueError: if a setting is out of range, or leaves no token for each span or between two spans.

    Example:
    >>> counts(568)
    (85, 28)
    """
    rules.integer(2).check("raw_length", raw_length)
    DENSITY.check("noise_density", noise_density)
    SPAN_LENGTH.check("mean_span_length", mean_span_length)
    num_noise = min(max(round(raw_length * noise_density), 1), raw_length - 1)
    num_spans = max(round(num_noise / mean_span_length), 1)
    if num_spans > min(num_noise, raw_length - num_noise):
        raise ValueError(
            "`noise_density` and `mean_span_length` must give each span a noise token and a token before it. "
            f"Received: noise_density={noise_density}, mean_span_length={mean_span_length}, which give "
            f"{num_spans} spans, {num_noise} noise tokens and {raw_length - num_noise} others of {raw_length}"
        )
    return num_noise, num_spans


def lengths(input_length, noise_density=NOISE_DENSITY, mean_span_length=MEAN_SPAN_LENGTH):
    """Returns the lengths of the raw text and the target for an input of exactly `input_length` tokens.

    Args:
        input_length: int >= 3, with one sentinel per span and the end token.
        noise_density: float in (0, 1). Defaults to 0.15.
        mean_span_length: float. Defaults to 3.

    Returns:
        (raw_length, target_length), the largest for which the input fits.

    Raises:
        ValueError: as for `counts`.

    Example:
    >>> [lengths(length) for length in (128, 256, 512, 1024)]
    [(141, 29), (284, 58), (568, 114), (1137, 229)]
    """
    rules.integer(3).check("input_length", input_length)

    def corrupted(raw_length):
        num_noise, num_spans = counts(raw_length, noise_density, mean_span_length)
        return raw_length - num_noise + num_spans + 1, num_noise + num_spans + 1

    raw_length = 2
    while corrupted(raw_length + 1)[0] <= input_length:
        raw_length += 1
    return raw_length, corrupted(raw_length)[1]


def corrupt(
    tokens,
    seed,
    sentinel_token_ids,
    *,
    noise_density=NOISE_DENSITY,
    mean_span_length=MEAN_SPAN_LENGTH,
    end_token_id=Tokenizer.end_token_id,
):
    """Replaces random spans of each row with sentinels, and makes a row of the removed tokens.

    The noise tokens are divided at random into non-empty spans, and the other tokens into as many non-empty
    parts; all divisions are equally likely. Parts and spans alternate, beginning with a part. With sentinels
    s0, s1, ...:

        raw      a b c d e f g h
        noise        ^ ^       ^
        input    a b s0 e f g s1 end
        target   s0 c d s1 h end

    Reference: Raffel et al., 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer", section 3.1.4 and its published `random_spans_noise_mask`, https://arxiv.org/abs/1910.10683.
    Departs from it: settings with more spans than tokens or sentinels are refused; a noise density of exactly
    one half gets no shorter target.

    Args:
        tokens: int tensor [B, L], L known.
        seed: int tensor [2]; the same seed and tokens give the same spans.
        sentinel_token_ids: sequence of int, in the order of use.
        noise_density: float in (0, 1). Defaults to 0.15.
        mean_span_length: float. Defaults to 3.
        end_token_id: int. Defaults to the tokenizer's, 1.

    Returns:
        (inputs, targets), of the type of `tokens`, [B, L - n + m + 1] and [B, n + m + 1] for n noise tokens
        in m spans; if L comes from `lengths(S)`, they are [B, S] and [B, target length].

    Raises:
        ValueError: as for `counts`, or if there are more spans than sentinels.

    Example:
    >>> inputs, targets = corrupt(tf.range(10, 30)[tf.newaxis], (0, 1), sentinel_token_ids=(99, 98))
    >>> print(inputs.numpy(), targets.numpy())
    [[10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 99  1]] [[99 27 28 29  1]]
    """
    batch_size, length = tf.shape(tokens)[0], tokens.shape[1]
    num_noise, num_spans = counts(length, noise_density, mean_span_length)
    if num_spans > len(sentinel_token_ids):
        raise ValueError(
            f"`sentinel_token_ids` must have one for each of {num_spans} spans in {length} tokens. "
            f"Received: {len(sentinel_token_ids)}"
        )
    seeds = tf.random.experimental.stateless_split(seed, 2)
    parts = tf.stack(
        [
            _random_parts(batch_size, length - num_noise, num_spans, seeds[0]),
            _random_parts(batch_size, num_noise, num_spans, seeds[1]),
        ],
        axis=2,
    )  # [B,m,2]: tokens before each span, tokens in it
    ends = tf.cumsum(tf.reshape(parts, [batch_size, 2 * num_spans]), axis=1)  # [B,2m]
    positions = tf.broadcast_to(tf.range(length), [batch_size, length])
    part = tf.searchsorted(ends, positions, side="right")  # [B,L], even outside the spans, odd in them
    is_first = tf.concat([tf.ones([batch_size, 1], tf.bool), part[:, 1:] != part[:, :-1]], axis=1)
    is_noise = part % 2 == 1
    sentinels = tf.gather(tf.cast(sentinel_token_ids, tokens.dtype), part // 2)
    end = tf.fill([batch_size, 1], tf.cast(end_token_id, tokens.dtype))

    def replace(removed, count):
        """Returns rows with a sentinel for each run of `removed`; every row keeps `count` tokens."""
        replaced = tf.where(removed, sentinels, tokens)
        kept = tf.boolean_mask(replaced, ~removed | is_first)
        return tf.concat([tf.reshape(kept, [batch_size, count]), end], axis=1)  # [B,count+1]

    inputs = replace(is_noise, length - num_noise + num_spans)
    targets = replace(~is_noise, num_noise + num_spans)
    return inputs, targets


def _random_parts(batch_size, total, num_parts, seed):
    """Returns sizes [B, num_parts] of a random division of `total` into non-empty parts, equally likely."""
    order = tf.argsort(tf.random.stateless_uniform([batch_size, total - 1], seed), axis=1)
    cuts = tf.sort(order[:, : num_parts - 1], axis=1) + 1  # distinct, from 1 to total - 1
    ends = tf.pad(cuts, [[0, 0], [0, 1]], constant_values=total)
    return ends - tf.pad(cuts, [[0, 0], [1, 0]])
