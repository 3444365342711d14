"""The training loop, the same for every strategy."""

import contextlib
import math
import numbers
import time

from convnlp.training import checkpoints as checkpoints_lib
from convnlp.training import graphs, heartbeat, optimizers, run_lock, stages, stopping
from convnlp.training import metrics as metrics_lib
from convnlp.training import strategy as strategy_lib
from convnlp.training.averages import Averages
from convnlp.training.finite import NonFiniteError
from convnlp.training.stragglers import Stragglers

_TOTALS = ("tokens", "seconds", "cpu_seconds", "metrics_bytes")  # over all processes of the run


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
    best_after=0,
    samples=None,
    finish=False,
):
    """Trains `model` to `num_steps`, from the newest checkpoint in `workdir` if there is one.

    The same arguments give the same weights, optimizer slots and metrics.jsonl, bit for bit, however often
    the process is killed in between, provided that TensorFlow's operations are deterministic
    (`tf.config.experimental.enable_op_determinism`) and `loss_fn` derives all its randomness from its seed.

    Args:
        workdir: directory for checkpoints, metrics and TensorBoard, shared by all workers.
        strategy: `tf.distribute.Strategy` in whose scope the model and the optimizer were created.
        model: has `variables` and `trainable_variables`.
        optimizer: Keras optimizer. Its slots are created here.
        loss_fn: function of (batch, seed) with seed an int32 tensor [2], unique to (run, step, replica).
            Returns a dict of float32 scalars: `loss_sum`, to be differentiated, `weight`, and any further
            metric as name -> (sum, weight). The loss is the sum of `loss_sum` divided by the sum of `weight`,
            both over all replicas.
        dataset: infinite `tf.data.Dataset` of dicts [B, ...] with static shapes, where B is this worker's
            part of the batch; or `convnlp.training.shards.Sharded`, so that the number of workers may change.
        num_steps: int. Length of the run, a multiple of `steps_per_call`.
        later_stages: sequence of `convnlp.training.stages.Stage` in the order of `first_step`: other data and
            losses, for example longer rows or larger batches, that replace `dataset` and `loss_fn` from that
            step on.
        seed: int in [0, 2**31). Defaults to 0.
        clip_norm: float. Maximum global norm of the gradient; 0 for no clipping. Defaults to 0.
        accumulate_steps: int. Parts into which each replica's part of a batch is cut to save memory; the
            gradient is that of the whole batch. Each part has its own seed. Defaults to 1.
        ema_momentum: float in [0, 1). Momentum of an exponential moving average of the weights, see
            `Averages`. The average is what is evaluated, sampled from and left in the model. Defaults to 0:
            no average.
        steps_per_call: int. Steps that run without returning to Python; it must stay the same when the run
            goes on, since it shapes the state of `dataset`. Defaults to 10.
        checkpoint_every: int. Steps between checkpoints, a multiple of `steps_per_call`. Defaults to 1000.
        keep: int. Number of newest checkpoints to keep, in addition to the best one. Defaults to 3.
        evaluate: function without arguments that returns a dict name -> float, the same for the same weights;
            every worker calls it. Defaults to None: no evaluation.
        eval_every: int. Steps between evaluations, a multiple of `steps_per_call`; the last step is always
            evaluated. Defaults to 1000.
        best: (name, "min" or "max"). The value of `evaluate` that determines the best step.
        best_after: int. A best step up to this one does not count in a run that goes on, because its value
            cannot be compared with those that follow. Defaults to 0.
        samples: function without arguments that returns a string to print after each evaluation.
        finish: bool. Ends the run at its newest checkpoint, without further steps. Defaults to False.

    Returns:
        dict of `step`, `tokens` (read by the model in training), `seconds` and `cpu_seconds` (summed over all
        restarts of the run), `best_step`, `best_value` (None without `evaluate`). The model is left with the
        weights of the best step, or their averages.

    Raises:
        ValueError: if a number is out of range or not a multiple of `steps_per_call`, if `steps_per_call` is
            not that of the run so far, if the stages are out of order, if `finish` finds no checkpoint, if
            the run is already past `num_steps`, if data end, or if `best` has neither "min" nor "max" or
            names no value of `evaluate`.
        LockedError: if another process trains in `workdir`.
        NonFiniteError: if the loss, the value of `best` or a weight is not finite; names the step. Nothing is
            saved after it.
        stopping.StoppedError: after SIGTERM, SIGINT or SIGHUP, once the checkpoint is written.
        CheckpointError: if a checkpoint cannot be written or none can be read.
    """
    counts = {"num_steps": num_steps, "checkpoint_every": checkpoint_every, "eval_every": eval_every}
    _check_numbers(steps_per_call, counts, keep, seed, clip_norm, accumulate_steps, ema_momentum)
    if best[1] not in ("min", "max"):
        raise ValueError(f'`best` must be a name and "min" or "max". Received: best={best!r}')
    parts = (stages.Stage(0, dataset, loss_fn), *later_stages)
    stages.check(parts, num_steps, steps_per_call)
    workers = strategy_lib.workers(strategy)
    is_chief = workers[0] == 0
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(run_lock.held(workdir)) if is_chief else None
        received = stack.enter_context(stopping.signals())

        # Where the run stands.
        with strategy.scope():
            optimizers.build_slots(optimizer, model.trainable_variables)
            averages = None
            if ema_momentum:
                averages = Averages(optimizer, model.trainable_variables, ema_momentum)
        reader = stages.Reader(parts, steps_per_call, *workers)
        checkpoints = checkpoints_lib.Checkpoints(workdir, model, optimizer, strategy, keep)
        step, progress = checkpoints.restore(reader.begin)
        _check_reached(step, num_steps, finish, workdir)
        _check_calls(progress, steps_per_call)
        num_steps = step if finish else num_steps
        progress = progress or dict.fromkeys(_TOTALS, 0) | {"best_step": None, "best_value": None}
        arguments = (clip_norm, seed, accumulate_steps, averages)
        steps_of = [
            graphs.training_steps(strategy, model, optimizer, part.loss_fn, *arguments) for part in parts
        ]
        log = metrics_lib.Metrics(workdir, num_steps, step, progress["metrics_bytes"], silent=not is_chief)
        stack.enter_context(_closing(log))
        if step:
            log.say(f"Resuming at step {step}")
        if step < num_steps and (progress["best_step"] or math.inf) <= best_after:
            log.say(
                f"What follows is scored in another way: step {progress['best_step']} is no longer the best"
            )
            progress.update(best_step=None, best_value=None)
        run = _Run(strategy, reader, checkpoints, log, averages, received, step, progress)
        stragglers = Stragglers(workers[1])

        while run.step < num_steps:
            seconds, waited = run.make_steps(steps_of[reader.stage], num_steps)
            is_last, improved = run.step == num_steps, False
            if evaluate and (run.step % eval_every == 0 or is_last):
                improved = run.evaluate(evaluate, best, samples if is_chief else None)
            signals, waited = run.exchanged(waited)
            if warning := stragglers.update(waited, seconds):
                log.say(warning)
            if any(signals) or improved or run.step % checkpoint_every == 0 or is_last:
                stage = {"stage": reader.stage} if later_stages else {}
                run.save(lock, {"steps_per_call": steps_per_call, **stage})
            if any(signals):
                raise stopping.stopped(received, signals, run.step)
            log.restart_clock()

        run.take_best(evaluate, best)
        signals, _ = run.exchanged()
        if any(signals):  # one that came during the last checkpoint
            raise stopping.stopped(received, signals, run.step)
        heartbeat.mark(done=run.step)
    for name in ("metrics_bytes", "steps_per_call", "stage"):
        progress.pop(name, None)
    return {"step": run.step, **progress}


class _Run:
    """A run between two calls of its graph, and what happens there.

    Args:
        strategy: `tf.distribute.Strategy`.
        reader: `stages.Reader` at the step.
        checkpoints: `Checkpoints`.
        log: `Metrics`.
        averages: `Averages` or None.
        received: list of the signals that this process has received, which grows.
        step: int, number of steps made.
        progress: dict, what a checkpoint says about the run; it is kept up to date.
    """

    def __init__(self, strategy, reader, checkpoints, log, averages, received, step, progress):
        self.step, self.progress = step, progress
        self._strategy, self._reader, self._checkpoints = strategy, reader, checkpoints
        self._log, self._averages, self._received = log, averages, received
        self._began = time.monotonic() - progress["seconds"]
        self._cpu_began = time.process_time() - progress["cpu_seconds"]

    def make_steps(self, steps, num_steps):
        """Trains on the next super-batch; then the data are those of the stage that follows.

        Args:
            steps: function of `graphs.training_steps` for the present stage.
            num_steps: int, length of the run, for the message if the data end.

        Returns:
            (seconds that the steps took, seconds of these for which this worker waited for others).
        """
        try:
            batch = next(self._reader.batches)
        except StopIteration:
            raise ValueError(
                f"`dataset` ended before step {num_steps}. Received: no batch at step {self.step}"
            ) from None
        heartbeat.mark(ready=self.step)
        began = time.monotonic()
        rows = steps(strategy_lib.split(self._strategy, batch), self.step, self._reader.batches.spec)
        for number, row in enumerate(rows, self.step + 1):
            _check_finite("the loss", row["loss"][0], number, self._checkpoints)
        self.step += len(rows)
        heartbeat.mark(step=self.step)
        seconds, waited = time.monotonic() - began, sum(row.pop("waited", [0.0])[0] for row in rows)
        tokens = int(sum(row.pop("tokens")[0] for row in rows))
        self.progress["tokens"] += tokens
        self._log.write(self.step, {**graphs.means(rows), "tokens": self.progress["tokens"]}, tokens)
        if self._reader.stage_at(self.step) != self._reader.stage:
            # Before the checkpoint, which holds the next stage.
            self._checkpoints.read_from(self._reader.begin(self.step))
        return seconds, waited

    def evaluate(self, evaluate, best, samples):
        """Evaluates the weights, or their averages, and shows samples; returns whether they are the best."""
        with self._averages.taken() if self._averages else contextlib.nullcontext():
            values = self._scores(evaluate, best)
            self._log.write(self.step, values)
            value = values[best[0]]
            improved = _is_better(value, self.progress["best_value"], best[1])
            if improved:
                self.progress.update(best_step=self.step, best_value=value)
            if samples:
                self._log.say(samples())
        return improved

    def exchanged(self, waited=0.0):
        """Returns (the signals, 0 for none, the seconds of waiting) of all workers, which all call this."""
        news = strategy_lib.each_worker(self._strategy, [float((*self._received, 0)[0]), waited])
        return tuple(zip(*news, strict=True))

    def save(self, lock, facts):
        """Writes a checkpoint with further facts, if the directory is still ours; all workers call this."""
        self.progress.update(
            seconds=time.monotonic() - self._began,
            cpu_seconds=time.process_time() - self._cpu_began,
            metrics_bytes=self._log.position,
            **facts,
        )
        if lock:
            lock.check()
        self._log.flush()
        self._checkpoints.save(self.step, self.progress)
        heartbeat.mark(saved=self.step)

    def take_best(self, evaluate, best):
        """Restores the weights of the best step, or keeps those of the last if that one is damaged."""
        best_step = self.progress["best_step"]
        found = best_step in (None, self.step) or self._checkpoints.restore_variables(best_step)
        if self._averages:
            self._averages.take()
        if evaluate and (not found or best_step is None):
            self.progress.update(best_step=self.step, best_value=self._scores(evaluate, best)[best[0]])

    def _scores(self, evaluate, best):
        values = evaluate()
        if best[0] not in values:
            raise ValueError(
                f"`best` must name a value of `evaluate`, one of {', '.join(values)}. Received: best={best!r}"
            )
        _check_finite(best[0], values[best[0]], self.step, self._checkpoints)
        return values


@contextlib.contextmanager
def _closing(log):
    """Closes the log in the end, and writes nothing more if another run has taken the directory over."""
    is_ours = True
    try:
        yield
    except run_lock.LockedError:
        is_ours = False
        raise
    finally:
        log.close(flush=is_ours)


def _check_reached(step, num_steps, finish, workdir):
    """Checks the step that a run has reached."""
    if finish and not step:
        raise ValueError(
            f"`finish` needs a run with a checkpoint. Received: finish=True, no checkpoint in {workdir}"
        )
    if step > num_steps and not finish:
        raise ValueError(
            f"`num_steps` must be at least the step that the run has reached, {step}. "
            f"Received: num_steps={num_steps}"
        )


def _check_calls(progress, steps_per_call):
    """Checks that a run goes on with its `steps_per_call`; `progress` is None for a new one."""
    before = (progress or {}).get("steps_per_call", steps_per_call)
    if before != steps_per_call:
        raise ValueError(
            f"`steps_per_call` must be that of the run so far, {before}. "
            f"Received: steps_per_call={steps_per_call}"
        )


def _check_numbers(steps_per_call, counts, keep, seed, clip_norm, accumulate_steps, ema_momentum):
    rules = {
        "steps_per_call": (steps_per_call, "an integer >= 1", 1),
        "accumulate_steps": (accumulate_steps, "an integer >= 1", 1),
        "keep": (keep, "an integer >= 1", 1),
        # A step's randomness is derived from it as an int32.
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


def _is_better(value, best, direction):
    return best is None or (value < best if direction == "min" else value > best)
