"""Predicts a step on more machines or chips than are available: computation, network, the paper's run."""

import dataclasses
import gc
import math
from collections.abc import Callable

from benchmarks import tiny_run
from benchmarks.compiling.chips import CHIPS, roofline
from benchmarks.compiling.step import VOCABULARY_SIZE, multiply_adds
from benchmarks.cost import PAPER_RUN
from benchmarks.distributing.model import (
    Computation,
    line_through,
    ring_seconds,
    step_seconds,
    strong_efficiency,
    weak_efficiency,
)
from convnlp import pretrain
from convnlp.configs import pretrain_c4, pretrain_encoder
from convnlp.runs import components

MIXER, SIZES = "dynamic_conv", ("mini", "base")
ROWS = 8  # of each worker in weak scaling, and of each of the 16 chips of the paper's run
INPUT_LENGTH = 512
BYTES_A_GRADIENT = 4  # float32, also in mixed precision
REDUCTIONS = 2  # per step: all gradients in one vector, and the few numbers of the metrics
# The share of TCP payload over IPv4 in a frame of 1,538 bytes, including gap and preamble.
PAYLOAD_SHARE = 1460 / 1538
# The minimum from one application to another by TCP over 10 Gbit/s: Larsen et al., 2007,
# https://doi.org/10.1109/SBAC-PAD.2007.33.
ETHERNET_HOP_SECONDS = 10e-6
# "Typically": Austin et al., 2025, https://jax-ml.github.io/scaling-book/sharding.
ICI_HOP_SECONDS = 1e-6
_SECONDS_A_DAY = 86400
_BY_PARAMETERS = ("optimizer", "clipping")  # parts of a compiled step that do not depend on its rows


@dataclasses.dataclass(frozen=True)
class Network:
    """How workers exchange gradients.

    Args:
        name: str.
        rate: function of the number of workers that returns the bytes per second each of them sends.
        num_hops: function of the number of workers that returns an int.
        hop_seconds: float.
    """

    name: str
    rate: Callable
    num_hops: Callable
    hop_seconds: float

    def exchange_seconds(self, num_bytes, num_workers):
        """Returns the time of a step's all-reduces, a float."""
        if num_workers == 1:
            return 0.0
        hops = self.num_hops(num_workers)
        rate = self.rate(num_workers)
        return ring_seconds(num_bytes, num_workers, rate, self.hop_seconds, hops, REDUCTIONS)


def ethernet(gigabits):
    """Returns a switched `Network` in which every machine has its own port with so many Gbit/s."""
    return _switched(f"{gigabits} Gbit/s", gigabits * 1e9 / 8 * PAYLOAD_SHARE)


def as_measured(bytes_per_second, gigabits):
    """Returns a `Network` at the rate measured on one machine, limited to that of so many Gbit/s."""
    return _switched(
        f"as measured, over {gigabits} Gbit/s", min(bytes_per_second, ethernet(gigabits).rate(2))
    )


def _switched(name, rate):
    return Network(name, lambda _: rate, lambda n: 2 * (n - 1), ETHERNET_HOP_SECONDS)


def interconnect(chip):
    """Returns the `Network` of a TPU of `benchmarks.compiling.chips`."""
    return Network("ICI", chip.all_reduce_rate, chip.num_hops, ICI_HOP_SECONDS)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A step on several workers.

    The first of each pair of values is without any overlap of exchange and computation; the second has as
    much overlap as the backward pass allows.

    Args:
        num_workers: int.
        rows: int, of each worker.
        compute_seconds: float.
        hidden_seconds: float, how much of the exchange can be hidden.
        exchange_seconds: float.
        alone_seconds: float, of one worker with as many rows (weak) or with all of them (strong).
        is_weak: bool.
    """

    num_workers: int
    rows: int
    compute_seconds: float
    hidden_seconds: float
    exchange_seconds: float
    alone_seconds: float
    is_weak: bool

    @property
    def seconds(self):
        """(the longer, the shorter time) of a step."""
        return tuple(
            step_seconds(self.compute_seconds, self.exchange_seconds, hidden)
            for hidden in (0.0, self.hidden_seconds)
        )

    @property
    def efficiencies(self):
        """(the lower, the higher efficiency)."""
        if self.is_weak:
            return tuple(weak_efficiency(self.alone_seconds, each) for each in self.seconds)
        return tuple(strong_efficiency(self.alone_seconds, each, self.num_workers) for each in self.seconds)

    @property
    def days(self):
        """(the longer, the shorter time) of as many steps as the paper's run has."""
        return tuple(each * PAPER_RUN["steps"] / _SECONDS_A_DAY for each in self.seconds)


def weak(computation, network, num_bytes, num_workers):
    """Returns the `Prediction` for `ROWS` rows per worker."""
    return _prediction(computation, network, num_bytes, num_workers, ROWS, None)


def strong(computation, network, num_bytes, num_workers):
    """Returns the `Prediction` for the rows of the paper's run, None if these cannot be shared equally."""
    rows, rest = divmod(PAPER_RUN["batch_size"], num_workers)
    if rest:
        return None
    return _prediction(computation, network, num_bytes, num_workers, rows, PAPER_RUN["batch_size"])


def _prediction(computation, network, num_bytes, num_workers, rows, all_rows):
    """Returns the `Prediction` for `rows` per worker and `all_rows` in total, None in weak scaling."""
    return Prediction(
        num_workers,
        rows,
        computation.seconds(rows),
        computation.backward_seconds(rows),
        network.exchange_seconds(num_bytes, num_workers),
        computation.seconds(all_rows or rows),
        is_weak=all_rows is None,
    )


def models():
    """Returns the sizes of the models: those of the paper's recipe, and the one that is measured.

    Returns:
        dict, "mini", "base" and "measured" -> dict of "parameters", and "multiply_adds" of a row forward.
    """
    measured = pretrain_encoder.get_config(MIXER)
    measured.tokenizer = tiny_run.example_fields()["tokenizer"]
    found = {"measured": _facts(measured, components.tokenizer(measured).vocabulary_size())}
    for size in SIZES:
        config = pretrain_c4.get_config(f"{MIXER},{size}")
        config.data.input_length = INPUT_LENGTH
        found[size] = _facts(config, VOCABULARY_SIZE)
        gc.collect()  # a base model takes a gigabyte
    return found


def _facts(config, vocabulary_size):
    backbone = components.backbone(config, vocabulary_size, "float32")
    objectives = pretrain.objectives_of(config)
    return {"parameters": backbone.count_params(), "multiply_adds": multiply_adds(backbone, objectives)}


def of_cpu(samples, models, size):
    """Returns the `Computation` of a machine with all its cores, from the measured steps of one worker.

    Another model is assumed to reach as many multiply-adds per second, and its optimizer as many
    parameters.

    Args:
        samples: list of (rows, seconds) of the measured model.
        models: dict, see `models`.
        size: str, one of `SIZES`.
    """
    return line_through(samples).scaled(*_ratios(models[size], models["measured"]))


def of_record(record):
    """Returns the `Computation` of a chip, from what its compiler expects of a step (docs/tpu.json).

    A record is for one number of rows. For other numbers, its clipping and its optimizer are assumed to
    take the same time, and everything else to grow with the rows.
    """
    cell, chip = record["cell"], CHIPS[record["cell"]["chip"]]
    least = roofline(record["flops"], record["moved_bytes"], chip)
    seconds = max(record["cycles"] / chip.cycles_per_second, least.seconds)
    by_part = record["cycles_by_part"]
    fixed = seconds * sum(by_part.get(part, 0) for part in _BY_PARAMETERS) / record["cycles"]
    return Computation(fixed, (seconds - fixed) / cell["batch_size"])


def at_the_peak(model, chip):
    """Returns a `Computation` at the chip's published peak, with an optimizer that takes no time."""
    return Computation(0.0, 2 * 3 * model["multiply_adds"] / chip.flops_per_second)


def find_record(records, size, chip_name):
    """Returns the compiled step of a size with about `ROWS` rows, the closest; None if there is none.

    Args:
        records: dict, name -> record, as docs/tpu.json holds them.
        size: str.
        chip_name: str.
    """
    wanted = {"chip": chip_name, "size": size, "mixer": MIXER, "input_length": INPUT_LENGTH}
    found = [
        record
        for record in records.values()
        if "refusal" not in record and wanted.items() <= record["cell"].items()
    ]
    return min(found, key=lambda each: abs(math.log(each["cell"]["batch_size"] / ROWS)), default=None)


def of_chip(records, models, size, chip_name):
    """Returns the computations of a size on a chip: a dict, where each comes from -> `Computation`.

    Args:
        records: dict, see `find_record`.
        models: dict, see `models`.
        size: str, one of `SIZES`.
        chip_name: str, a key of `CHIPS`.
    """
    record = find_record(records, size, chip_name)
    if record is not None:
        rows = record["cell"]["batch_size"]
        return {f"the compiler's cycles for {rows} x {INPUT_LENGTH} ({size})": of_record(record)}
    found = {"all operations at the published peak": at_the_peak(models[size], CHIPS[chip_name])}
    for other in SIZES:
        record = find_record(records, other, chip_name)
        if record is not None:
            scaled = of_record(record).scaled(*_ratios(models[size], models[other]))
            found = {f"scaled from the compiler's cycles for {other}": scaled, **found}
    return found


def of_chips(records, models, chip_name):
    """Returns `of_chip` for all `SIZES`: size -> list of dicts, "source" and fields of `Computation`."""
    return {
        size: [
            {"source": source, **dataclasses.asdict(computation)}
            for source, computation in of_chip(records, models, size, chip_name).items()
        ]
        for size in SIZES
    }


def _ratios(model, other):
    return tuple(model[key] / other[key] for key in ("parameters", "multiply_adds"))
