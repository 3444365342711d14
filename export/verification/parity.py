"""Says how far an exported model's answers may be from those of its preset.

The preset answers in eager mode, with the kernels of training and rows of full length; its task decides what
is compared (`convnlp.tasks.Task.answers`).
"""

from convnlp.tasks import task_of

# Sums of float32 in another order differ by about 1e-7 per operation; this is ten times what 12 + 12 layers
# add up to. A wrong mask, length or variable is off by 1e-2 or more.
BOUND = 1e-4

# By the type of a graph's products. In bfloat16 a product is rounded by up to 2^-9 of its value, at about
# five places per layer; the roundings of 12 layers add up to a few hundredths of the largest value.
BOUNDS = {"float32": BOUND, "bfloat16": 0.05}

# On top of that, if tables are in int8. A value is off by up to 1/254 of the largest in its row, which is
# about a hundredth of an average value; it is rounded once, and later layers do not add to that. Untrained
# models of width 16 are off by up to 0.03.
INT8_TABLES = 0.05


def bound(graph):
    """Returns how far the answers of a `convnlp.export.verification.graph.Graph` may be from the preset's."""
    return BOUNDS[graph.product_dtype()] + (INT8_TABLES if graph.has_int8_tables() else 0.0)


def reference(model):
    """Returns the `convnlp.tasks.Reference` of a model."""
    return task_of(model).answers(model).reference()
