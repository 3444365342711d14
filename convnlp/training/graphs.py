"""Graphs for the steps of training and evaluation, with metrics summed over all replicas."""

import time

import numpy as np
import tensorflow as tf

from convnlp.training import heartbeat
from convnlp.training import strategy as strategy_lib
from convnlp.training.accumulation import gradients_in_parts


def replica_step(strategy, model, optimizer, loss_fn, clip_norm, seed, accumulate_steps=1, averages=None):
    """Returns the function that `strategy.run` runs on each replica: a whole step, one program on a TPU.

    It takes (super-batch [N, B, ...] of the replica, index of its batch, steps done before the first) and
    returns a dict of metrics (sum, weight) over all replicas. With several processes, this includes `waited`:
    the seconds for which this process waited for the sums of the others. It is traced without AutoGraph, as
    in Keras' `fit`: AutoGraph would take longer than everything else before the first step.

    Args:
        strategy: `tf.distribute.Strategy`.
        model: Keras model or layer. All of its trainable variables are trained.
        optimizer: Keras optimizer, built.
        loss_fn: function (batch, seed) -> dict with "loss_sum", "weight" and metrics (sum, weight).
        clip_norm: float. The largest norm of all gradients together; 0 does not clip.
        seed: int, of the run.
        accumulate_steps: int >= 1. Into how many parts a batch is split, one after the other.
        averages: what averages the weights (`update()` after each step), or None.
    """
    timed = strategy_lib.workers(strategy)[1] > 1

    def whole_gradients(batch, step_seed):
        with tf.GradientTape() as tape:
            outputs = loss_fn(batch, step_seed)
            sums = _global_sums({**outputs, "tokens": (_num_tokens(batch), 1.0)}, timed)
            loss = tf.math.divide_no_nan(outputs["loss_sum"], sums["loss"][1])
        return tape.gradient(loss, model.trainable_variables), sums

    def accumulated_gradients(batch, step_seed):
        gradients, outputs = gradients_in_parts(
            loss_fn, model.trainable_variables, batch, step_seed, accumulate_steps
        )
        sums = _global_sums({**outputs, "tokens": (_num_tokens(batch), 1.0)}, timed)
        weight = sums["loss"][1]
        return [None if g is None else tf.math.divide_no_nan(g, weight) for g in gradients], sums

    gradients_of = whole_gradients if accumulate_steps == 1 else accumulated_gradients

    @tf.autograph.experimental.do_not_convert
    def step(batches, index, first_step):
        replica = tf.distribute.get_replica_context()
        batch = tf.nest.map_structure(lambda x: x[index], batches)
        step_seed = tf.stack([tf.cast(seed, tf.int32), first_step + index])
        step_seed = tf.random.fold_in(step_seed, tf.cast(replica.replica_id_in_sync_group, tf.int32))
        gradients, sums = gradients_of(batch, step_seed)
        # An objective need not reach every variable: masked language modelling leaves the decoder alone.
        pairs = [
            (tf.convert_to_tensor(g), v)
            for g, v in zip(gradients, model.trainable_variables, strict=True)
            if g is not None
        ]
        gradients, variables = zip(*pairs, strict=True)
        if clip_norm:
            before = _time_after(gradients) if timed else None
            gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, list(gradients))
            if timed:
                waited = tf.cast(_time_after(gradients) - before, tf.float32)
                sums["waited"] = sums["waited"][0] + waited, 1.0
            gradients, norm = tf.clip_by_global_norm(gradients, clip_norm)
            # Keras sums over the replicas again, whose gradients are now equal.
            gradients = [g / strategy.num_replicas_in_sync for g in gradients]
            sums["gradient_norm"] = (norm, tf.constant(1.0))
        sums["learning_rate"] = (tf.cast(optimizer.learning_rate, tf.float32), tf.constant(1.0))
        optimizer.apply(gradients, variables)
        if averages:
            averages.update()
        return sums

    return step


def training_steps(strategy, model, optimizer, loss_fn, clip_norm, seed, accumulate_steps=1, averages=None):
    """Returns a function (super-batch [N, B, ...] per replica, steps done, spec) -> N dicts of metrics.

    The metrics are those of `replica_step`, and so are the arguments. The N steps run in one call of one
    graph. The spec, a structure of `tf.TensorSpec` like the super-batch, is optional: on one device that is
    not a TPU, one graph then serves all sizes of the axes that it leaves open. Otherwise each size has its
    own, which takes several seconds to trace.
    """
    names = []
    one_for_all = strategy.num_replicas_in_sync == 1 and not isinstance(strategy, tf.distribute.TPUStrategy)
    step = replica_step(strategy, model, optimizer, loss_fn, clip_norm, seed, accumulate_steps, averages)

    @tf.autograph.experimental.do_not_convert
    def stacked_step(batches, index, first_step):
        sums = step(batches, index, first_step)
        names[:] = sums  # set while tracing: the same for every step
        return tf.stack([tf.stack(pair) for pair in sums.values()])  # [M,2]

    @tf.function
    def call(batches, first_step, num_steps):
        rows = tf.TensorArray(tf.float32, size=num_steps, element_shape=[None, 2])
        for index in tf.range(num_steps):
            sums = strategy.run(stacked_step, args=(batches, index, first_step))
            rows = rows.write(index, strategy.experimental_local_results(sums)[0])
        return rows.stack()  # [N,M,2]

    def steps(batches, first_step, spec=None):
        first = strategy.experimental_local_results(batches)[0]
        num_steps = len(tf.nest.flatten(first)[0])
        if one_for_all and spec is not None and not names:
            number = tf.TensorSpec([], tf.int32)
            call.get_concrete_function(tf.nest.map_structure(_open, first, spec), number, number)
        # NumPy numbers, because TensorFlow keeps a tensor for every Python number it has ever converted.
        rows = call(batches, tf.constant(np.int32(first_step)), tf.constant(np.int32(num_steps)))
        return [dict(zip(names, row, strict=True)) for row in rows.numpy().tolist()]

    return steps


def _open(x, spec):
    """Returns the `tf.TensorSpec` of a tensor, with the axes open that are open in `spec`."""
    sizes = (size if known else None for size, known in zip(x.shape, spec.shape, strict=True))
    return tf.TensorSpec([*sizes], x.dtype)


def evaluation(strategy, loss_fn):
    """Returns a function of a finite data set of batches [B, ...] -> dict of metric name -> mean.

    `loss_fn` is as in `train`, without a seed. Every worker must supply the same number of batches. The
    function raises ValueError if there is none.
    """
    names = []

    def replica_step(batches):
        sums = _global_sums(loss_fn(tf.nest.map_structure(lambda x: x[0], batches)))
        names[:] = sums
        return tf.stack([tf.stack(pair) for pair in sums.values()])  # [M,2]

    # Batches may differ in length: a TPU needs a graph for every shape, other devices one for all.
    @tf.function(autograph=False, reduce_retracing=not isinstance(strategy, tf.distribute.TPUStrategy))
    def call(batches):
        return strategy.experimental_local_results(strategy.run(replica_step, args=(batches,)))[0]

    def evaluate(dataset):
        rows = []
        for batch in dataset.batch(1):
            rows.append(call(strategy_lib.split(strategy, batch)).numpy().tolist())
            heartbeat.mark(evaluated=len(rows))
        if not rows:
            raise ValueError("`dataset` of an evaluation must hold at least one batch. Received: none")
        return means([dict(zip(names, row, strict=True)) for row in rows])

    return evaluate


def means(rows):
    """Returns the means of several steps' metrics: list of {name: (sum, weight)} -> {name: float}."""
    means = {}
    for name in rows[0]:
        value, weight = (sum(column) for column in zip(*(row[name] for row in rows), strict=True))
        means[name] = value / weight if weight else 0.0
    return means


def _global_sums(outputs, timed=False):
    """Sums the metrics (sum, weight) of all replicas; the gradient treats the results as constants.

    If `timed`, `waited` is the number of seconds until all others had theirs.
    """
    outputs = dict(outputs)
    sums = {"loss": (outputs.pop("loss_sum"), outputs.pop("weight")), **outputs}
    table = tf.stack([tf.stack([tf.cast(x, tf.float32) for x in pair]) for pair in sums.values()])  # [M,2]
    before = _time_after(table) if timed else None
    table = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, tf.stop_gradient(table)
    )
    found = {name: (table[i, 0], table[i, 1]) for i, name in enumerate(sums)}
    if timed:
        found["waited"] = tf.cast(_time_after(table) - before, tf.float32), 1.0
    return found


def _time_after(values):
    """Returns the time in seconds when tensors are computed; deterministic runs may not use tf.timestamp."""
    with tf.control_dependencies(tf.nest.flatten(values)):
        return tf.ensure_shape(tf.numpy_function(time.monotonic, [], tf.float64), [])


def _num_tokens(batch):
    """Counts the tokens that the model reads: all `*token_ids` except targets, without padding."""
    total = tf.constant(0.0)
    for name, ids in batch.items():
        if name.endswith("token_ids") and not name.startswith("target"):
            mask = batch.get(name.removesuffix("token_ids") + "padding_mask", tf.ones_like(ids))
            total += tf.reduce_sum(tf.cast(mask, tf.float32))
    return total
