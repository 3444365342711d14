"""Chooses the number types of a SavedModel: that of its matrix products, and that of its tables."""

from convnlp import product_speed
from convnlp.tasks import task_of

DTYPES = ("auto", "float32", "bfloat16")


def resolve(dtype, model):
    """Returns the type of an exported model's matrix products.

    Args:
        dtype: "float32", "bfloat16" or "auto". "auto" is bfloat16 if this machine multiplies it clearly
            faster and the model allows it.
        model: a model of any task.

    Returns:
        "float32" or "bfloat16".

    Raises:
        ValueError: if `dtype` is another one, or is bfloat16 for a model that writes text.
    """
    if dtype not in DTYPES:
        raise ValueError(f"`dtype` must be one of {', '.join(DTYPES)}. Received: dtype={dtype!r}")
    if dtype == "float32" or (dtype == "auto" and task_of(model).generates):
        return "float32"
    if dtype == "auto":
        return "bfloat16" if product_speed.bfloat16_is_faster() else "float32"
    if task_of(model).generates:  # rounding may change a token, and thus all that follow
        raise ValueError(
            f"`dtype` must be float32 for a model that writes text, such as a {type(model).__name__}. "
            f"Received: dtype={dtype!r}"
        )
    return dtype


def check_tables(quantize_tables, model):
    """Raises ValueError if tables should be stored in int8 and the model does not allow it.

    Args:
        quantize_tables: bool. Whether tables should be stored in int8.
        model: a model of any task.
    """
    if quantize_tables and task_of(model).generates:
        raise ValueError(
            "`quantize_tables` must be False for a model that writes text, because its token table also "
            f"gives the logits. Received: quantize_tables=True for a {type(model).__name__}"
        )
