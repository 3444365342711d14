"""Checks which number types a model can compute in; refuses the others in one clear line."""

import keras

DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")


def check_dtype(dtype=None):
    """Raises ValueError if a model cannot be built in a dtype policy.

    Weights, norms, softmax and logits are float32 in every policy that works: with 16-bit weights, an update
    of a thousandth is lost in rounding.

    Args:
        dtype: str, `keras.DTypePolicy`, or None for the global policy.
    """
    try:
        policy = keras.dtype_policies.get(dtype)
        name = policy.name
    except (ValueError, TypeError):
        name = str(dtype)
    if name not in DTYPES:
        origin = " (the global policy)" if dtype is None else ""
        raise ValueError(
            f"`dtype` must be one of {', '.join(DTYPES)}, whose weights are float32; smaller files are made "
            f"by `convnlp export-tflite` (fp16, int8). Received: dtype={name!r}{origin}"
        )
