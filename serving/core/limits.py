"""The limits of the server: a request beyond a limit is refused before it costs anything."""

import math
import threading
from dataclasses import dataclass

from convnlp.serving.core.errors import ServingError, too_large


@dataclass(frozen=True)
class Limits:
    """The limits of one server. Of these, TF Serving has only the time-out.

    Args:
        body_bytes: int. The largest request.
        decompressed_bytes: int. The largest request after decompression.
        bytes_in_flight: int. The most bytes of all requests under way, not counting the beginning of each.
        json_nodes: int. The most arrays, objects and members of objects in a request.
        batch_size: int. The most examples in a request: the first dimension of any of its tensors.
        text_bytes: int. The longest string or serialized example.
        queue_length: int. The most requests waiting for a model while others run.
        concurrent_requests: int. The most requests under way, from the end of the body to the answer.
        timeout_ms: int. How long a request may take; 0 for no limit.
    """

    body_bytes: int = 64 * 2**20
    decompressed_bytes: int = 16 * 2**20
    bytes_in_flight: int = 256 * 2**20
    json_nodes: int = 2 * 2**20
    batch_size: int = 4096
    text_bytes: int = 2**20
    queue_length: int = 1024
    concurrent_requests: int = 512
    timeout_ms: int = 30_000

    def check_texts(self, feeds):
        """Refuses tensors with a string that is too long.

        Args:
            feeds: dict of str to array.

        Raises:
            ServingError: if a string is too long; the message names the limit.
        """
        for array in feeds.values():
            if array.dtype == object and array.size:
                longest = max(map(len, array.flat))
                if longest > self.text_bytes:
                    raise too_large(
                        f"Text of {longest} bytes is longer than {self.text_bytes} (--max_text_bytes)"
                    )

    def check_batch_size(self, size):
        """Refuses a batch that is too large, by its size, so that no tensor is needed yet.

        Args:
            size: int. The number of examples.

        Raises:
            ServingError: if the batch is too large; the message names the limit.
        """
        if size > self.batch_size:
            raise too_large(f"Batch of {size} is larger than {self.batch_size} (--max_batch_size)")

    def check_tensor(self, shape, item_bytes):
        """Refuses a tensor that would take too much memory, before it is made.

        Args:
            shape: tuple of int.
            item_bytes: int. The size of an element.

        Raises:
            ServingError: if the tensor is too large; the message names the limit.
        """
        if shape:
            self.check_batch_size(shape[0])
        self.check_bytes(math.prod(shape) * item_bytes, f"Tensor of the shape {list(shape)}")

    def check_bytes(self, size, what):
        """Refuses something larger than a request may be.

        Args:
            size: int.
            what: str. What it is, for the message.

        Raises:
            ServingError: if it is too large; the message names the limit.
        """
        if size > self.body_bytes:
            raise too_large(f"{what} takes {size} bytes, more than {self.body_bytes} (--max_body_bytes)")


class Gate:
    """Counts what is inside, and refuses entry beyond the limit.

    Args:
        limit: int. How many may be inside.
        what: str. What is counted, and the flag that sets the limit, for the message.
    """

    def __init__(self, limit, what):
        self._limit = limit
        self._what = what
        self._lock = threading.Lock()
        self.inside = 0

    def check(self, count=1):
        """Raises `ServingError` if this many more may not enter."""
        if self.inside + count > self._limit:
            raise ServingError("RESOURCE_EXHAUSTED", f"More than {self._limit} {self._what}")

    def enter(self, count=1):
        """Counts this many in, or raises `ServingError`."""
        with self._lock:
            self.check(count)
            self.inside += count

    def leave(self, count=1):
        """Counts this many out."""
        with self._lock:
            self.inside -= count
