"""The stages of a run: what is trained on from a step on, and the batches of the stage that it is in."""

from typing import Any, NamedTuple

from convnlp.training import shards


class Stage(NamedTuple):
    """A part of a run: what is trained on from a step on.

    Attributes:
        first_step: int. The number of steps before it, a multiple of `steps_per_call`.
        dataset: `tf.data.Dataset` or `Sharded`, see `convnlp.training.loop.train`; read from its beginning.
        loss_fn: function, likewise.
    """

    first_step: int
    dataset: Any
    loss_fn: Any


def check(stages, num_steps, steps_per_call):
    """Raises ValueError if stages do not begin one after the other, each with a call of some steps."""
    first_steps = [stage.first_step for stage in stages]
    grows = all(a < b for a, b in zip(first_steps, [*first_steps[1:], num_steps], strict=True))
    if not grows or any(step % steps_per_call for step in first_steps):
        raise ValueError(
            "`later_stages` must begin at growing multiples of steps_per_call in (0, num_steps). "
            f"Received: {first_steps[1:]}, steps_per_call={steps_per_call}, num_steps={num_steps}"
        )


class Reader:
    """The stage that a run is in, and the batches of it that are still to come."""

    def __init__(self, stages, steps_per_call, worker, num_workers):
        self._stages, self._steps_per_call = stages, steps_per_call
        self._worker = worker, num_workers
        self.stage = self.batches = None

    def stage_at(self, step):
        """The number of the stage that is trained after `step` steps."""
        return max(number for number, stage in enumerate(self._stages) if stage.first_step <= step)

    def begin(self, step, progress=None):
        """Begins the stage of a step; returns its batches, from the beginning of the data."""
        self.stage = self.stage_at(step)
        before = (progress or {}).get("stage", 0 if progress else self.stage)
        if before != self.stage:
            raise ValueError(
                f"`later_stages` must leave step {step} in stage {before}, in which the run stopped. "
                f"Received: stages that begin at the steps {[stage.first_step for stage in self._stages]}"
            )
        dataset = self._stages[self.stage].dataset
        self.batches = shards.Batches(dataset, self._steps_per_call, *self._worker)
        return self.batches
