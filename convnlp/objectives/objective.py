"""The contract of a pre-training objective."""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

from convnlp import options
from convnlp.data import rules
from convnlp.options import option


class Seeds(NamedTuple):
    """The randomness of one batch: stateless seeds int64 [2].

    Attributes:
        own: differs between objectives, batches and workers.
        shared: differs only between batches, for what all workers must draw alike.
    """

    own: object
    shared: object


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective(abc.ABC):
    """What a backbone is pre-trained on: examples made from rows of text, and their loss.

    A subclass is a frozen dataclass: its fields are its options, each with the rule that its `option` states;
    `__post_init__` checks rules that span several, by `require`. It holds everything that differs between
    objectives; the data pipeline, the loss of several objectives together, the programs and the suite of
    `convnlp.testing` ask it.

    Args:
        input_length: int >= 1. S, tokens of the encoder's input.
        weight: float > 0. Factor on the mean loss if several objectives are summed. Defaults to 1.

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
        """The number of tokens of text that one example is made from; by default, `input_length`."""
        return self.input_length

    @property
    def target_length(self):
        """The number of tokens that a decoder is trained to write; 0 without a decoder."""
        return 0

    @property
    def logits_per_token(self):
        """The share of the encoder's tokens for which `loss` computes logits over the vocabulary.

        By default, 0. The estimate of time and memory before the first step counts them, and those of a
        decoder.
        """
        return 0.0

    @abc.abstractmethod
    def check(self, backbone):
        """Raises ValueError, which names argument, rule and value, if it cannot train this backbone."""

    def model(self, backbone, tokenizer):
        """Returns a task's model that a backbone trained on it is without fine-tuning; by default, None."""
        return

    def predictor(self, backbone, tokenizer):
        """Returns a function that shows people how the training goes.

        Returns:
            A function of a batch -> list of (input, target, prediction), three texts per example; None, the
            default, for an objective whose predictions are not texts.
        """
        return

    @abc.abstractmethod
    def examples(self, tokens, seeds, tokenizer):
        """Makes the examples of a batch, in a graph of tf.data.

        Args:
            tokens: int32 [B,R], R = `row_length`; documents one after the other, each with its end token.
            seeds: `Seeds`. The same seeds and tokens give the same examples.
            tokenizer: has `vocabulary_size()`, `sentinel_token_ids`, `start_token_id`, `end_token_id`.

        Returns:
            dict of tensors [B,...] of static shapes (except for B), under names that no other objective uses.
            The names of what the model reads end in `token_ids` and do not begin with `target`. All batches
            have equally many targets, on all workers.
        """

    @abc.abstractmethod
    def loss(self, backbone, batch, training):
        """Returns the loss of a batch.

        Args:
            backbone: `Seq2SeqBackbone` that passes `check`.
            batch: dict with the tensors of `examples`.
            training: bool.

        Returns:
            (sum of the loss over the targets in nats, number of targets, dict of further metrics
            name -> (sum, weight)), float32 scalars. The sum of a batch is the sum over its examples.
        """


def require(objective, field, holds, rule):
    """Raises ValueError if an option breaks its rule."""
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


def require_mixers(objective, backbone, fact, otherwise=""):
    """Raises ValueError unless all mixers of the encoder have a fact.

    Args:
        objective: `Objective`.
        backbone: `Seq2SeqBackbone` with an encoder.
        fact: str, the name of a `TokenMixer`'s attribute, such as "supports_prefix".
        otherwise: str, what would do instead: ", or option=0". Default "": nothing.
    """
    mixers = [layer.mixer for layer in backbone.encoder.layers]
    if cannot := sorted({mixer.name for mixer in mixers if not getattr(mixer, fact)}):
        raise ValueError(
            f"The objective {objective.name} needs mixers with {fact} = True in the encoder{otherwise}. "
            f"Received: {', '.join(cannot)}"
        )
