"""How far an exported model's answers may be from those of its preset.

The preset answers in eager mode, with the kernels of training and rows of full length; its task says what is
compared (`convnlp.tasks.Task.answers`).
"""

from convnlp.tasks import task_of

# Float32 sums in another order differ by some 1e-7 an operation; a tenfold of what 12 + 12 layers add up to.
# A wrong mask, length or variable is off by 1e-2 and more.
BOUND = 1e-4

# By what a graph multiplies in. In bfloat16 a product is rounded by up to 2^-9 of its value, at some five
# places per layer; the roundings of 12 layers add up to a few hundredths of the largest value.
BOUNDS = {"float32": BOUND, "bfloat16": 0.05}

# On top of that, where tables are in int8. A value is off by up to 1/254 of the largest in its row, which is
# some hundredth of an average one; it is rounded once, and the layers behind it do not add to it. Untrained
# models of width 16 are off by up to 0.03.
INT8_TABLES = 0.05


def bound(graph):
    """What the answers of a `convnlp.export.verification.graph.Graph` may differ by from the preset's."""
    return BOUNDS[graph.product_dtype()] + (INT8_TABLES if graph.has_int8_tables() else 0.0)


def reference(model):
    """The `convnlp.tasks.Reference` of a model."""
    return task_of(model).answers(model).reference()
