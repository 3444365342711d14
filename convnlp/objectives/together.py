"""Several objectives on the same rows of text: their batches and their loss."""

import tensorflow as tf

from convnlp.data import pretraining
from convnlp.layers import dropout_seed
from convnlp.objectives.objective import Seeds
from convnlp.objectives.table import OBJECTIVES


def pretraining_batches(source, tokenizer, objectives, **arguments):
    """Makes endless batches of the objectives' examples.

    Args:
        source: `convnlp.data.Source`.
        tokenizer: see `convnlp.data.pretraining.batches` and `Objective.examples`.
        objectives: sequence of `Objective` from `OBJECTIVES`, see `build_objectives`. If rows are longer than
            an objective takes, it gets their beginnings.
        **arguments: arguments of `convnlp.data.pretraining.batches`, such as `batch_size` and `seed`.

    Returns:
        A tf.data.Dataset of dicts of static shapes, the tensors of all objectives.

    Raises:
        ValueError: if an objective is not registered, or two use the same name for a tensor.
        SourceError: as for `convnlp.data.pretraining.batches`.
    """
    for objective in objectives:
        if objective.name not in OBJECTIVES:
            raise ValueError(
                "`objectives` must be registered first with `register_objective`. "
                f"Received: {objective.name!r}"
            )
    row_length = max(objective.row_length for objective in objectives)

    def examples(tokens, seed, shared_seed):
        batch = {}
        for objective in objectives:
            number = list(OBJECTIVES).index(objective.name)  # whatever other objectives there are
            own = tf.random.experimental.stateless_split(seed, number + 1)[number]
            rows = tokens[:, : objective.row_length]
            made = objective.examples(rows, Seeds(own, shared_seed), tokenizer)
            if taken := sorted(batch.keys() & made):
                raise ValueError(
                    f"`objectives` must name their tensors differently. Received: {taken[0]} twice"
                )
            batch |= made
        return batch

    return pretraining.batches(source, tokenizer, row_length=row_length, examples=examples, **arguments)


def pretraining_loss(backbone, objectives):
    """Returns a loss: the sum of the objectives' mean losses, each times its weight.

    Args:
        backbone: `Seq2SeqBackbone`.
        objectives: sequence of `Objective`.

    Returns:
        `loss_fn(batch, seed, training=True)` for `convnlp.training.loop`: a dict of `loss_sum`, `weight` and
        metrics name -> (sum, weight), all float32 scalars. `seed` (int32 [2]) drives dropout. Each objective
        reports its own sum and number of targets under its name.

    Raises:
        ValueError: if one of the objectives cannot train the backbone.
    """
    for objective in objectives:
        objective.check(backbone)

    def loss_fn(batch, seed, training=True):
        metrics = {}
        loss = 0.0
        with dropout_seed(seed):
            for objective in objectives:
                total, weight, further = objective.loss(backbone, batch, training)
                metrics |= {objective.name: (total, weight), **further}
                # No factor of one, which would be one more operation in every step.
                loss += total / weight if objective.weight == 1 else objective.weight * total / weight
        # Every example has the same number of targets, so the mean over examples is the mean over targets on
        # any number of replicas.
        examples = tf.cast(tf.shape(next(iter(batch.values())))[0], tf.float32)
        return {"loss_sum": loss * examples, "weight": examples, **metrics}

    return loss_fn
