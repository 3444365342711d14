"""What a comparison consists of: the cells of each mixer, ordered so that each finds what it needs."""

import dataclasses
import json
import math
import pathlib

from benchmarks.comparison.cells import Cell
from benchmarks.comparison.tasks import Data
from benchmarks.comparison.variants import Variant

STARTS = ("scratch", "pretrained")
BUDGETS = ("steps", "tokens", "seconds", "flops")
SIZES = ("tiny", "mini")  # those of convnlp.models.SIZES small enough to train many of on a CPU
TRIAL_SEED = 0


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """How each mixer is pre-trained, once for all tasks: by masked LM, or by the objective its row names.

    Args:
        source: str, raw text.
        budget: str, one of `BUDGETS`.
        amount: float, in the unit of the budget.
        learning_rates: tuple of floats. If there are several, each mixer takes the one with the lowest
            held-out loss.
        trial_amount: float, likewise, for the trial of each of several rates.
        batch_size: int, rows.
        length: int, tokens per row.
        split: str, the part of the source to train on. Defaults to "": the file "train" if the source has
            one file per split, otherwise all but its first part.
        validation_split: str, the part on which the held-out loss is computed. Defaults to "": likewise
            "valid", or the first part.
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
                "`validation_split` of a pre-training must be given if and only if `split` is. "
                f"Received: split={self.split!r}, validation_split={self.validation_split!r}"
            )

    @property
    def splits(self):
        """The splits to train on and to judge by; empty if both are parts of one file."""
        if self.split:
            return self.split, self.validation_split
        return ("train", "valid") if "{split}" in self.source else ()

    def settings(self):
        """Returns what affects a result, except rates and trials; splits only if they are given."""
        fields = dataclasses.asdict(self)
        for name in ("split", "validation_split"):
            if not fields[name]:
                del fields[name]
        del fields["learning_rates"], fields["trial_amount"]
        return fields


@dataclasses.dataclass(frozen=True)
class Plan:
    """A comparison on one task. Everything but mixers, seeds and starts is the same for all cells.

    Args:
        mixers: tuple of str, the rows, as `benchmarks.comparison.variants.Variant` writes them.
        seeds: tuple of ints, for weights, dropout and the order of the data.
        data: `Data`.
        tokenizer: str, path of the SentencePiece model.
        size: str, one of `SIZES`.
        batch_size: int, texts.
        budget: str, one of `BUDGETS`: what all fine-tunings get the same amount of.
        amount: float, how much of it.
        learning_rates: tuple of floats, for fine-tuning. If there are several, each mixer and start takes
            the one with the best validation score.
        trial_data: `Data` on which the rates are tried, with one seed; None for `data`.
        trial_amount: float, the budget of the trial of each of several rates; 0 for `amount`.
        trial_batch_size: int, texts per step of these trials; 0 for `batch_size`.
        max_length: int, tokens, for mixers with weights for each position: the longest row of all tasks.
        pretraining: `Pretraining`, or None for none.
        from_scratch: bool, whether models with random weights are fine-tuned too if there is a
            pre-training. Without one, they are the only ones.
        folders: dict, name -> path that replaces `{name}` in sources and paths. It is not part of the
            settings of a cell, so these are the same on every machine.
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
    from_scratch: bool = True
    folders: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.size not in SIZES:
            raise ValueError(f"`--size` must be one of {', '.join(SIZES)}. Received: {self.size!r}")
        _check_budget("budget", self.budget)
        _check_positive("amount", self.amount)
        _check_rates("learning_rates", self.learning_rates)
        if self.budget == "seconds" and not self.data.task_kind.is_measured:
            raise ValueError(
                "`--budget` must not be seconds for a task whose answer is a text. Received: 'seconds'"
            )
        for mixer in self.mixers:
            self.data.task_kind.check_mixer(mixer)

    @property
    def starts(self):
        """What fine-tuning starts from: some of `STARTS`."""
        if not self.pretraining:
            return STARTS[:1]
        return STARTS if self.from_scratch else STARTS[1:]

    @property
    def longest(self):
        """The tokens of the longest row: `max_length`, or what this task needs if that is more."""
        own = [each.length for each in (self.data, self.trial_data, self.pretraining) if each]
        return max(self.max_length, *own)

    def path(self, text):
        """Returns a source or path with its folders filled in.

        Example:
        >>> data = Data("jsonl:{data_dir}/a.{split}.jsonl", "train", "valid", "", "test", (), 32)
        >>> Plan(("fourier",), (0,), data, "spm.model", folders={"data_dir": "DATA"}).path(data.source)
        'jsonl:DATA/a.{split}.jsonl'
        """
        for name, folder in self.folders.items():
            text = text.replace(f"{{{name}}}", str(folder))
        return text

    def cells(self, mixer):
        """Returns the `Cell`s of a mixer, ordered so that each finds what it needs."""
        of_all = {"size": self.size, "max_length": self.longest, "tokenizer": self.tokenizer}
        pretrained = {"mixer": mixer, **of_all}
        # Rows that differ only in their pre-training share the cells that start from scratch.
        model = {"mixer": str(Variant.parse(mixer).without("pretraining")), **of_all}
        shape = {"length": self.data.length, "batch_size": self.batch_size}
        measure = Cell("measure", {**model, **shape})
        pretraining = self._pretraining_cells(pretrained)
        cells = [*([measure] if self.data.task_kind.is_measured else []), *pretraining]
        budget = {"batch_size": self.batch_size, **_budget(self.budget, measure)}
        rates = {}  # per start, the settings that determine the rate
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
        # Rows that differ only in what is on top of the encoder share the encoder.
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
        """Returns the plan as nested dicts."""
        return dataclasses.asdict(self)

    def write(self, path):
        """Writes the plan for the processes that carry it out."""
        path.write_text(json.dumps(self.as_dict(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path):
        """Returns the plan that `write` has written."""
        fields = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        for name, kind in (("data", Data), ("trial_data", Data), ("pretraining", Pretraining)):
            fields[name] = fields[name] and kind(**_tuples(fields[name]))
        return cls(**_tuples(fields))


def _budget(budget, measure):
    """Returns the settings of a budget. One in seconds depends on the measurement of a step."""
    return {"budget": budget} | ({"measure": measure.name} if budget == "seconds" else {})


def _rate(rates, trials):
    """Returns the settings that determine the rate: the only one, or the trials by which it is chosen."""
    return {"learning_rate": rates[0]} if len(rates) == 1 else {"trials": [cell.name for cell in trials]}


def _tuples(fields):
    """Turns the lists of JSON, which has no tuples, into tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _check_budget(name, value):
    if value not in BUDGETS:
        raise ValueError(f"`--{name}` must be one of {', '.join(BUDGETS)}. Received: {value!r}")


def _check_positive(name, value):
    if not 0 < value < math.inf:
        raise ValueError(f"`--{name}` must be a finite number > 0. Received: {value}")


def _check_rates(name, values):
    if not values or not all(0 < value < math.inf for value in values) or len(set(values)) < len(values):
        raise ValueError(f"`--{name}` must be different finite numbers > 0. Received: {list(values)}")


def steps_of(budget, amount, cost, per_call):
    """Returns how many steps a budget pays for: a multiple of `per_call`, and at least one call.

    Args:
        budget: str, one of `BUDGETS`.
        amount: float, in steps, tokens, seconds or floating-point operations.
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
    """Returns the operations of a training step: two per multiply-add forward, twice as many backward."""
    return 2 * 3 * multiply_adds * batch_size
