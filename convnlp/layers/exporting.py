"""Whether what is traced is to be exported."""

from convnlp import kernels


def is_exporting():
    """Whether kernels are traced in a form of exported graphs, which nobody trains.

    Example:
    >>> is_exporting()
    False
    >>> with kernels.implementation("inference"):
    ...     is_exporting()
    True
    """
    return kernels.current_implementation() in ("inference", "edge")
