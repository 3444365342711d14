"""The optimizers: Adafactor as T5 uses it, and AdamW."""

import keras
import tensorflow as tf

from convnlp.training import schedules

OPTIMIZERS = ("adafactor", "adamw")


def build(config, num_steps, depth_of=None):
    """Builds an optimizer with its schedule. To be called in the strategy's scope.

    Global-norm clipping is not in it: Keras would clip the gradients of each replica by themselves, before
    they are summed. The loop clips the sum.

    Args:
        config: has `name` (one of `OPTIMIZERS`), `schedule`, `learning_rate`, `warmup_steps`, `decay_steps`,
            `weight_decay` and, for AdamW, `beta_2`; may have `layer_decay`, a float in (0, 1]: the factor on
            the learning rate, and with it on the weight decay, for every layer between a variable and the
            top. Defaults to 1.
        num_steps: int. Length of the run.
        depth_of: function of a variable -> int, how many layers down it is, see
            `convnlp.models.Seq2SeqBackbone.depth_of`. Needed for a `layer_decay` below 1.

    Returns:
        A `keras.optimizers.Optimizer`.

    Raises:
        ValueError: for an unknown name, and as `Schedule`.
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
    scaling = {"scale_of": lambda variable: layer_decay ** depth_of(variable)} if layer_decay < 1 else {}
    if config.name == "adafactor":
        cls = LayerDecayAdafactor if scaling else Adafactor
        return cls(schedule, weight_decay=config.weight_decay or None, **scaling)
    if config.name == "adamw":
        cls = LayerDecayAdamW if scaling else keras.optimizers.AdamW
        return cls(schedule, weight_decay=config.weight_decay, beta_2=config.beta_2, **scaling)
    raise ValueError(f"`optimizer.name` must be one of {', '.join(OPTIMIZERS)}. Received: {config.name!r}")


def build_slots(optimizer, variables):
    """Creates the optimizer's slots; biases, norm scales and embeddings are left out of its weight decay.

    The rows of an embedding that no batch has touched get no gradient, and decay alone would shrink them.
    """
    undecayed = [v for v in variables if len(v.shape) < 2 or "embedding" in v.path]
    if optimizer.weight_decay and undecayed:
        optimizer.exclude_from_weight_decay(var_list=undecayed)
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

    A variable of fewer than two axes, or with one of the last two below 128, keeps V_t = b_t V_{t-1} +
    (1 - b_t) (G^2 + 1e-30) whole and has U = G / sqrt(V_t).

    Source: Shazeer and Stern, 2018, Algorithms 4 and 5, https://arxiv.org/abs/1804.04235, with the settings
    of T5 (Raffel et al., 2020).
    Departs from it: of more than two axes the last two are factored, in T5's code the two largest, which for
    a kernel [K,D,E] of fewer taps than channels are the same. Departs from `keras.optimizers.Adafactor`,
    which keeps V for every variable, so that factoring saves no memory, and takes the root of the product R
    C: where an all-zero row meets an all-zero column that underflows and every weight becomes NaN. It also
    factors small matrices and caps the learning rate at 1 / sqrt(t).

    Cost: rows + columns state elements for a factored matrix.

    Args:
        learning_rate: float or schedule.
        weight_decay: float or None. T5 uses none. Defaults to None.
        min_factored_size: int. Both of the last two axes must have it. Defaults to 128.
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
    """An optimizer whose learning rate has a constant factor for each variable, its weight decay included.

    Args:
        *args, **kwargs: of the optimizer that stands behind it in the order of the bases.
        scale_of: function of a variable -> float.
    """

    def __init__(self, *args, scale_of, **kwargs):
        super().__init__(*args, **kwargs)
        self._scale_of = scale_of

    def build(self, variables):
        if not self.built:
            self._scales = tuple(float(self._scale_of(v)) for v in variables)
            if set(self._scales) == {1.0}:  # those of another model, as of one that this is a copy of
                raise ValueError(
                    "`depth_of` must know the variables that are trained. Received: depth 0 for all "
                    f"{len(variables)} of them"
                )
        super().build(variables)

    def _apply_weight_decay(self, variables):
        """Nothing: Keras' own has one rate for all variables."""

    def update_step(self, gradient, variable, learning_rate):
        rate = tf.cast(learning_rate, variable.dtype) * self._scales[self._get_variable_index(variable)]
        if self.weight_decay and self._use_weight_decay(variable):
            self.assign_sub(variable, variable * (self.weight_decay * rate))
        super().update_step(gradient, variable, rate)


class LayerDecayAdafactor(_ScaledRates, Adafactor):
    """Adafactor with a rate for each layer."""


class LayerDecayAdamW(_ScaledRates, keras.optimizers.AdamW):
    """AdamW with a rate for each layer."""


def _rms(x):
    return tf.sqrt(tf.reduce_mean(tf.square(x)))
