"""Random numbers as a program for a TPU draws them, in a trace that is lowered on a machine without one.

TensorFlow chooses the generator when it lowers an operation (`DefaultRngAlgForDeviceType` in tf2xla):
Philox for CPUs and GPUs, and for a TPU XLA's default, which is its hardware generator. A step lowered here
would bring Philox to the TPU: about 80 integer operations per number, which would then make up most of the
program.

The default generator's state is like that of ThreeFry: the seed as the key, unscrambled, and a counter of
one number. So the trace asks for ThreeFry, and the lowered program gets the default's name instead.
"""

import contextlib
from unittest import mock

from tensorflow.python.ops import random_ops_util

_STAND_IN = "algorithm = THREE_FRY"
_DEFAULT = "algorithm = DEFAULT"


@contextlib.contextmanager
def of_a_tpu():
    """Traces the stateless random operations in the block with the key and counter that a TPU uses."""
    get = random_ops_util.get_key_counter_alg
    with mock.patch.object(random_ops_util, "get_key_counter_alg", lambda seed, _: get(seed, "threefry")):
        yield


def with_default_generator(program):
    """Returns a StableHLO text with XLA's default generator in place of ThreeFry.

    Example:
    >>> with_default_generator("stablehlo.rng_bit_generator %0, algorithm = THREE_FRY")
    'stablehlo.rng_bit_generator %0, algorithm = DEFAULT'
    """
    return program.replace(_STAND_IN, _DEFAULT)
