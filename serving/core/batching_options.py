"""How requests are batched: TF Serving's batching parameters."""

from dataclasses import dataclass, field

from convnlp.serving.core.cores import num_cores

MAX_THREADS = 4096  # more than any machine has cores, and fewer than a system refuses to start


@dataclass(frozen=True)
class BatchingOptions:
    """TF Serving's BatchingParameters with its defaults.

    Args:
        max_batch_size: int. The most examples per request, and per batch unless large ones are split.
        batch_timeout_micros: int. How long a batch waits to be filled.
        max_enqueued_batches: int. How many batches of a queue may wait; further requests are refused.
        num_batch_threads: int. How many batches run at the same time, at most `MAX_THREADS`.
        allowed_batch_sizes: tuple of int. If not empty, batches are padded to the next of these sizes.
        pad_variable_length_inputs: bool. Whether tensors of different lengths are padded to the longest.
        enable_large_batch_splitting: bool. Whether requests larger than `max_execution_batch_size` are split.
            No request may be larger than `max_batch_size`, split or not.
        max_execution_batch_size: int. The most examples per batch when requests are split.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = field(default_factory=num_cores)
    allowed_batch_sizes: tuple = ()
    pad_variable_length_inputs: bool = False
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int = 1000

    def __post_init__(self):
        counts = ("max_batch_size", "max_enqueued_batches", "num_batch_threads", "max_execution_batch_size")
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be positive. Received: {name}={getattr(self, name)}")
        if self.num_batch_threads > MAX_THREADS:
            raise ValueError(
                f"`num_batch_threads` must be at most {MAX_THREADS}."
                f" Received: num_batch_threads={self.num_batch_threads}"
            )
        if self.batch_timeout_micros < 0:
            raise ValueError(
                "`batch_timeout_micros` must not be negative."
                f" Received: batch_timeout_micros={self.batch_timeout_micros}"
            )
        sizes = list(self.allowed_batch_sizes)
        if sizes and (sizes != sorted(set(sizes)) or sizes[-1] != self.batch_limit):
            raise ValueError(
                "`allowed_batch_sizes` must increase and end with the size of the largest batch."
                f" Received: allowed_batch_sizes={sizes}, largest batch={self.batch_limit}"
            )

    @property
    def batch_limit(self):
        """The most examples that run as one batch."""
        if self.enable_large_batch_splitting:
            return min(self.max_batch_size, self.max_execution_batch_size)
        return self.max_batch_size
