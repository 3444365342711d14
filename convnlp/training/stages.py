"""The stages of a run: its data and losses from certain steps on, and the batches of the current stage."""

from typing import Any, NamedTuple

from convnlp.training import shards


class Stage(NamedTuple):
    """A part of a run: the data and the loss from a step on.

    Attributes:
        first_step: int. The number of steps before this stage, a multiple of `steps_per_call`.
        dataset: `tf.data.Dataset` or `Sharded`, see `convnlp.training.loop.train`; read from its beginning.
        loss_fn: function, see `convnlp.training.loop.train`.
    """

    first_step: int
    dataset: Any
    loss_fn: Any


def check(stages, num_steps, steps_per_call):
    """Raises ValueError unless the stages begin in order, at multiples of `steps_per_call`."""
    first_steps = [stage.first_step for stage in stages]
    grows = all(a < b for a, b in zip(first_steps, [*first_steps[1:], num_steps], strict=True))
    if not grows or any(step % steps_per_call for step in first_steps):
        raise ValueError(
            "`later_stages` must begin at increasing multiples of steps_per_call in (0, num_steps). "
            f"Received: {first_steps[1:]}, steps_per_call={steps_per_call}, num_steps={num_steps}"
        )


class Reader:
    """The current stage of a run, and its remaining batches."""

    def __init__(self, stages, steps_per_call, worker, num_workers):
        self._stages, self._steps_per_call = stages, steps_per_call
        self._worker = worker, num_workers
        self.stage = self.batches = None

    def stage_at(self, step):
        """Returns the number of the stage in which training continues after `step` steps."""
        return max(number for number, stage in enumerate(self._stages) if stage.first_step <= step)

    def begin(self, step, progress=None):
        """Begins the stage of a step; returns its `Batches`, from the beginning of the data.

        Raises:
            ValueError: if `progress`, from a checkpoint of that step, belongs to another stage.
        """
        self.stage = self.stage_at(step)
        before = (progress or {}).get("stage", 0 if progress else self.stage)
        if before != self.stage:
            raise ValueError(
                f"`later_stages` must keep step {step} in stage {before}, where the run stopped. "
                f"Received: stages that begin at steps {[stage.first_step for stage in self._stages]}"
            )
        dataset = self._stages[self.stage].dataset
        self.batches = shards.Batches(dataset, self._steps_per_call, *self._worker)
        return self.batches
