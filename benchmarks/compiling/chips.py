"""Published figures of each chip, and what follows from them: the roofline, the rate of an all-reduce."""

import dataclasses

from benchmarks.distributing.model import ring_seconds


@dataclasses.dataclass(frozen=True)
class Chip:
    """One kind of TPU. A chip is one device of a `TPUStrategy`; a v4 chip is both of its cores.

    Args:
        topology: str, the compiler's name of the smallest slice; None if it does not compile for this chip.
        accelerator_type: str, Google Cloud's name of the same slice.
        flops_per_second: float, peak in bfloat16.
        bytes_per_second: float, bandwidth of its memory.
        memory_bytes: int.
        reduced_bytes_per_second: float, its share of the published "all-reduce bandwidth per Pod".
        cycles_per_second: float, the clock at which its matrix units reach the peak with 128 x 128
            multiply-adds each per cycle.
        source: str, a URL.
        slices: dict, number of chips -> (chips along one axis, along the other), of a two-axis torus; the
            largest is the whole pod. None: the rate of the pod is assumed for every slice.
    """

    topology: str | None
    accelerator_type: str | None
    flops_per_second: float
    bytes_per_second: float
    memory_bytes: int
    reduced_bytes_per_second: float
    cycles_per_second: float
    source: str
    slices: dict | None = None

    def all_reduce_rate(self, num_chips):
        """Returns the bytes per second that a chip of a slice sends, and receives, in an all-reduce.

        In the whole pod each axis is a ring, and a chip sends both ways along it. A shorter axis lacks the
        link that would close the ring, so the chips at its ends can send only one way, and all the others
        wait for them: half the rate. An axis of one chip contributes nothing.
        """
        if self.slices is None or num_chips == 1:
            return self.reduced_bytes_per_second
        if num_chips not in self.slices:
            raise ValueError(
                f"`num_chips` must be one of {', '.join(map(str, self.slices))}. Received: {num_chips}"
            )
        whole = max(self.slices.values())
        shares = [
            0.0 if chips == 1 else 1.0 if chips == all_chips else 0.5
            for chips, all_chips in zip(self.slices[num_chips], whole, strict=True)
        ]
        return self.reduced_bytes_per_second * sum(shares) / len(shares)

    def num_hops(self, num_chips):
        """Returns how often a part of the gradient is passed on in an all-reduce, axis by axis."""
        if self.slices is None:
            return 2 * (num_chips - 1)
        whole = max(self.slices.values())
        axes = zip(self.slices[num_chips], whole, strict=True)
        return 2 * sum(chips // 2 if chips == all_chips else chips - 1 for chips, all_chips in axes)


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
        slices={
            1: (1, 1),
            4: (2, 2),
            8: (2, 4),
            16: (4, 4),
            32: (4, 8),
            64: (8, 8),
            128: (8, 16),
            256: (16, 16),
        },
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

# The chip at the time of the paper; we do not compile for it.
V3 = Chip(
    topology=None,
    accelerator_type=None,
    flops_per_second=123e12,
    bytes_per_second=900e9,
    memory_bytes=32 * 2**30,
    reduced_bytes_per_second=340e12 / 1024,
    cycles_per_second=_clock(123e12, 4),
    source="https://cloud.google.com/tpu/docs/v3",
)


@dataclasses.dataclass(frozen=True)
class Roofline:
    """The least time that a program can take.

    Args:
        compute_seconds: float, for its operations at the chip's peak.
        memory_seconds: float, for its bytes at the bandwidth of the chip's memory.
    """

    compute_seconds: float
    memory_seconds: float

    @property
    def seconds(self):
        """float, the longer of the two."""
        return max(self.compute_seconds, self.memory_seconds)

    @property
    def bound(self):
        """What limits it: "compute" or "memory"."""
        return "compute" if self.compute_seconds >= self.memory_seconds else "memory"


def roofline(flops, bytes_accessed, chip):
    """Returns the `Roofline` of a program.

    Example:
    >>> roofline(197e9, 819e6, CHIPS["v5e"])
    Roofline(compute_seconds=0.001, memory_seconds=0.001)
    """
    return Roofline(flops / chip.flops_per_second, bytes_accessed / chip.bytes_per_second)


def all_reduce_seconds(num_bytes, num_chips, chip):
    """Returns the least time to sum `num_bytes` over chips; each sends and receives them about twice.

    Example:
    >>> all_reduce_seconds(100e9, 1, CHIPS["v5e"]), all_reduce_seconds(128e9, 256, CHIPS["v5e"])
    (0.0, 1.275)
    """
    return ring_seconds(num_bytes, num_chips, chip.all_reduce_rate(num_chips))
