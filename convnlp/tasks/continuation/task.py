"""Continuation: predicts how a text goes on from its beginning, by an encoder alone."""

import dataclasses
import math
from typing import ClassVar

import numpy as np
import tensorflow as tf

from convnlp import losses
from convnlp.data import SourceError, batching, examples
from convnlp.layers import dropout_seed
from convnlp.models import PrefixLM, PrefixLMPreprocessor, Tokenizer
from convnlp.tasks.continuation.answers import PrefixLMAnswers
from convnlp.tasks.task import Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class Continuation(Task):
    """Predicts the rest of a text from its beginning, by a `PrefixLM`.

    The beginning is the prefix, which is read in both directions. It ends anywhere in the text in training,
    and in the middle for scores. Each token after it, including the end token, is predicted from all that
    comes before that token.

    Args:
        tokenizer: `Tokenizer`.
        text_field: str.
        sequence_length: int. L, tokens of a text; longer ones are cut.
    """

    name: ClassVar[str] = "continuation"
    model_cls: ClassVar[type] = PrefixLM
    best: ClassVar[tuple] = ("valid/loss", "min")
    logits_per_token: ClassVar[float] = 1.0
    generates: ClassVar[bool] = True
    metrics: ClassVar[tuple] = ("loss", "perplexity", "token_accuracy")
    found_fields: ClassVar[tuple] = ("text_field",)
    text_roles: ClassVar[tuple] = found_fields
    config_fields: ClassVar[tuple] = found_fields
    scored_by: ClassVar[tuple] = ("texts",)

    tokenizer: Tokenizer
    text_field: str
    sequence_length: int

    @classmethod
    def check_backbone(cls, config, backbone):
        PrefixLM.check_backbone(backbone)
        super().check_backbone(config, backbone)

    @classmethod
    def from_config(cls, config, tokenizer, train):
        return cls(
            tokenizer=tokenizer,
            text_field=config.task.text_field,
            sequence_length=config.data.input_length,
        )

    @classmethod
    def from_model(cls, model, source, fields):
        if len(fields.texts) != 1:
            raise ValueError(
                f"`text_fields` must be one field for a PrefixLM. Received: {list(fields.texts)}"
            )
        preprocessor = model.preprocessor
        return cls(
            tokenizer=preprocessor.tokenizer,
            text_field=fields.texts[0],
            sequence_length=preprocessor.sequence_length,
        )

    @classmethod
    def answers(cls, model):
        return PrefixLMAnswers(model)

    def read(self, source, training=False):
        """As in `Task`; raises `SourceError` if all texts are empty, so that nothing follows a beginning."""
        rows = [examples.Rows((self.text_field,), self.sequence_length)]
        found = examples.load(source, self.tokenizer, rows)
        if tf.reduce_max(found.columns[0].row_lengths()) < 2:  # the end token alone
            raise SourceError(
                f"{source}: `task.text_field` must hold texts that are not empty. "
                f"Received: task.text_field={self.text_field!r}, empty in all {len(found)} examples"
            )
        return found

    def batches(self, found, batch_size, *, training=False, **order):
        """Makes batches of int32 `token_ids`, bool `padding_mask` and `prefix_mask` [B,L], `weight` [B].

        The prefix ends anywhere in training, and in the middle of the text otherwise. Arguments as in `Task`.
        """
        (ids,), (length,) = found.columns, found.lengths
        counts = tf.cast(ids.row_lengths(), tf.int32)
        seed = order.get("seed", 0)

        @tf.autograph.experimental.do_not_convert
        def batch(number, rows):
            indices, weights = rows
            token_ids, padding_mask = batching.dense(tf.gather(ids, indices), [batch_size, length])
            count = tf.gather(counts, indices)
            share = 0.5
            if training:
                key = tf.stack([tf.cast(seed, tf.int64), number])
                share = tf.random.stateless_uniform([batch_size], key)
            prefix = 1 + tf.cast(share * tf.cast(count - 1, tf.float32), tf.int32)  # in [1, count)
            return {
                "token_ids": token_ids,
                "padding_mask": padding_mask,
                "prefix_mask": tf.sequence_mask(tf.minimum(prefix, tf.maximum(count - 1, 1)), length),
                "weight": weights,
            }

        numbered = batching.order(len(found), batch_size, training=training, **order).enumerate()
        return numbered.map(batch).prefetch(tf.data.AUTOTUNE)

    def model(self, backbone):
        return PrefixLM(backbone, PrefixLMPreprocessor(self.tokenizer, self.sequence_length))

    def loss(self, model):
        def loss_fn(batch, seed, training=True):
            token_ids, is_token, prefix = (
                batch[name] for name in ("token_ids", "padding_mask", "prefix_mask")
            )
            with dropout_seed(seed):
                hidden = model.backbone.encode(
                    token_ids[:, :-1],
                    padding_mask=is_token[:, :-1],
                    prefix_mask=prefix[:, :-1],
                    training=training,
                )
                logits = model.backbone.token_embedding.logits(hidden)
            counts = (is_token & ~prefix)[:, 1:]
            mask = tf.cast(counts, tf.float32) * batch["weight"][:, tf.newaxis]
            loss_sum, weight = losses.cross_entropy(logits, token_ids[:, 1:], mask)
            hits = losses.hits(logits, token_ids[:, 1:], mask)
            return {"loss_sum": loss_sum, "weight": weight, "token_accuracy": (hits, weight)}

        return loss_fn

    def scores(self, model, found, batch_size=32, outputs=None):
        """Scores the second half of each text: nats per token, their exponential, share of right guesses.

        Raises:
            ValueError: if all texts are empty.
        """
        loss_fn = tf.function(lambda batch: self.loss(model)(batch, None, training=False), autograph=False)
        sums = []
        for batch in self.batches(found, batch_size):
            values = loss_fn(batch)
            sums.append([values["loss_sum"], values["weight"], values["token_accuracy"][0]])
        total, weight, hits = np.sum(np.array(sums, np.float64), axis=0)
        if not weight:
            raise ValueError(
                "some of the texts to score must not be empty. "
                f"Received: {len(found)} empty texts of {self.text_field!r}"
            )
        loss = float(total / weight)
        return {
            "loss": loss,
            "perplexity": math.exp(loss),
            "token_accuracy": float(hits / weight),
            "num_examples": float(len(found)),
        }
