"""The contract of a pre-training objective."""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

from convnlp import options
from convnlp.data import rules
from convnlp.options import option


class Seeds(NamedTuple):
    """The randomness of one batch, stateless seeds int64 [2].

    Attributes:
        own: differs between objectives, batches and workers.
        shared: differs between batches only: what all workers must draw alike.
    """

    own: object
    shared: object


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective(abc.ABC):
    """What a backbone is pre-trained on: examples made from rows of text, and their loss.

    A subclass is a frozen dataclass: its fields are its options, each with the rule that its `option` states;
    what holds between several is checked in `__post_init__`, by `require`. Everything that differs between
    objectives stands in it; the data pipeline, the loss of several objectives together, the programs and the
    suite of `convnlp.testing` ask it.

    Args:
        input_length: int >= 1. S, tokens of the encoder's input.
        weight: float > 0. Factor on the mean loss where several objectives are summed. Defaults to 1.

    Raises:
        ValueError: if an option is out of range.
    """

    name: ClassVar[str]  # its key in OBJECTIVES
    input_length: int = option(rule=rules.integer(1))
    weight: float = option(1.0, rules.number("(0, inf)"))

    def __post_init__(self):
        options.check_values(type(self), vars(self))

    @property
    def row_length(self):
        """Tokens of text that one example is made from; the default is `input_length`."""
        return self.input_length

    @property
    def target_length(self):
        """Tokens that a decoder is trained to write, 0 without one."""
        return 0

    @abc.abstractmethod
    def check(self, backbone):
        """Raises ValueError, naming argument, rule and value, if this backbone cannot be trained on it."""

    def model(self, backbone, tokenizer):
        """What a backbone trained on it answers as it is: a task's model, or None; the default is None."""
        return

    def predictor(self, backbone, tokenizer):
        """What shows people how the training goes.

        Returns:
            A function of a batch -> list of (input, target, prediction), three texts for each example; None
            for an objective whose predictions are not texts, the default.
        """
        return

    @abc.abstractmethod
    def examples(self, tokens, seeds, tokenizer):
        """Examples of a batch, in a graph of tf.data.

        Args:
            tokens: int32 [B,R], R = `row_length`; documents one after the other, each with its end token.
            seeds: `Seeds`. The same seeds and tokens give the same examples.
            tokenizer: has `vocabulary_size()`, `sentinel_token_ids`, `start_token_id`, `end_token_id`.

        Returns:
            dict of tensors [B,...] of static shapes (but for B), under names that no other objective uses.
            What the model reads has a name that ends in `token_ids` and does not begin with `target`. All
            batches have equally many targets, on all workers.
        """

    @abc.abstractmethod
    def loss(self, backbone, batch, training):
        """The loss of a batch.

        Args:
            backbone: `Seq2SeqBackbone` that passes `check`.
            batch: dict, with the tensors of `examples`.
            training: bool.

        Returns:
            (sum of the loss over the targets in nats, number of targets, dict of further metrics
            name -> (sum, weight)), float32 scalars. The sum of a batch is that of its examples.
        """


def require(objective, field, holds, rule):
    """Raises ValueError where an option breaks its rule."""
    if not holds:
        value = getattr(objective, field)
        raise ValueError(f"`{field}` of {objective.name} must be {rule}. Received: {field}={value!r}")


def require_token_outputs(objective, backbone):
    """Raises ValueError unless the backbone has an encoder with an output for every token."""
    if not backbone.num_layers:
        raise ValueError(f"The objective {objective.name} trains an encoder. Received: num_layers=0")
    if backbone.encoder.pool_factor > 1:
        raise ValueError(
            f"The objective {objective.name} needs an encoder output for every token. "
            f"Received: pool_size={backbone.pool_size}"
        )
