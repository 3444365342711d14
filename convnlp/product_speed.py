"""How fast this machine multiplies matrices, in float32 and in bfloat16."""

import time

import tensorflow as tf

_SHAPE = (1024, 512, 2048)  # rows, inner dimension and columns of a product that takes a few milliseconds
_REPEATS = 7
_WORTH_IT = 0.8  # share of the time in float32; less gain would be lost to casts of activations
_settled = []  # what `bfloat16_is_faster` returns, once it is known


def products_per_second(dtype):
    """Returns the multiply-adds per second of a matrix product here, measured within a tenth of a second.

    Args:
        dtype: str, "float32" or "bfloat16".
    """
    rows, columns, outputs = _SHAPE
    return rows * columns * outputs / _shortest_times((dtype,))[dtype]


def bfloat16_is_faster():
    """Returns whether products in bfloat16 need less than 80% of the time in float32, by `time_share`.

    It is measured once in a process: the times vary while a machine is busy.
    """
    if not _settled:
        settle(time_share() < _WORTH_IT)
    return _settled[0]


def settle(is_faster):
    """Sets what `bfloat16_is_faster` returns in this process, a bool, in place of a measurement."""
    _settled[:] = [is_faster]


def time_share():
    """Returns the time of a matrix product in bfloat16 on this machine, as a share of that in float32.

    The flags of a CPU do not tell: with avx512_bf16 but without amx_bf16, some are faster and some slower.
    """
    times = _shortest_times(("float32", "bfloat16"))
    return times["bfloat16"] / times["float32"]


def _shortest_times(dtypes):
    """Returns {dtype: seconds}. All take turns, so that another program's work does not fall on only one."""
    rows, columns, outputs = _SHAPE
    runs = {}
    for dtype in dtypes:
        # Only the product's sum is returned, so that nothing is copied.
        product = tf.function(lambda left, right: tf.reduce_sum(left @ right), autograph=False)
        runs[dtype] = product, tf.ones([rows, columns], dtype), tf.ones([columns, outputs], dtype)
    shortest = dict.fromkeys(dtypes, float("inf"))
    for _ in range(_REPEATS):
        for dtype, (product, left, right) in runs.items():
            start = time.perf_counter()
            product(left, right).numpy()
            shortest[dtype] = min(shortest[dtype], time.perf_counter() - start)
    return shortest
