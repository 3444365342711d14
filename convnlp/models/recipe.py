"""The recipe that `compile()` without arguments uses: that of configs/finetune_classification.py.

tests/models/test_recipe.py keeps the two equal.
"""

import contextlib
import functools
import inspect

import keras
import numpy as np

from convnlp.adamw import AdamW, undecayed

LEARNING_RATE = 5e-4
WARMUP = 0.1  # share of the steps
WEIGHT_DECAY = 0.01
BETA_2 = 0.98
CLIP_NORM = 1.0

_BY_TARGETS = ("crossentropy", "ce")  # of which Keras chooses one by the targets, always for probabilities
_CHOSEN_LATER = ("auto", "acc", *_BY_TARGETS)  # which Keras's `get` does not know
_OF_PROBABILITIES = (  # without an option for logits
    keras.losses.kl_divergence,
    keras.losses.poisson,
    keras.losses.categorical_generalized_cross_entropy,
)
_LIBRARIES = ("keras.src", "keras_hub", "keras_nlp")  # modules of metrics with options like Keras's
_OTHER_SCHEDULES = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)


def optimizer(model):
    """Returns AdamW at the recipe's peak rate; biases, norm scales and embeddings do not decay.

    Args:
        model: a task whose variables already exist.
    """
    adamw = AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY, beta_2=BETA_2, global_clipnorm=CLIP_NORM)
    adamw.exclude_from_weight_decay(var_list=undecayed(model.variables))
    return adamw


def check_optimizer(model):
    """Raises ValueError if a variable of a compiled model became trainable after its optimizer was built."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # behind the scale of float16
    known = {id(variable) for variable in optimizer._trainable_variables} if optimizer.built else ()
    new = [variable.path for variable in model.trainable_variables if known and id(variable) not in known]
    if new:
        raise ValueError(
            "`compile` must be called again, without an optimizer used before, after variables became "
            "trainable, as by `enable_lora`. "
            f"Received: {len(new)} variables that the optimizer does not know, such as {new[0]}"
        )


def check_loss(loss):
    """Raises ValueError for a loss that would take the logits of a model for probabilities.

    A cross-entropy that is given by its name does: it cuts the logits off outside [0, 1], and learns little.
    A Kullback-Leibler divergence, a Poisson loss and a generalized cross-entropy always do.

    Args:
        loss: the argument of `compile`: a loss, its name or class, or a list or dict of them.
    """
    for each in keras.tree.flatten(loss):
        is_chosen_by_targets = isinstance(each, str) and each.lower() in _BY_TARGETS
        found = _found(each, keras.losses)
        takes_logits = _option(found, "from_logits")
        if is_chosen_by_targets or takes_logits is False or _needs_probabilities(found):
            raise ValueError(
                "`loss` must take logits, as keras.losses.SparseCategoricalCrossentropy(from_logits=True) "
                f"does. Received: loss={loss!r}"
            )


def check_metrics(metrics):
    """Raises ValueError for a metric that would take logits for probabilities, by an option or a threshold.

    Only metrics of Keras and of keras_nlp are looked at: a class derived from one may apply
    `keras.ops.sigmoid` itself. A threshold of 0.5 would be one of 0.62 for the probability; one of 0 passes.

    Args:
        metrics: an argument of `compile`: a list or dict of metrics, their names or classes, or None.
    """
    for each in keras.tree.flatten(metrics):
        found = _found(each, keras.metrics)
        is_chosen_by_targets = isinstance(each, str) and each.lower() in _BY_TARGETS
        if not is_chosen_by_targets and not getattr(found, "__module__", "").startswith(_LIBRARIES):
            continue
        takes_logits = _option(found, "from_logits")
        thresholds = [_option(found, name) for name in ("threshold", "thresholds")]
        has_threshold = any(np.any(values) for values in thresholds if values is not None)
        takes_probabilities = takes_logits is False or _needs_probabilities(found)
        if is_chosen_by_targets or takes_probabilities or (has_threshold and not takes_logits):
            raise ValueError(
                "`metrics` must take logits, by from_logits=True, or as a function of (y, logits) that turns "
                f"them into probabilities for the metric. Received: {each!r}"
            )


def _found(given, module):
    """Returns the loss or metric that Keras makes of a name or a class; anything else unchanged."""
    is_name = isinstance(given, str) and given.lower() not in _CHOSEN_LATER
    return module.get(given) if is_name or inspect.isclass(given) else given


def _needs_probabilities(found):
    """Whether a loss or metric of Keras takes its inputs for probabilities, whatever its options.

    A class derived from one may apply `keras.ops.softmax` itself.
    """
    found = getattr(found, "func", found)  # of `functools.partial`
    is_of_keras = getattr(found, "__module__", "").startswith(_LIBRARIES)
    return is_of_keras and (_option(found, "fn") or found) in _OF_PROBABILITIES


def _option(found, name):
    """Returns an option of a loss or metric, or a function's default for it; None if it has none."""
    if inspect.isfunction(found) or isinstance(found, functools.partial):
        option = inspect.signature(found).parameters.get(name)
        return option and option.default
    return getattr(found, name, getattr(found, f"_{name}", None))


@contextlib.contextmanager
def schedule(model, callbacks, first_epoch=0):
    """Wraps a `fit`: yields its callbacks with the recipe's schedule, and resets the rate afterwards.

    Args:
        model: a compiled task.
        callbacks: the argument of `fit`: a callback, a list of them or None. A callback that sets the rate
            takes precedence over the recipe's schedule.
        first_epoch: int, the argument `initial_epoch` of `fit`. Default 0.
    """
    if not model._uses_recipe:
        yield callbacks
        return
    given = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []
    if isinstance(callbacks, keras.callbacks.CallbackList) or any(
        isinstance(callback, _OTHER_SCHEDULES) for callback in given
    ):
        yield callbacks
        return
    rate = model.optimizer.learning_rate
    model._peak = float(keras.ops.convert_to_numpy(rate + 0))  # float() takes no variable of a strategy
    try:
        yield [*given, WarmupLinear(model._peak, first_epoch)]
    finally:  # even if the user has interrupted it
        rate.assign(model._peak)
        model._peak = None


@contextlib.contextmanager
def at_peak(model):
    """Wraps the saving of a model: in the file, the rate is the peak, from which a loaded one trains on."""
    if model._peak is None:
        yield
        return
    rate = model.optimizer.learning_rate
    present = float(keras.ops.convert_to_numpy(rate + 0))
    rate.assign(model._peak)
    try:
        yield
    finally:
        rate.assign(present)


class WarmupLinear(keras.callbacks.Callback):
    """The recipe's schedule: the rate rises over the first tenth of the steps, then falls to 0 at the last.

    It is a callback because only `fit` knows how many steps there will be. If `fit` does not know either (for
    a data set of unknown size), the rate stays at its peak.

    Args:
        peak: float. The highest rate.
        first_epoch: int. The epoch that the schedule begins with; a `fit` that `BackupAndRestore` resumes
            begins with a later one. Default 0.
    """

    def __init__(self, peak, first_epoch=0):
        super().__init__()
        self._peak, self._first = peak, first_epoch
        self._epoch = None

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if not self.params.get("steps"):
            return
        num_steps = (self.params["epochs"] - self._first) * self.params["steps"]
        step = (self._epoch - self._first) * self.params["steps"] + batch
        self.model.optimizer.learning_rate = self._peak * factor(step, num_steps)


def factor(step, num_steps):
    """Returns the factor on the peak rate at step 0, 1, ... of `num_steps`.

    Example:
    >>> [factor(step, 20) for step in (0, 1, 2, 11)]
    [0.5, 1.0, 1.0, 0.5]
    """
    warmup = int(WARMUP * num_steps)
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, (num_steps - step) / (num_steps - warmup))
