"""The number types of a SavedModel: of its matrix products, asked for or faster, and of its tables."""

import time

import tensorflow as tf

from convnlp.tasks import task_of

DTYPES = ("auto", "float32", "bfloat16")

_SHAPE = (256, 512, 1024)  # rows, inputs, outputs of the product that is timed
_REPEATS = 7
_WORTH_IT = 0.8  # of the time in float32; casts of activations have to be paid from the rest


def resolve(dtype, model, share=None):
    """The type of the products of an exported model.

    Args:
        dtype: "float32", "bfloat16", or "auto": bfloat16 where this machine multiplies it clearly faster, and
            the model can have it.
        model: a model of any task.
        share: function without arguments to the time of a product in bfloat16, as a share of that in float32.
            Default: `time_share`.

    Returns:
        "float32" or "bfloat16".

    Raises:
        ValueError: on another `dtype`, or bfloat16 for a model that writes text.
    """
    if dtype not in DTYPES:
        raise ValueError(f"`dtype` must be one of {', '.join(DTYPES)}. Received: dtype={dtype!r}")
    if dtype == "float32" or (dtype == "auto" and task_of(model).generates):
        return "float32"
    if dtype == "auto":
        return "bfloat16" if (share or time_share)() < _WORTH_IT else "float32"
    if task_of(model).generates:  # a rounding may change a token, and with it all that follow
        raise ValueError(
            f"`dtype` must be float32 for a model that writes text, such as a {type(model).__name__}. "
            f"Received: dtype={dtype!r}"
        )
    return dtype


def check_tables(quantize_tables, model):
    """Raises ValueError if tables are to be stored in int8 and the model cannot have it.

    Args:
        quantize_tables: bool. Whether they are to be.
        model: a model of any task.
    """
    if quantize_tables and task_of(model).generates:
        raise ValueError(
            "`quantize_tables` must be False for a model that writes text, whose table of tokens gives its "
            f"logits too, such as a {type(model).__name__}. Received: quantize_tables=True"
        )


def time_share():
    """How long a matrix product in bfloat16 takes on this machine, as a share of the time in float32.

    The flags of a CPU do not tell: with avx512_bf16 but without amx_bf16 some are faster in it, others not.
    """
    rows, inputs, outputs = _SHAPE
    runs = {}
    for dtype in ("float32", "bfloat16"):
        factors = tf.ones([rows, inputs], dtype), tf.ones([inputs, outputs], dtype)
        runs[dtype] = tf.function(tf.matmul, autograph=False), factors
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(_REPEATS):  # in turns, or another program's work would count for one of them
        for dtype, (product, factors) in runs.items():
            start = time.perf_counter()
            product(*factors).numpy()
            best[dtype] = min(best[dtype], time.perf_counter() - start)
    return best["bfloat16"] / best["float32"]
