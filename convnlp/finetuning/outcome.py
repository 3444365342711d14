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


class Judged(typing.NamedTuple):
    """What the scores of a set and its review come from.

    Attributes:
        model: the model.
        examples: `Examples`, n of them.
        outputs: answers to the examples, as `Task.outputs` returns them; None if the task asks the model.
        is_own: bool, whether the outputs are those of `model`.
        batch_size: int, examples per batch if the model is asked.
    """

    model: typing.Any
    examples: Examples
    outputs: typing.Any
    is_own: bool
    batch_size: int

    def scores(self, task):
        """Returns `Task.scores`."""
        return task.scores(self.model, self.examples, self.batch_size, self.outputs)

    def review(self, task):
        """Returns `Task.review`."""
        return task.review(self.model, self.examples, self.batch_size, self.outputs, self.is_own)

    def mistakes(self, task):
        """Returns `Task.mistakes`."""
        return task.mistakes(self.model, self.examples, self.outputs)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A trained model, with the examples it has learned from and those it is judged by.

    Attributes:
        task: `Task`.
        model: its trained model.
        tokenizer: `Tokenizer` of the examples.
        train: `Examples` that were trained on, as they were read: with a label, and not cut into windows.
        held_out: dict, name -> `Examples`: "validation" and "test", if they exist.
        num_overlapping: dict, name of these -> number of its examples that are also trained on, or almost;
            see `convnlp.finetuning.data.report_overlap`.
        summary: dict, what the training took; see `convnlp.runs.run_preset.card`.
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

    def judged(self, name, batch_size):
        """Asks the model for its answers to "validation" or "test", unless they are known: a `Judged`."""
        model, outputs = self.model, None
        if name == "validation" and self.left_out is not None:
            examples, model, outputs = self.left_out
            model = model or self.model
        else:
            examples = self.held_out[name]
        is_own = outputs is None
        outputs = self.task.outputs(model, examples, batch_size) if is_own else outputs
        return Judged(model, examples, outputs, is_own, batch_size)

    @property
    def judged_names(self):
        """Returns the names of what is scored, the held-out sets and, of a fitted head, its folds."""
        return [*self.held_out, *({"validation"} - {*self.held_out} if self.left_out is not None else ())]
