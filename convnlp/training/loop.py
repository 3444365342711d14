"""The training loop: one for every strategy."""

import contextlib
import math
import numbers
import signal
import threading
import time
from typing import Any, NamedTuple

import tensorflow as tf

from convnlp.training import checkpoints as checkpoints_lib
from convnlp.training import heartbeat, optimizers, run_lock, shards
from convnlp.training import metrics as metrics_lib
from convnlp.training import strategy as strategy_lib
from convnlp.training.accumulation import gradients_in_parts
from convnlp.training.averages import Averages
from convnlp.training.finite import NonFiniteError
from convnlp.training.stragglers import Stragglers

_TOTALS = ("tokens", "seconds", "cpu_seconds", "metrics_bytes")  # over all processes of the run
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StoppedError(Exception):
    """A signal asked the run to stop; its checkpoint is written.

    Args:
        signum: int, the signal.
        step: int.
        worker: int, the worker that it was sent to. Default None: this one.
    """

    def __init__(self, signum, step, worker=None):
        name = signal.Signals(signum).name
        by = name if worker is None else f"{name} to worker {worker}"
        super().__init__(
            f"stopped by {by} at step {step}, checkpoint saved; the same command continues the run"
        )
        self.exit_code = 128 + signum  # what a shell reports of a process that the signal has ended


class Stage(NamedTuple):
    """A part of a run: what is trained on from a step on.

    Attributes:
        first_step: int. The number of steps before it, a multiple of `steps_per_call`.
        dataset: `tf.data.Dataset` or `Sharded`, see `train`; read from its beginning.
        loss_fn: function, see `train`.
    """

    first_step: int
    dataset: Any
    loss_fn: Any


def train(
    *,
    workdir,
    strategy,
    model,
    optimizer,
    loss_fn,
    dataset,
    num_steps,
    later_stages=(),
    seed=0,
    clip_norm=0.0,
    accumulate_steps=1,
    ema_momentum=0.0,
    steps_per_call=10,
    checkpoint_every=1000,
    keep=3,
    evaluate=None,
    eval_every=1000,
    best=("valid/loss", "min"),
    samples=None,
    finish=False,
):
    """Trains `model` to `num_steps`, from the newest checkpoint in `workdir` if there is one.

    The same arguments give the same weights, optimizer slots and metrics.jsonl, bit for bit, however often
    the process was killed in between, provided that TensorFlow's operations are deterministic
    (`tf.config.experimental.enable_op_determinism`) and that `loss_fn` draws all its randomness from its
    seed.

    Args:
        workdir: directory for checkpoints, metrics and TensorBoard, shared by all workers.
        strategy: `tf.distribute.Strategy` in whose scope model and optimizer were made.
        model: has `variables` and `trainable_variables`.
        optimizer: Keras optimizer. Its slots are created here.
        loss_fn: function of (batch, seed) with seed an int32 tensor [2], unique to (run, step, replica).
            Returns a dict of float32 scalars: `loss_sum`, to be differentiated, `weight`, and any further
            metric as name -> (sum, weight). The gradient is that of the sum of loss_sum over the sum of
            weight, both over all replicas.
        dataset: infinite `tf.data.Dataset` of dicts [B, ...] of static shapes, B this worker's part of the
            batch; or `convnlp.training.shards.Sharded`, with which the number of workers may change.
        num_steps: int. Length of the run, a multiple of `steps_per_call`.
        later_stages: sequence of `Stage`, by `first_step`: other data and their loss, such as longer rows or
            larger batches, in place of `dataset` and `loss_fn` from that step on.
        seed: int.
        clip_norm: float. Largest global norm of the gradient; 0 does not clip.
        accumulate_steps: int. Parts into which each replica's part of a batch is cut to save memory; the
            gradient is that of the whole batch. Each part has its own seed. Defaults to 1.
        ema_momentum: float in [0, 1). Of an exponential moving average of the weights, see `Averages`, which
            then is what is evaluated, sampled from and left in the model. Defaults to 0: none.
        steps_per_call: int. Steps that run without coming back to Python. Defaults to 10.
        checkpoint_every: int. A multiple of `steps_per_call`. Defaults to 1000.
        keep: int. Number of newest checkpoints kept, beside the best one. Defaults to 3.
        evaluate: function without arguments that returns a dict name -> float, the same for the same weights;
            every worker calls it.
        eval_every: int. A multiple of `steps_per_call`; the last step is evaluated too. Defaults to 1000.
        best: (name, "min" or "max"). Which of these values decides on the best step.
        samples: function without arguments that returns a string to print after each evaluation.
        finish: bool. Ends the run where its newest checkpoint stands, without another step. Defaults to
            False.

    Returns:
        dict of `step`, `tokens` (read by the model in training), `seconds` and `cpu_seconds` (of all
        processes that took part in succession), `best_step`, `best_value` (None without `evaluate`). The
        model is left with the weights of the best step, or their averages.

    Raises:
        ValueError: for a number out of range, step counts that are not multiples of `steps_per_call`, or data
            that end.
        LockedError: if another process trains in `workdir`.
        NonFiniteError: for a loss, a value of `best` or weights that are not finite; names the step. Nothing
            is saved after it.
        StoppedError: after SIGTERM, SIGINT or SIGHUP, when the checkpoint is written.
        CheckpointError: if a checkpoint cannot be written or none can be read.
    """
    counts = {"num_steps": num_steps, "checkpoint_every": checkpoint_every, "eval_every": eval_every}
    _check_numbers(steps_per_call, counts, keep, seed, clip_norm, accumulate_steps, ema_momentum)
    stages = (Stage(0, dataset, loss_fn), *later_stages)
    _check_stages(stages, num_steps, steps_per_call)
    is_chief = strategy_lib.workers(strategy)[0] == 0
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(run_lock.held(workdir)) if is_chief else None
        received = stack.enter_context(_signals())

        # Where the run stands.
        with strategy.scope():
            optimizers.build_slots(optimizer, model.trainable_variables)
            averages = None
            if ema_momentum:
                averages = Averages(optimizer, model.trainable_variables, ema_momentum)
        reader = _Reader(stages, steps_per_call, *strategy_lib.workers(strategy))
        checkpoints = checkpoints_lib.Checkpoints(workdir, model, optimizer, None, strategy, keep)
        step, progress = checkpoints.restore(reader.begin)
        if finish and not step:
            raise ValueError(
                f"`finish` must be of a run that has a checkpoint. Received: finish=True, none in {workdir}"
            )
        if finish:
            num_steps = step
        if step > num_steps:
            raise ValueError(
                f"`num_steps` must be at least the step that the run has reached, {step}. "
                f"Received: num_steps={num_steps}"
            )
        progress = progress or dict.fromkeys(_TOTALS, 0) | {"best_step": None, "best_value": None}
        arguments = (clip_norm, seed, accumulate_steps, averages)
        steps_of = [training_steps(strategy, model, optimizer, stage.loss_fn, *arguments) for stage in stages]
        log = metrics_lib.Metrics(workdir, num_steps, step, progress["metrics_bytes"], silent=not is_chief)
        stack.enter_context(contextlib.closing(log))
        if step:
            log.say(f"Resuming at step {step}")
        stragglers = Stragglers(strategy_lib.workers(strategy)[1])
        seconds = time.monotonic() - progress["seconds"]
        cpu_seconds = time.process_time() - progress["cpu_seconds"]

        while step < num_steps:
            # Some steps.
            try:
                batch = next(reader.batches)
            except StopIteration:
                raise ValueError(
                    f"`dataset` ended before step {num_steps}. Received: no batch at step {step}"
                ) from None
            heartbeat.mark(ready=step)
            began = time.monotonic()
            rows = steps_of[reader.stage](strategy_lib.split(strategy, batch), step)
            for offset, row in enumerate(rows):
                _check_finite("the loss", row["loss"][0], step + offset + 1, checkpoints)
            step += steps_per_call
            heartbeat.mark(step=step)
            call_seconds, waited = time.monotonic() - began, sum(row.pop("waited", [0.0])[0] for row in rows)
            tokens = int(sum(row.pop("tokens")[0] for row in rows))
            progress["tokens"] += tokens
            log.write(step, {**_means(rows), "tokens": progress["tokens"]}, tokens)
            if reader.stage_at(step) != reader.stage:  # before the checkpoint, which is of what comes next
                checkpoints.read_from(reader.begin(step))

            # Evaluation.
            improved = False
            if evaluate and (step % eval_every == 0 or step == num_steps):
                with averages.taken() if averages else contextlib.nullcontext():
                    values = evaluate()
                    _check_finite(best[0], values[best[0]], step, checkpoints)
                    log.write(step, values)
                    improved = _is_better(values[best[0]], progress["best_value"], best[1])
                    if improved:
                        progress.update(best_step=step, best_value=values[best[0]])
                    if samples and is_chief:
                        log.say(samples())

            # Checkpoint.
            news = strategy_lib.each_worker(strategy, [float((*received, 0)[0]), waited])
            if warning := stragglers.update([value for _, value in news], call_seconds):
                log.say(warning)
            stop = any(signum for signum, _ in news)
            if stop or improved or step % checkpoint_every == 0 or step == num_steps:
                progress.update(
                    seconds=time.monotonic() - seconds,
                    cpu_seconds=time.process_time() - cpu_seconds,
                    metrics_bytes=log.position,
                    **({"stage": reader.stage} if later_stages else {}),
                )
                if lock:
                    lock.check()
                log.flush()
                checkpoints.save(step, progress)
                heartbeat.mark(saved=step)
            if stop:
                raise _stopped(received, [signum for signum, _ in news], step)
            log.restart_clock()

        # The best weights; where their checkpoint is damaged, those of the last step.
        found = progress["best_step"] in (None, step) or checkpoints.restore_variables(progress["best_step"])
        if averages:
            averages.take()
        if evaluate and (not found or progress["best_step"] is None):
            progress.update(best_step=step, best_value=evaluate()[best[0]])
        news = strategy_lib.each_worker(strategy, [float((*received, 0)[0])])
        if any(signum for (signum,) in news):  # one that came with the last checkpoint
            raise _stopped(received, [signum for (signum,) in news], step)
        heartbeat.mark(done=step)
    for name in ("metrics_bytes", "stage"):
        progress.pop(name, None)
    return {"step": step, **progress}


def _stopped(received, signals, step):
    """The `StoppedError` of this process; `signals` has that of each worker, 0 for none."""
    worker = next(index for index, signum in enumerate(signals) if signum)
    heartbeat.mark(stopped=worker)
    if received:
        return StoppedError(received[0], step)
    return StoppedError(int(signals[worker]), step, worker)


class _Reader:
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


def _check_stages(stages, num_steps, steps_per_call):
    first_steps = [stage.first_step for stage in stages]
    grows = all(a < b for a, b in zip(first_steps, [*first_steps[1:], num_steps], strict=True))
    if not grows or any(step % steps_per_call for step in first_steps):
        raise ValueError(
            "`later_stages` must begin at growing multiples of steps_per_call in (0, num_steps). "
            f"Received: {first_steps[1:]}, steps_per_call={steps_per_call}, num_steps={num_steps}"
        )


def _check_numbers(steps_per_call, counts, keep, seed, clip_norm, accumulate_steps, ema_momentum):
    rules = {
        "steps_per_call": (steps_per_call, "an integer >= 1", 1),
        "accumulate_steps": (accumulate_steps, "an integer >= 1", 1),
        "keep": (keep, "an integer >= 1", 1),
        # A step's randomness is drawn from it as an int32.
        "seed": (seed, "an integer in [0, 2147483648)", 0),
    }
    for name, (value, rule, least) in rules.items():
        if not _is_integer(value) or not least <= value < 2**31:
            raise ValueError(f"`{name}` must be {rule}. Received: {name}={value!r}")
    for name, value in counts.items():
        if not _is_integer(value) or value <= 0 or value % steps_per_call:
            raise ValueError(
                f"`{name}` must be a positive multiple of steps_per_call. "
                f"Received: {name}={value!r}, steps_per_call={steps_per_call}"
            )
    if not 0 <= clip_norm < math.inf:
        raise ValueError(f"`clip_norm` must be a number in [0, inf). Received: clip_norm={clip_norm!r}")
    if not 0 <= ema_momentum < 1:
        raise ValueError(
            f"`ema_momentum` must be a number in [0, 1). Received: ema_momentum={ema_momentum!r}"
        )


def _is_integer(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _check_finite(name, value, step, checkpoints):
    if not math.isfinite(value):
        advice = "".join(
            f"; the checkpoint of step {saved} can be continued with another learning rate "
            "(--resume_with_changes)"
            for saved in checkpoints.steps()[-1:]
        )
        raise NonFiniteError(f"{name} is not finite at step {step}{advice}")


def replica_step(strategy, model, optimizer, loss_fn, clip_norm, seed, accumulate_steps=1, averages=None):
    """Returns what `strategy.run` runs on each replica: one whole step, on a TPU one program.

    A function (super-batch [N, B, ...] of the replica, index of its batch, steps done before the first) ->
    dict of metrics (sum, weight) over all replicas; but `waited`, which there is with several processes, is
    how many seconds this one waited for the sums of the others. It is traced without AutoGraph, as by `fit`
    of Keras: it would take longer than all else before the first step.
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
            # Keras sums over the replicas, now equal ones, once more.
            gradients = [g / strategy.num_replicas_in_sync for g in gradients]
            sums["gradient_norm"] = (norm, tf.constant(1.0))
        sums["learning_rate"] = (tf.cast(optimizer.learning_rate, tf.float32), tf.constant(1.0))
        optimizer.apply(gradients, variables)
        if averages:
            averages.update()
        return sums

    return step


def training_steps(strategy, model, optimizer, loss_fn, clip_norm, seed, accumulate_steps=1, averages=None):
    """Returns a function (super-batch [N, B, ...] per replica, steps done) -> list of N dicts of metrics.

    The metrics are those of `replica_step`. The N steps run in one call of one graph.
    """
    names = []
    step = replica_step(strategy, model, optimizer, loss_fn, clip_norm, seed, accumulate_steps, averages)

    @tf.autograph.experimental.do_not_convert
    def stacked_step(batches, index, first_step):
        sums = step(batches, index, first_step)
        names[:] = sums  # of the trace: the same for every step
        return tf.stack([tf.stack(pair) for pair in sums.values()])  # [M,2]

    @tf.function
    def call(batches, first_step, num_steps):
        rows = tf.TensorArray(tf.float32, size=num_steps, element_shape=[None, 2])
        for index in tf.range(num_steps):
            sums = strategy.run(stacked_step, args=(batches, index, first_step))
            rows = rows.write(index, strategy.experimental_local_results(sums)[0])
        return rows.stack()  # [N,M,2]

    def steps(batches, first_step):
        first = strategy.experimental_local_results(batches)[0]
        num_steps = len(tf.nest.flatten(first)[0])
        rows = call(batches, tf.constant(first_step), tf.constant(num_steps))
        return [dict(zip(names, row, strict=True)) for row in rows.numpy().tolist()]

    return steps


def evaluation(strategy, loss_fn):
    """Returns a function of a finite dataset of batches [B, ...] -> dict of metric name -> mean.

    `loss_fn` is as in `train`, without a seed. Every worker must give the same number of batches.
    """
    names = []

    def replica_step(batches):
        sums = _global_sums(loss_fn(tf.nest.map_structure(lambda x: x[0], batches)))
        names[:] = sums
        return tf.stack([tf.stack(pair) for pair in sums.values()])  # [M,2]

    # Batches of one length each: a TPU wants a graph for every shape, others do with one for all.
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
        return _means([dict(zip(names, row, strict=True)) for row in rows])

    return evaluate


def _global_sums(outputs, timed=False):
    """Metrics (sum, weight) of a replica -> those of all replicas, as constants to the gradient.

    Where they are `timed`, `waited` is how many seconds it took until all others had theirs.
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
    """The time in seconds at which tensors are there. Deterministic runs are refused tf.timestamp."""
    with tf.control_dependencies(tf.nest.flatten(values)):
        return tf.ensure_shape(tf.numpy_function(time.monotonic, [], tf.float64), [])


def _num_tokens(batch):
    """Tokens that the model reads: all `*token_ids` but the targets, without the pads of their masks."""
    total = tf.constant(0.0)
    for name, ids in batch.items():
        if name.endswith("token_ids") and not name.startswith("target"):
            mask = batch.get(name.removesuffix("token_ids") + "padding_mask", tf.ones_like(ids))
            total += tf.reduce_sum(tf.cast(mask, tf.float32))
    return total


def _means(rows):
    """Metrics (sum, weight) of several steps -> their means."""
    means = {}
    for name in rows[0]:
        value, weight = (sum(column) for column in zip(*(row[name] for row in rows), strict=True))
        means[name] = value / weight if weight else 0.0
    return means


def _is_better(value, best, direction):
    return best is None or (value < best if direction == "min" else value > best)


@contextlib.contextmanager
def _signals():
    """Collects the signals that end a process instead of dying of them; a second one ends it as usual.

    One that is ignored stays so: nohup ignores SIGHUP, and a script's background jobs SIGINT.
    """
    received, previous = [], {}

    def receive(signum, frame):
        received.append(signum)
        for each, handler in previous.items():
            signal.signal(each, handler)

    if threading.current_thread() is threading.main_thread():  # Python lets no other thread set handlers
        for each in _SIGNALS:
            if signal.getsignal(each) not in (signal.SIG_IGN, None):
                previous[each] = signal.signal(each, receive)
    try:
        yield received
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
