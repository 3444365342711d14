"""Tells whether a function is being traced for export."""

from convnlp import kernels


def is_exporting():
    """Whether kernels are traced in a form for exported graphs, which are never trained.

    Example:
    >>> is_exporting()
    False
    >>> with kernels.implementation("inference"):
    ...     is_exporting()
    True
    """
    return kernels.current_implementation() in ("inference", "edge")
