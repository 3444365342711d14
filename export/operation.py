"""One operation of an exported model, and its place in the model."""

import dataclasses
import re

# What all signatures share is in a function call: encoder_1/StatefulPartitionedCall/layer_0
_LAYER = re.compile(r"(?:^|/)(encoder|decoder)[^/]*/(?:[^/]*Call[^/]*/)?layer_(\d+)")
ELSEWHERE = "elsewhere"


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation that runs once per request.

    Attributes:
        kind: str. What the runtime calls it.
        place: str. See `place`.
        is_fast: bool. Whether XNNPACK takes it; None in a SavedModel.
        num_bytes: int. How many bytes it writes; None in a SavedModel.
    """

    kind: str
    place: str
    is_fast: bool | None = None
    num_bytes: int | None = None


def place(name):
    """Returns the layer that an operation or a tensor belongs to, according to its name.

    Example:
    >>> place("text_classifier/seq2_seq_backbone/encoder_1/layer_0_1/norm_1/mul")
    'encoder 0'
    >>> place("text_classifier/text_pooling/Max")
    'elsewhere'
    """
    found = _LAYER.search(name)
    return f"{found[1]} {found[2]}" if found else ELSEWHERE
