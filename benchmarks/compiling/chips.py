"""What is published of each chip, and the roofline that follows from it."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Chip:
    """One kind of TPU; a chip is one device of a `TPUStrategy`, of v4 with both of its cores.

    Args:
        topology: str, the smallest slice, as the compiler calls it.
        accelerator_type: str, the same as Google Cloud calls it.
        flops_per_second: float, peak in bfloat16.
        bytes_per_second: float, of its memory.
        memory_bytes: int.
        reduced_bytes_per_second: float, its part of the published "all-reduce bandwidth per Pod".
        cycles_per_second: float, by which the peak is that of its matrix units, each of 128 x 128
            multiply-adds a cycle.
        source: str, a URL.
    """

    topology: str
    accelerator_type: str
    flops_per_second: float
    bytes_per_second: float
    memory_bytes: int
    reduced_bytes_per_second: float
    cycles_per_second: float
    source: str


def _clock(flops_per_second, matrix_units):
    return flops_per_second / (2 * 128 * 128 * matrix_units)


CHIPS = {
    "v5e": Chip(
        topology="v5e:2x2",
        accelerator_type="v5litepod-4",
        flops_per_second=197e12,
        bytes_per_second=819e9,
        memory_bytes=16 * 2**30,
        reduced_bytes_per_second=51.2e12 / 256,
        cycles_per_second=_clock(197e12, 4),
        source="https://cloud.google.com/tpu/docs/v5e",
    ),
    "v4": Chip(
        topology="v4:2x2x1",
        accelerator_type="v4-8",
        flops_per_second=275e12,
        bytes_per_second=1200e9,
        memory_bytes=32 * 2**30,
        reduced_bytes_per_second=1.1e15 / 4096,
        cycles_per_second=_clock(275e12, 8),
        source="https://cloud.google.com/tpu/docs/v4",
    ),
}


@dataclasses.dataclass(frozen=True)
class Roofline:
    """The least time that a program can take.

    Args:
        compute_seconds: float, of its operations at the chip's peak.
        memory_seconds: float, of its bytes at the bandwidth of the chip's memory.
    """

    compute_seconds: float
    memory_seconds: float

    @property
    def seconds(self):
        """float, the longer of the two."""
        return max(self.compute_seconds, self.memory_seconds)

    @property
    def bound(self):
        """What it waits for: "compute" or "memory"."""
        return "compute" if self.compute_seconds >= self.memory_seconds else "memory"


def roofline(flops, bytes_accessed, chip):
    """`Roofline` of a program.

    Example:
    >>> roofline(197e9, 819e6, CHIPS["v5e"])
    Roofline(compute_seconds=0.001, memory_seconds=0.001)
    """
    return Roofline(flops / chip.flops_per_second, bytes_accessed / chip.bytes_per_second)


def all_reduce_seconds(num_bytes, num_chips, chip):
    """The least time to sum `num_bytes` over some chips: each sends and receives them about twice.

    Example:
    >>> all_reduce_seconds(100e9, 1, CHIPS["v5e"]), all_reduce_seconds(100e9, 2, CHIPS["v5e"])
    (0.0, 0.5)
    """
    return 2 * (num_chips - 1) / num_chips * num_bytes / chip.reduced_bytes_per_second
