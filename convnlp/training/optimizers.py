"""The optimizers: Adafactor as in T5, and AdamW."""

import keras
import tensorflow as tf

from convnlp.adamw import AdamW, undecayed
from convnlp.training import schedules

OPTIMIZERS = ("adafactor", "adamw")


def build(config, num_steps, depth_of=None):
    """Builds an optimizer with its schedule. Call it in the strategy's scope.

    Clipping by the global norm is not included: Keras would clip the gradients of each replica separately,
    before they are summed. The training loop clips the sum.

    Args:
        config: has `name` (one of `OPTIMIZERS`), `schedule`, `learning_rate`, `warmup_steps`, `decay_steps`,
            `weight_decay` and, for AdamW, `beta_2`; may have `layer_decay`, a float in (0, 1]: the factor by
            which the learning rate, and so the weight decay, shrinks with every layer between a variable and
            the top. Defaults to 1.
        num_steps: int. Length of the run.
        depth_of: function of a variable -> int, the number of layers from the top, see
            `convnlp.models.Seq2SeqBackbone.depth_of`. Needed if `layer_decay` is below 1.

    Returns:
        A `keras.optimizers.Optimizer`.

    Raises:
        ValueError: if the name is unknown, `layer_decay` is out of range or lacks `depth_of`, and as
            `Schedule`.
    """
    schedule = schedules.Schedule(
        config.schedule, config.learning_rate, num_steps, config.warmup_steps, config.decay_steps
    )
    layer_decay = config.get("layer_decay", 1.0)
    if not 0 < layer_decay <= 1:
        raise ValueError(
            "`optimizer.layer_decay` must be a number in (0, 1]. "
            f"Received: optimizer.layer_decay={layer_decay}"
        )
    if layer_decay < 1 and depth_of is None:
        raise ValueError(
            "`depth_of` must be given if optimizer.layer_decay is below 1. "
            f"Received: depth_of=None, optimizer.layer_decay={layer_decay}"
        )
    scaling = {"scale_of": lambda variable: layer_decay ** depth_of(variable)} if layer_decay < 1 else {}
    if config.name == "adafactor":
        cls = LayerDecayAdafactor if scaling else Adafactor
        return cls(schedule, weight_decay=config.weight_decay or None, **scaling)
    if config.name == "adamw":
        cls = LayerDecayAdamW if scaling else AdamW
        return cls(schedule, weight_decay=config.weight_decay, beta_2=config.beta_2, **scaling)
    raise ValueError(f"`optimizer.name` must be one of {', '.join(OPTIMIZERS)}. Received: {config.name!r}")


def build_slots(optimizer, variables):
    """Creates the optimizer's slots; excludes the `undecayed` variables from its weight decay."""
    excluded = undecayed(variables)
    if optimizer.weight_decay and excluded:
        optimizer.exclude_from_weight_decay(var_list=excluded)
    optimizer.build(variables)


@keras.saving.register_keras_serializable(package="convnlp")
class Adafactor(keras.optimizers.Optimizer):
    """Adafactor with T5's settings: relative step, factored second moments, no momentum.

        a_t   = max(1e-3, RMS(W)) * learning_rate(t)
        b_t   = 1 - t^-0.8                                              t = 1, 2, ...
        R_t   = b_t R_{t-1} + (1 - b_t) mean_columns(G^2 + 1e-30)       one per row
        C_t   = b_t C_{t-1} + (1 - b_t) mean_rows(G^2 + 1e-30)          one per column
        U     = G / sqrt(R_t / mean(R_t)) / sqrt(C_t)
        W    -= a_t U / max(1, RMS(U))

    For a variable with fewer than two axes, or with one of the last two smaller than 128, the full moment
    V_t = b_t V_{t-1} + (1 - b_t) (G^2 + 1e-30) is kept, and U = G / sqrt(V_t).

    Source: Shazeer and Stern, 2018, Algorithms 4 and 5, https://arxiv.org/abs/1804.04235, with the settings
    of T5 (Raffel et al., 2020).
    Departs from it: with more than two axes, the last two are factored; T5's code factors the two largest,
    which are the same for a kernel [K,D,E] with fewer taps than channels. Departs from
    `keras.optimizers.Adafactor`, which keeps V for every variable, so that factoring saves no memory, and
    takes the root of the product R C: where an all-zero row meets an all-zero column, this underflows and
    every weight becomes NaN. Keras also factors small matrices and caps the learning rate at 1 / sqrt(t).

    Cost: rows + columns state elements for a factored matrix.

    Args:
        learning_rate: float or schedule.
        weight_decay: float or None. T5 uses none. Defaults to None.
        min_factored_size: int. Minimum size of the last two axes for factoring. Defaults to 128.
        name: string.
    """

    def __init__(self, learning_rate, weight_decay=None, min_factored_size=128, name="adafactor", **kwargs):
        super().__init__(learning_rate=learning_rate, weight_decay=weight_decay, name=name, **kwargs)
        self.min_factored_size = min_factored_size

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._moments = []
        for v in variables:
            if self._is_factored(v):
                shapes = {"row": v.shape[:-1], "column": (*v.shape[:-2], v.shape[-1])}
            else:
                shapes = {"moment": v.shape}
            self._moments.append(
                [self.add_variable(shape, name=f"{v.name}_{n}") for n, shape in shapes.items()]
            )

    def _is_factored(self, variable):
        return len(variable.shape) >= 2 and min(variable.shape[-2:]) >= self.min_factored_size

    def update_step(self, gradient, variable, learning_rate):
        gradient = tf.cast(gradient, tf.float32)
        beta = 1.0 - tf.cast(self.iterations + 1, tf.float32) ** -0.8
        square = tf.square(gradient) + 1e-30
        moments = self._moments[self._get_variable_index(variable)]
        axes = [-1, -2] if self._is_factored(variable) else [()]
        for moment, axis in zip(moments, axes, strict=True):
            self.assign(moment, beta * moment + (1.0 - beta) * tf.reduce_mean(square, axis))
        if self._is_factored(variable):
            row, column = (tf.convert_to_tensor(moment) for moment in moments)
            row /= tf.reduce_mean(row, -1, keepdims=True)
            update = gradient * tf.math.rsqrt(row)[..., None] * tf.math.rsqrt(column)[..., None, :]
        else:
            update = gradient * tf.math.rsqrt(tf.convert_to_tensor(moments[0]))
        scale = tf.maximum(1e-3, _rms(tf.convert_to_tensor(variable))) * tf.cast(learning_rate, tf.float32)
        self.assign_sub(variable, scale * update / tf.maximum(1.0, _rms(update)))

    def get_config(self):
        return {**super().get_config(), "min_factored_size": self.min_factored_size}


class _ScaledRates:
    """Mixin for an optimizer: scales the learning rate and weight decay of each variable by a constant.

    Args:
        *args, **kwargs: arguments of the optimizer that follows in the bases.
        scale_of: function of a variable -> float, its constant.

    Raises:
        ValueError: in `build`, if the constants of all variables are 1.
    """

    def __init__(self, *args, scale_of, **kwargs):
        super().__init__(*args, **kwargs)
        self._scale_of = scale_of

    def build(self, variables):
        if not self.built:
            self._scales = tuple(float(self._scale_of(v)) for v in variables)
            if set(self._scales) == {1.0}:  # `depth_of` is of another model, such as the original
                raise ValueError(
                    "`depth_of` must know the variables that are trained. Received: depth 0 for all "
                    f"{len(variables)} variables"
                )
        super().build(variables)

    def _apply_weight_decay(self, variables):
        """Does nothing: Keras' version uses one rate for all variables."""

    def update_step(self, gradient, variable, learning_rate):
        rate = tf.cast(learning_rate, variable.dtype) * self._scales[self._get_variable_index(variable)]
        if self.weight_decay and self._use_weight_decay(variable):
            self.assign_sub(variable, variable * (self.weight_decay * rate))
        super().update_step(gradient, variable, rate)


class LayerDecayAdafactor(_ScaledRates, Adafactor):
    """Adafactor with a learning rate per layer."""


class LayerDecayAdamW(_ScaledRates, AdamW):
    """AdamW with a learning rate per layer."""


def _rms(x):
    return tf.sqrt(tf.reduce_mean(tf.square(x)))
