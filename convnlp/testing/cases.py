"""What a suite runs on: one way to build one mixer, and small random inputs."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from convnlp.layers import MIXERS, build_mixer
from convnlp.testing.requirements import require_variants

BATCH, TIME, DIM = 2, 7, 8


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to build one mixer.

    Args:
        name: str, a key of `convnlp.layers.MIXERS`.
        options: dict of constructor arguments other than `hidden_dim` and `causal`.
        causal: bool.
        typical: bool. Whether the costlier checks use these options.
        oracle: function of (mixer, x [T,D], visible [T,T]) -> [T,D] in float64, for one text: `visible[i, m]`
            says whether position i may see position m as far as pads and segments go; direction and reach
            are the mixer's own. With `supports_prefix`, it also takes a fourth argument, the prefix, bool
            [T]; with `supports_right_to_left`, a bool of that name. None: values are not checked.
        copies: bool. Whether it learns within some steps to pass on the token at each position; False if the
            equation gives that token no more weight than the others.
    """

    name: str
    options: dict
    causal: bool
    typical: bool = True
    oracle: Callable | None = None
    copies: bool = True

    def make(self, **arguments):
        """Returns the mixer without weights; `arguments` override those of the case."""
        options = {"hidden_dim": DIM, "causal": self.causal, **self.options, **arguments}
        return build_mixer(self.name, **options)

    def build(self, dtype="float32", seed=0):
        """Returns the mixer with its weights; equal seeds give equal weights in any dtype.

        The weights are moved away from their initial values: a bias of zero or a factor of one would not
        show whether it is used.
        """
        keras.utils.set_random_seed(seed)
        mixer = self.make(dtype=dtype)
        mixer.build((None, None, DIM))
        rng = np.random.default_rng(seed)
        mixer.set_weights([value + 0.2 * rng.normal(size=value.shape) for value in mixer.get_weights()])
        return mixer

    @property
    def facts(self):
        """The mixer's class, for its facts."""
        return MIXERS[self.name]

    def __str__(self):
        options = "".join(f"{key}={value}-" for key, value in self.options.items())
        return f"{self.name}-{options}{'causal' if self.causal else 'both_sides'}"


def cases(name, variants=({},), oracle=None, copies=True):
    """Returns the cases of one mixer: each variant in each direction that it supports.

    Args:
        name: str, a key of `convnlp.layers.MIXERS`.
        variants: sequence of dicts, see `Case.options`; the first is the typical one. The suites need
            a `max_sequence_length` of 20 or more.
        oracle: see `Case`.
        copies: see `Case`.

    Returns:
        List of `Case`s.

    Raises:
        ValueError: if there is no such mixer, or `variants` does not hold dicts.
    """
    if name not in MIXERS:
        raise ValueError(f"`name` must be one of {', '.join(MIXERS)}. Received: {name!r}")
    require_variants(variants)
    directions = (False, True) if MIXERS[name].supports_causal else (False,)
    return [
        Case(name, options, causal, number == 0, oracle, copies)
        for number, options in enumerate(variants)
        for causal in directions
    ]


def random_rows(batch=BATCH, time=TIME, seed=1):
    """Returns a float32 tensor [B,T,D] from a normal distribution."""
    return tf.constant(np.random.default_rng(seed).normal(size=[batch, time, DIM]).astype("float32"))
