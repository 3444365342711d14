"""What a step takes on more machines or chips than there are here: computation, network, the paper's run."""

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
from convnlp import components, pretrain
from convnlp.configs import pretrain_c4, pretrain_encoder

MIXER, SIZES = "dynamic_conv", ("mini", "base")
ROWS = 8  # of every worker in weak scaling, and of the paper's run on its 16 chips
INPUT_LENGTH = 512
BYTES_A_GRADIENT = 4  # float32, also in mixed precision
REDUCTIONS = 2  # in a step: all gradients in one vector, and the few numbers of the metrics
# What of a frame of 1,538 bytes, gap and preamble among them, is payload of TCP over IPv4.
PAYLOAD_SHARE = 1460 / 1538
# From one application to another over TCP and 10 Gbit/s, at least: Larsen et al., 2007,
# https://doi.org/10.1109/SBAC-PAD.2007.33.
ETHERNET_HOP_SECONDS = 10e-6
# "Typically": Austin et al., 2025, https://jax-ml.github.io/scaling-book/sharding.
ICI_HOP_SECONDS = 1e-6
_SECONDS_A_DAY = 86400
_BY_PARAMETERS = ("optimizer", "clipping")  # parts of a compiled step that do not depend on its rows


@dataclasses.dataclass(frozen=True)
class Network:
    """How workers exchange.

    Args:
        name: str.
        rate: function of the number of workers -> bytes per second that each sends.
        num_hops: function of the number of workers -> int.
        hop_seconds: float.
    """

    name: str
    rate: Callable
    num_hops: Callable
    hop_seconds: float

    def exchange_seconds(self, num_bytes, num_workers):
        """float, of the all-reduces of a step."""
        if num_workers == 1:
            return 0.0
        hops = self.num_hops(num_workers)
        rate = self.rate(num_workers)
        return ring_seconds(num_bytes, num_workers, rate, self.hop_seconds, hops, REDUCTIONS)


def ethernet(gigabits):
    """A switched network on which every machine has a port of its own, of so many Gbit/s."""
    return _switched(f"{gigabits} Gbit/s", gigabits * 1e9 / 8 * PAYLOAD_SHARE)


def as_measured(bytes_per_second, gigabits):
    """What was measured without a network, on one that does not slow it down, or slows it to its own rate."""
    return _switched(
        f"as measured, over {gigabits} Gbit/s", min(bytes_per_second, ethernet(gigabits).rate(2))
    )


def _switched(name, rate):
    return Network(name, lambda _: rate, lambda n: 2 * (n - 1), ETHERNET_HOP_SECONDS)


def interconnect(chip):
    """That of a TPU, of `benchmarks.compiling.chips`."""
    return Network("ICI", chip.all_reduce_rate, chip.num_hops, ICI_HOP_SECONDS)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A step on some workers.

    Of each pair of values the first is without any overlap of exchange and computation, the second with as
    much as the backward pass can hide.

    Args:
        num_workers: int.
        rows: int, of each worker.
        compute_seconds: float.
        hidden_seconds: float, what can be hidden of the exchange.
        exchange_seconds: float.
        alone_seconds: float, of one worker with as many rows (weak) or with all (strong).
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
        """(the longer time, the shorter one) of a step."""
        return tuple(
            step_seconds(self.compute_seconds, self.exchange_seconds, hidden)
            for hidden in (0.0, self.hidden_seconds)
        )

    @property
    def efficiencies(self):
        """(the lower, the higher one)."""
        if self.is_weak:
            return tuple(weak_efficiency(self.alone_seconds, each) for each in self.seconds)
        return tuple(strong_efficiency(self.alone_seconds, each, self.num_workers) for each in self.seconds)

    @property
    def days(self):
        """(the longer, the shorter time) of as many steps as the paper's run has."""
        return tuple(each * PAPER_RUN["steps"] / _SECONDS_A_DAY for each in self.seconds)


def weak(computation, network, num_bytes, num_workers):
    """`Prediction` for `ROWS` rows a worker."""
    return _prediction(computation, network, num_bytes, num_workers, ROWS, None)


def strong(computation, network, num_bytes, num_workers):
    """`Prediction` for the rows of the paper's run, None where there are more workers than rows."""
    rows, rest = divmod(PAPER_RUN["batch_size"], num_workers)
    if rest:
        return None
    return _prediction(computation, network, num_bytes, num_workers, rows, PAPER_RUN["batch_size"])


def _prediction(computation, network, num_bytes, num_workers, rows, all_rows):
    """`Prediction` for `rows` of each worker; `all_rows`, of all together, is None in weak scaling."""
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
    """What the models are: those of the paper's recipe, and the one that is measured.

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
        gc.collect()  # a base model is a gigabyte
    return found


def _facts(config, vocabulary_size):
    backbone = components.backbone(config, vocabulary_size, "float32")
    objectives = pretrain.objectives_of(config)
    return {"parameters": backbone.count_params(), "multiply_adds": multiply_adds(backbone, objectives)}


def of_cpu(samples, models, size):
    """`Computation` of a machine with all of its cores, from the steps that were measured on one.

    A step of another model is taken to reach as many multiply-adds per second, and its optimizer as many
    parameters.

    Args:
        samples: list of (rows, seconds) of the measured model.
        models: dict, see `models`.
        size: str of `SIZES`.
    """
    return line_through(samples).scaled(*_ratios(models[size], models["measured"]))


def of_record(record):
    """`Computation` of a chip, from what its compiler expects of a step (docs/tpu.json).

    A record has one number of rows; its clipping and its optimizer are taken to stay as they are for others,
    and all else to grow with them.
    """
    cell, chip = record["cell"], CHIPS[record["cell"]["chip"]]
    least = roofline(record["flops"], record["moved_bytes"], chip)
    seconds = max(record["cycles"] / chip.cycles_per_second, least.seconds)
    by_part = record["cycles_by_part"]
    fixed = seconds * sum(by_part.get(part, 0) for part in _BY_PARAMETERS) / record["cycles"]
    return Computation(fixed, (seconds - fixed) / cell["batch_size"])


def at_the_peak(model, chip):
    """`Computation` with all operations at the chip's published peak, and an optimizer that takes no time."""
    return Computation(0.0, 2 * 3 * model["multiply_adds"] / chip.flops_per_second)


def find_record(records, size, chip_name):
    """The compiled step of a size whose rows are nearest to `ROWS`, None if there is none.

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
    """Computations of a size on a chip: a dict, where each comes from -> `Computation`.

    Args:
        records: dict, see `find_record`.
        models: dict, see `models`.
        size: str of `SIZES`.
        chip_name: str of `CHIPS`.
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
    """`of_chip` of all `SIZES`: a dict, size -> list of dicts, "source" and the fields of a `Computation`."""
    return {
        size: [
            {"source": source, **dataclasses.asdict(computation)}
            for source, computation in of_chip(records, models, size, chip_name).items()
        ]
        for size in SIZES
    }


def _ratios(model, other):
    return tuple(model[key] / other[key] for key in ("parameters", "multiply_adds"))
