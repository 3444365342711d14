"""Learning rates as functions of the step."""

import math

import keras
import tensorflow as tf

SCHEDULES = ("inverse_sqrt", "constant", "warmup_linear", "warmup_flat_linear")


@keras.saving.register_keras_serializable(package="convnlp")
class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A named schedule. t is the number of updates so far, P the peak, W the warm-up, N the number of steps.

        inverse_sqrt         P / sqrt(max(t, W, 1)): T5's with P = 1, W = 10000
        constant             P
        warmup_linear        P min(1, (t+1) / W, (N-t) / (N-W))
        warmup_flat_linear   P min(1, (t+1) / W, (N-t) / D)

    The last two are 0 from t = N on.

    Source: inverse_sqrt is "rsqrt_no_ramp_down" of T5 (Raffel et al., 2020, https://arxiv.org/abs/1910.10683).
    Departs from it: nothing.

    Args:
        name: one of `SCHEDULES`.
        learning_rate: float > 0. The peak P.
        num_steps: int > 0. N.
        warmup_steps: int >= 0. W. Defaults to 0.
        decay_steps: int >= 0. D, steps of decay in warmup_flat_linear; 0 for none. Defaults to 0.

    Returns (call):
        float32 scalar, the learning rate.

    Raises:
        ValueError: if the name is unknown or a value is out of range.

    Example:
    ```python
    from convnlp.training.schedules import Schedule
    schedule = Schedule("inverse_sqrt", learning_rate=1.0, num_steps=524_288, warmup_steps=10_000)
    assert abs(float(schedule(0)) - 0.01) < 1e-8
    ```
    """

    def __init__(self, name, learning_rate, num_steps, warmup_steps=0, decay_steps=0):
        if name not in SCHEDULES:
            raise ValueError(f"`schedule` must be one of {', '.join(SCHEDULES)}. Received: schedule={name!r}")
        if not 0 < learning_rate < math.inf:
            raise ValueError(
                f"`learning_rate` must be positive and finite. Received: learning_rate={learning_rate}"
            )
        if num_steps <= 0:
            raise ValueError(f"`num_steps` must be positive. Received: num_steps={num_steps}")
        if warmup_steps < 0 or ("warmup" in name and warmup_steps >= num_steps):
            raise ValueError(
                "`warmup_steps` must be in [0, num_steps). "
                f"Received: warmup_steps={warmup_steps}, num_steps={num_steps}"
            )
        if decay_steps < 0 or (name == "warmup_flat_linear" and decay_steps > num_steps):
            raise ValueError(
                "`decay_steps` must be in [0, num_steps]. "
                f"Received: decay_steps={decay_steps}, num_steps={num_steps}"
            )
        self.name = name
        self.learning_rate = learning_rate
        self.num_steps = num_steps
        self.warmup_steps = warmup_steps
        self.decay_steps = decay_steps

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        if self.name == "constant":
            return tf.constant(self.learning_rate, tf.float32)  # it may be an int
        if self.name == "inverse_sqrt":
            return self.learning_rate * tf.math.rsqrt(tf.maximum(step, max(self.warmup_steps, 1)))
        warmup = (step + 1) / max(self.warmup_steps, 1)
        decay_steps = (
            self.decay_steps if self.name == "warmup_flat_linear" else self.num_steps - self.warmup_steps
        )
        decay = (self.num_steps - step) / max(decay_steps, 1)
        return self.learning_rate * tf.maximum(0.0, tf.minimum(1.0, tf.minimum(warmup, decay)))

    def get_config(self):
        names = ("name", "learning_rate", "num_steps", "warmup_steps", "decay_steps")
        return {name: getattr(self, name) for name in names}
