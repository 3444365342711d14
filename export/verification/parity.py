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


def reference(model):
    """The `convnlp.tasks.Reference` of a model."""
    return task_of(model).answers(model).reference()
