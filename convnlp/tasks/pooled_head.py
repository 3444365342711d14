"""What the tasks of a `PooledHead` share: texts, or pairs of texts, in one row with a label."""

import dataclasses
import time
from typing import ClassVar

import numpy as np
from absl import logging

from convnlp.data import batching, examples, rules
from convnlp.layers import dropout_seed
from convnlp.models import TextClassifierPreprocessor, Tokenizer
from convnlp.models.pooled_encoder import POOLING, keeps_texts_apart, require_pooling
from convnlp.options import option
from convnlp.tasks.rows import outputs_of, vectors_of
from convnlp.tasks.task import Task

_FAR = 2**16  # tokens, beyond which no convolution sees
_MAX_TOKENS = 2**18  # that the head is fitted to first, which takes some ten seconds
_PENALTY = 0.01  # with 0.3, three epochs gain less (docs/recipes.md)


def chosen_pooling(pooling, encoder, num_texts):
    """Returns the pooling of a model for `task.pooling`.

    "auto" stands for "pair" if there are two texts and the encoder has only mixers of limited range. In one
    row, these can hardly relate two texts, and a head that compares two vectors does more
    (docs/paper.md#rq4-where-do-they-fail). Otherwise, it stands for "mean_max".

    Args:
        pooling: str, "auto" or the name of a pooling, which is returned as it is.
        encoder: `Encoder`.
        num_texts: int, the texts of an example.
    """
    if pooling != "auto":
        return pooling
    is_local = keeps_texts_apart(encoder) and encoder.receptive_field(_FAR) < _FAR
    return "pair" if num_texts == 2 and is_local else "mean_max"


def _check_pooling(pooling, num_texts):
    if pooling not in ("auto", *POOLING):
        raise ValueError(f"`task.pooling` must be one of auto, {', '.join(POOLING)}. Received: {pooling!r}")
    if pooling == "pair" and num_texts != 2:
        raise ValueError(
            "`task.second_text_field` must be given if `task.pooling` is 'pair', which compares two texts. "
            "Received: task.second_text_field='', task.pooling='pair'"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PooledHeadTask(Task):
    """Maps a text, or a pair, to the outputs [B,U] of a `convnlp.models.pooled_head.PooledHead`.

    Args:
        tokenizer: `Tokenizer`.
        label: the class of `convnlp.data` that reads the label.
        sequence_length: int. L, tokens of an example.
        text_fields: tuple of one or two str. Defaults to `("text",)`.
        pooling: str, the model's, or "auto" (default), see `chosen_pooling`.
        head_dropout: float, the model's. Default 0.
        fit_head_first: bool. Whether training starts from the head that suits the backbone as it is, instead
            of from random weights, see `begin`. An option. Default False.

    Raises:
        ValueError: if the pooling does not fit the number of texts, or a head cannot be fitted.
    """

    takes_group: ClassVar[bool] = True
    found_fields: ClassVar[tuple] = ("text_field", "label_field")
    config_fields: ClassVar[tuple] = (*found_fields, "second_text_field", "pooling", "head_dropout")

    tokenizer: Tokenizer
    label: object
    sequence_length: int
    text_fields: tuple = ("text",)
    pooling: str = "auto"
    head_dropout: float = 0.0
    fit_head_first: bool = option(False, rules.BOOL, head=False)

    def __post_init__(self):
        super().__post_init__()
        _check_pooling(self.pooling, len(self.text_fields))
        if self.fit_head_first and not self.fits_head:
            raise ValueError(
                f"`fit_head_first` of {self.name} must be False, because it has no `linear_heads`. "
                "Received: fit_head_first=True"
            )

    @classmethod
    def check_backbone(cls, config, backbone):
        super().check_backbone(config, backbone)
        if config.task.options.get("fit_head_first") and not config.init_from:
            raise ValueError(
                "`task.options.fit_head_first` must be False unless `init_from` names a preset, because the "
                "head is fitted to its encoder. Received: task.options.fit_head_first=True, init_from=''"
            )
        _check_pooling(config.task.pooling, 2 if config.task.second_text_field else 1)
        if config.task.pooling != "auto":
            require_pooling("task.pooling", config.task.pooling, backbone.reading_stack)

    @staticmethod
    def _arguments_of(config, tokenizer):
        """Returns the arguments that a config gives, except for the label."""
        task = config.task
        return {
            "tokenizer": tokenizer,
            "sequence_length": config.data.input_length,
            "text_fields": tuple(filter(None, (task.text_field, task.second_text_field))),
            "pooling": task.pooling,
            "head_dropout": task.head_dropout,
        }

    @staticmethod
    def _arguments_from(model, fields):
        """Returns the arguments that a model gives, except for the label.

        Raises:
            ValueError: if the model compares two texts and the fields are not two.
        """
        if model.compares_texts and len(fields.texts) != 2:
            raise ValueError(
                "`text_fields` must be two fields for a model that compares two texts. "
                f"Received: {list(fields.texts)}"
            )
        return {
            "tokenizer": model.preprocessor.tokenizer,
            "sequence_length": model.preprocessor.sequence_length,
            "text_fields": tuple(fields.texts),
        }

    def read(self, source, training=False):
        rows = [examples.Rows(self.text_fields, self.sequence_length)]
        return examples.load(source, self.tokenizer, rows, label=self.label)

    def batches(self, found, batch_size, *, training=False, **order):
        return batching.labelled_batches(found, batch_size, training=training, **order)

    def model(self, backbone):
        return self.model_cls(
            backbone,
            preprocessor=TextClassifierPreprocessor(self.tokenizer, self.sequence_length),
            pooling=chosen_pooling(self.pooling, backbone.reading_stack, len(self.text_fields)),
            dropout=self.head_dropout,
            **self._model_arguments(),
        )

    def begin(self, model, found):
        """With `fit_head_first`, fits the `head` to the vectors of the encoder as it is.

        With many classes, a head of random weights takes most of a short training until each class has a
        direction of its own. In a long training, this gains nothing (docs/recipes.md).

        Source: Kumar et al. 2022, linear probing, then fine-tuning, https://arxiv.org/abs/2202.10054.
        Departs from it: of many examples, every n-th, `_MAX_TOKENS` tokens in all.
        """
        if not self.fit_head_first:
            return model
        started = time.time()
        every = 1 + len(found.columns[0].flat_values) // _MAX_TOKENS
        seen = found.take(np.arange(0, len(found), every)) if every > 1 else found
        (weights,) = self.linear_heads(vectors_of(model, seen), seen.labels, (_PENALTY,))
        model.head.set_weights(weights)
        logging.warning(
            "fitted the head to %s texts in %.0f s; training starts from it",
            f"{len(seen):,}",
            time.time() - started,
        )
        return model

    def _model_arguments(self):
        """Returns further arguments of the model, a dict."""
        return {}

    def outputs(self, model, found, batch_size=32):
        return outputs_of(model, found, batch_size)

    def loss(self, model):
        def loss_fn(batch, seed, training=True):
            inputs = {name: batch[name] for name in ("token_ids", "padding_mask")}
            with dropout_seed(seed):
                outputs = model(inputs, training=training)
            return self._losses(model, outputs, batch["label"], batch["weight"])

        return loss_fn

    def _losses(self, model, outputs, labels, weights):
        """Returns what `loss` returns, for outputs [B,U], labels [B] or [B,C] and weights [B]: a dict."""
        raise NotImplementedError
