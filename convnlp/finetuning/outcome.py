"""What a fine-tuning has come to: what its scores, its preset and its report are made from."""

import dataclasses
import typing

import numpy as np

from convnlp.data.examples import Examples


class LeftOut(typing.NamedTuple):
    """Answers to held-out examples that the final model has learned from after all.

    Attributes:
        examples: `Examples`, n of them.
        model: the model before it had seen them; None, the default, if there were several.
        outputs: float array [n,U] of the answers of several heads, each of which had not seen the example.
            Default None: what `model` answers.
    """

    examples: Examples
    model: typing.Any = None
    outputs: np.ndarray | None = None

    @property
    def answers(self):
        """Returns these outputs as keyword arguments of `Task.scores` and `Task.review`."""
        return {} if self.outputs is None else {"outputs": self.outputs}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A trained model, with the examples it has learned from and those it is judged by.

    Attributes:
        task: `Task`.
        model: its trained model.
        tokenizer: `Tokenizer` of the examples.
        train: `Examples` that were trained on.
        held_out: dict, name -> `Examples`: "validation" and "test", if they exist.
        num_overlapping: dict, name of these -> number of its examples that are also trained on, or almost;
            see `convnlp.finetuning.data.report_overlap`.
        summary: dict, what the training took; see `convnlp.run_preset.card`.
        left_out: `LeftOut`, if the model has learned from the validation examples: their scores come from it.
            Default None.
    """

    task: typing.Any
    model: typing.Any
    tokenizer: typing.Any
    train: Examples
    held_out: dict
    num_overlapping: dict
    summary: dict
    left_out: LeftOut | None = None

    def judged(self, name):
        """Returns what the scores of "validation" or "test" come from: (model, `Examples`, answers).

        The answers are keyword arguments of `Task.scores` and `Task.review`.
        """
        if name == "validation" and self.left_out is not None:
            return self.left_out.model or self.model, self.left_out.examples, self.left_out.answers
        return self.model, self.held_out[name], {}

    @property
    def judged_names(self):
        """Returns the names of what is scored, the held-out sets and, of a fitted head, its folds."""
        return [*self.held_out, *({"validation"} - {*self.held_out} if self.left_out is not None else ())]
