"""How long a fine-tuning run trains, where the config leaves that to the data."""

from absl import logging

from convnlp.data import batching
from convnlp.runs import config_rules
from convnlp.tasks import fields

SHOWN_EXAMPLES = 60_000  # in a run whose epochs follow from the size of the data; repeats count


def open_fields(config):
    """Returns the names of the fields that `fields.take` and `resolve` may set."""
    counts = ("train.num_steps", "train.eval_every", "train.checkpoint_every")
    names = counts * (config.task.num_epochs != 0) + ("task.num_epochs",) * (config.task.num_epochs is None)
    names += ("optimizer.warmup_steps",) * (not config.optimizer.warmup_steps)
    return names + fields.open_fields(config)


def resolve(config, num_examples):
    """Sets the counts that the config leaves to the data, so that it says what is run.

    If the number of epochs comes from `task.num_epochs` or `epochs_for`, an evaluation and a checkpoint
    follow each epoch. A warm-up of 0 becomes a tenth of the steps.

    Args:
        config: the experiment, changed in place.
        num_examples: int, size of the training data.

    Raises:
        ValueError: if there are more steps than a run can count.
    """
    if config.task.num_epochs is None:
        config.task.num_epochs = epochs_for(num_examples)
    num_steps, num_epochs, per_call = (
        config.train.num_steps,
        config.task.num_epochs,
        config.train.steps_per_call,
    )
    if num_epochs:
        num_batches = batching.num_batches(num_examples, config.train.batch_size, num_epochs)
        calls = max(1, round(num_batches / per_call))
        every = per_call * max(1, round(calls / num_epochs))
        num_steps = calls * per_call
        if abs(num_steps - num_batches) > 0.2 * num_batches:
            logging.warning(
                "task.num_epochs=%g would be %d steps; training takes %d, because it takes them by %d "
                "(train.steps_per_call)",
                *(num_epochs, num_batches, num_steps, per_call),
            )
        if num_steps >= config_rules.MAX_STEPS:
            raise ValueError(
                f"`task.num_epochs` must give fewer than {config_rules.MAX_STEPS} steps. "
                f"Received: task.num_epochs={num_epochs}, {num_examples} examples"
            )
        config.train.update({"num_steps": num_steps, "eval_every": every, "checkpoint_every": every})
    config.optimizer.warmup_steps = config.optimizer.warmup_steps or num_steps // 10


def epochs_for(num_examples):
    """Returns how often to go through the data, 3 to 20 times, a float: the less data, the more often.

    Example:
    >>> [epochs_for(number) for number in (500, 6_000, 100_000)]
    [20.0, 10.0, 3.0]
    """
    return float(min(max(SHOWN_EXAMPLES / num_examples, 3.0), 20.0))
