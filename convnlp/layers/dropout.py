"""Dropout whose masks are a pure function of a seed, so that a resumed run repeats them bit for bit."""

import contextlib
import threading

import keras
import tensorflow as tf

from convnlp import kernels
from convnlp.layers.checks import require_rate

_NUMBERS = 2**16
_context = threading.local()


@contextlib.contextmanager
def dropout_seed(seed):
    """Makes every `Dropout` inside draw its mask from `seed` and its place in the order of calls.

    Keras's own generator keeps a variable that `tf.train.Checkpoint` does not save, and that gives every
    replica of a mirrored model the same mask. A training loop enters this context with a seed made from (run,
    step, replica) instead: there is nothing to save, and replicas differ.

    Args:
        seed: int32 tensor [2].

    Example:
    ```python
    import tensorflow as tf
    from convnlp.layers import Dropout, dropout_seed
    dropout, x = Dropout(0.5), tf.ones([2, 8])
    with dropout_seed(tf.constant([7, 1])):
        first = dropout(x, training=True)
    with dropout_seed(tf.constant([7, 1])):
        again = dropout(x, training=True)
    assert bool(tf.reduce_all(first == again))
    ```
    """
    outer = getattr(_context, "state", None)
    _context.state = [seed, 0]
    try:
        yield
    finally:
        _context.state = outer


def _next_seed():
    """Returns the seed of the next mask inside a `dropout_seed` context, or None outside one."""
    state = getattr(_context, "state", None)
    if state is None:
        return None
    seed, calls = state
    state[1] = calls + 1
    return tf.random.fold_in(seed, calls)


def _kept(shape, seed, rate):
    """Draws which elements are kept, by 16 random bits each: half the work of a uniform number each.

    Args:
        shape: int32 tensor [R].
        seed: int32 tensor [2].
        rate: float in (0, 1), rounded to 16 bits.

    Returns:
        (bool tensor of the shape, False for dropped; float, the share that is kept on average).
    """
    dropped = min(round(rate * _NUMBERS), _NUMBERS - 1)
    size = tf.reduce_prod(shape)
    words = tf.random.stateless_uniform([(size + 3) // 4], seed, None, None, tf.int64)
    numbers = tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:size]
    return tf.reshape(numbers >= tf.constant(dropped, tf.uint16), shape), 1 - dropped / _NUMBERS


@keras.saving.register_keras_serializable(package="convnlp")
class Dropout(keras.layers.Layer):
    """Inverted dropout: y = x * m / (1 - rate) with m ~ Bernoulli(1 - rate), only when `training`.

    Args:
        rate: float in [0, 1). Share of the elements set to zero; the fast form rounds it to 16 bits, and
            scales by what it is then.

    Raises:
        ValueError: if `rate` is outside [0, 1).
    """

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        require_rate("rate", rate)
        self.rate = rate
        self._generator = keras.random.SeedGenerator() if rate > 0 else None
        self.supports_masking = True
        self.built = True

    def call(self, x, training=False):
        """Maps a tensor of any shape to one of the same shape and dtype."""
        if not training or self.rate == 0.0:
            return x
        seed = _next_seed()
        if seed is None:
            return keras.random.dropout(x, self.rate, seed=self._generator)
        if kernels.current_implementation() != "fast":
            keep = tf.random.stateless_uniform(tf.shape(x), seed) >= self.rate
            return tf.where(keep, x / (1.0 - self.rate), tf.zeros_like(x))
        keep, share = _kept(tf.shape(x), seed, self.rate)
        return x * (tf.cast(keep, x.dtype) * tf.cast(1 / share, x.dtype))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "rate": self.rate}
