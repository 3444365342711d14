"""What a comparison consists of: for each mixer its cells, in an order in which each finds what it needs."""

import dataclasses
import json
import pathlib

from benchmarks.comparison.cells import Cell
from benchmarks.comparison.tasks import Data
from benchmarks.comparison.variants import Variant

STARTS = ("scratch", "pretrained")
BUDGETS = ("steps", "tokens", "seconds", "flops")
SIZES = ("tiny", "mini")  # of convnlp.models.SIZES, those that a CPU trains many of
TRIAL_SEED = 0


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """How each mixer is pre-trained, once for all tasks: by masked LM, or what its row names.

    Args:
        source: str, raw text.
        budget: str, of `BUDGETS`.
        amount: float, of it.
        learning_rates: tuple of floats; of several, each mixer takes that of the lowest held-out loss.
        trial_amount: float, of the budget, for each of several rates.
        batch_size: int, rows.
        length: int, tokens of a row.
        split: str, of the source, to train on. Defaults to "": the file "train" where the source has one of
            each split, otherwise all but the first of it.
        validation_split: str, to take the held-out loss of. Defaults to "": likewise "valid", or the first.
    """

    source: str
    budget: str = "tokens"
    amount: float = 10e6
    learning_rates: tuple = (2e-3,)
    trial_amount: float = 2e6
    batch_size: int = 32
    length: int = 128
    split: str = ""
    validation_split: str = ""

    def __post_init__(self):
        _check_budget("pretrain_budget", self.budget)
        _check_positive("pretrain_amount", self.amount)
        _check_positive("pretrain_trial_amount", self.trial_amount)
        _check_rates("pretrain_learning_rates", self.learning_rates)
        if bool(self.split) != bool(self.validation_split):
            raise ValueError(
                "`validation_split` of a pre-training must be given where `split` is, and only there. "
                f"Received: split={self.split!r}, validation_split={self.validation_split!r}"
            )

    def settings(self):
        """What decides a result, but for rates and trials; splits only where they are given."""
        fields = dataclasses.asdict(self)
        for name in ("split", "validation_split"):
            if not fields[name]:
                del fields[name]
        del fields["learning_rates"], fields["trial_amount"]
        return fields


@dataclasses.dataclass(frozen=True)
class Plan:
    """A comparison on a task. All but mixers, seeds and starts is the same for all cells.

    Args:
        mixers: tuple of str, the rows, as `benchmarks.comparison.variants.Variant` writes them.
        seeds: tuple of ints: of weights, dropout and the order of the data.
        data: `Data`.
        tokenizer: str, path of the SentencePiece model.
        size: str, of `SIZES`.
        batch_size: int, texts.
        budget: str, of `BUDGETS`: what all fine-tunings have the same amount of.
        amount: float, of it.
        learning_rates: tuple of floats, of fine-tuning; of several, each mixer and start takes that of the
            best validation score.
        trial_data: `Data` that this is looked at on, with one seed; None for `data`.
        trial_amount: float, of the budget, for each of several rates; 0 for `amount`.
        trial_batch_size: int, texts of a step of these; 0 for `batch_size`.
        max_length: int, of mixers with weights for each position; the longest of all tasks.
        pretraining: `Pretraining`, or None for none.
        folders: dict, name -> path: what stands for `{name}` in sources and paths. No part of the settings of
            a cell, which are so the same on every machine.
    """

    mixers: tuple
    seeds: tuple
    data: Data
    tokenizer: str
    size: str = "mini"
    batch_size: int = 32
    budget: str = "steps"
    amount: float = 600
    learning_rates: tuple = (5e-4,)
    trial_data: Data | None = None
    trial_amount: float = 0
    trial_batch_size: int = 0
    max_length: int = 0
    pretraining: Pretraining | None = None
    folders: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.size not in SIZES:
            raise ValueError(f"`--size` must be one of {', '.join(SIZES)}. Received: {self.size!r}")
        _check_budget("budget", self.budget)
        _check_positive("amount", self.amount)
        _check_rates("learning_rates", self.learning_rates)
        if self.budget == "seconds" and not self.data.is_classification:
            raise ValueError(
                "`--budget` must not be seconds for a task whose answer is a text. Received: 'seconds'"
            )
        if self.data.is_text_to_text:
            self._check_writers()

    def _check_writers(self):
        for mixer in self.mixers:
            if not Variant.parse(mixer).can_write():
                raise ValueError(
                    "`--mixers` must be of those that can decode, and keep several examples of a row apart, "
                    f"for a task whose answer is a text. Received: {mixer!r}"
                )

    @property
    def starts(self):
        """From what fine-tuning starts."""
        return STARTS if self.pretraining else STARTS[:1]

    @property
    def longest(self):
        """Tokens of the longest row of all: `max_length`, or what this task needs."""
        own = [each.length for each in (self.data, self.trial_data, self.pretraining) if each]
        return max(self.max_length, *own)

    def path(self, text):
        """A source or path with its folders filled in.

        Example:
        >>> data = Data("jsonl:{data_dir}/a.{split}.jsonl", "train", "valid", "", "test", (), 32)
        >>> Plan(("fourier",), (0,), data, "spm.model", folders={"data_dir": "DATA"}).path(data.source)
        'jsonl:DATA/a.{split}.jsonl'
        """
        for name, folder in self.folders.items():
            text = text.replace(f"{{{name}}}", str(folder))
        return text

    def cells(self, mixer):
        """The `Cell`s of a mixer, in an order in which each finds what it needs."""
        of_all = {"size": self.size, "max_length": self.longest, "tokenizer": self.tokenizer}
        pretrained = {"mixer": mixer, **of_all}
        # Rows that differ in their pre-training share what begins without one.
        model = {"mixer": str(Variant.parse(mixer).without("pretraining")), **of_all}
        shape = {"length": self.data.length, "batch_size": self.batch_size}
        measure = Cell("measure", {**model, **shape})
        pretraining = self._pretraining_cells(pretrained)
        # What is measured is a classifier.
        cells = [*([measure] if self.data.is_classification else []), *pretraining]
        budget = {"batch_size": self.batch_size, **_budget(self.budget, measure)}
        rates = {}  # per start, what decides on the rate
        for start in self.starts:
            origin = {**(pretrained if start == "pretrained" else model), "start": start}
            if start == "pretrained":
                origin["preset"] = pretraining[-1].name
            data = (self.trial_data or self.data).settings()
            amount = {
                "amount": self.trial_amount or self.amount,
                "batch_size": self.trial_batch_size or self.batch_size,
                "seed": TRIAL_SEED,
            }
            trials = [
                Cell("finetune_trial", {**budget, **origin, **data, **amount, "learning_rate": rate})
                for rate in self.learning_rates
            ]
            rates[start] = {**origin, **_rate(self.learning_rates, trials)}
            cells += trials if len(trials) > 1 else []
        settings = {**budget, **self.data.settings(), "amount": self.amount}
        cells += [
            Cell("finetune", {**settings, **rates[start], "seed": seed})
            for seed in self.seeds
            for start in self.starts
        ]
        return cells

    def _pretraining_cells(self, model):
        if not self.pretraining:
            return []
        settings = self.pretraining.settings()
        rates, trial_amount = self.pretraining.learning_rates, self.pretraining.trial_amount
        # Rows that differ in what stands on the encoder alone share it.
        model = {**model, "mixer": str(Variant.parse(model["mixer"]).without("task"))}
        shape = {name: settings[name] for name in ("length", "batch_size")}
        measure = Cell("measure", {**model, **shape})
        settings |= _budget(settings["budget"], measure)
        trials = [
            Cell("pretrain_trial", {**model, **settings, "amount": trial_amount, "learning_rate": rate})
            for rate in rates
        ]
        pretrain = Cell("pretrain", {**model, **settings, **_rate(rates, trials)})
        measures = [measure] if settings["budget"] == "seconds" else []
        return [*measures, *(trials if len(trials) > 1 else []), pretrain]

    def as_dict(self):
        """The plan as nested dicts."""
        return dataclasses.asdict(self)

    def write(self, path):
        """Writes the plan for the processes that carry it out."""
        path.write_text(json.dumps(self.as_dict(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path):
        """The plan that `write` has written."""
        fields = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        for name, kind in (("data", Data), ("trial_data", Data), ("pretraining", Pretraining)):
            fields[name] = fields[name] and kind(**_tuples(fields[name]))
        return cls(**_tuples(fields))


def _budget(budget, measure):
    """In seconds the number of steps comes from a measurement, and so belongs to it."""
    return {"budget": budget} | ({"measure": measure.name} if budget == "seconds" else {})


def _rate(rates, trials):
    """The settings that decide on a rate: the only one, or the trials by which it is chosen."""
    return {"learning_rate": rates[0]} if len(rates) == 1 else {"trials": [cell.name for cell in trials]}


def _tuples(fields):
    """JSON has lists alone."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _check_budget(name, value):
    if value not in BUDGETS:
        raise ValueError(f"`--{name}` must be one of {', '.join(BUDGETS)}. Received: {value!r}")


def _check_positive(name, value):
    if value <= 0:
        raise ValueError(f"`--{name}` must be > 0. Received: {value}")


def _check_rates(name, values):
    if not values or min(values) <= 0 or len(set(values)) < len(values):
        raise ValueError(f"`--{name}` must be different numbers > 0. Received: {list(values)}")


def steps_of(budget, amount, cost, per_call):
    """How many steps a budget pays for, a multiple of `per_call` and at least that.

    Args:
        budget: str, of `BUDGETS`.
        amount: float, of steps, tokens, seconds or floating-point operations.
        cost: dict, what one step takes: {"steps": 1, "tokens": ..., "seconds": ..., "flops": ...}.
        per_call: int.

    Returns:
        int.

    Example:
    >>> steps_of("flops", 1e9, {"steps": 1, "seconds": 0.1, "flops": 3e6}, 10)
    330
    """
    return max(1, int(amount / cost[budget] / per_call)) * per_call


def training_flops(multiply_adds, batch_size):
    """Floating-point operations of a training step: two a multiply-add, and twice as many backwards."""
    return 2 * 3 * multiply_adds * batch_size
