"""The hot operations in the forms that suit training on a CPU, accelerators, and exported graphs.

Nothing else in convnlp knows how they are computed. All forms of a kernel give the same values and gradients.
"""

from convnlp.kernels.depthwise import depthwise_conv
from convnlp.kernels.dynamic import dynamic_conv
from convnlp.kernels.implementations import current_implementation, implementation
from convnlp.kernels.shifts import depthwise_conv_valid, dynamic_conv_valid

__all__ = [
    "current_implementation",
    "depthwise_conv",
    "depthwise_conv_valid",
    "dynamic_conv",
    "dynamic_conv_valid",
    "implementation",
]
