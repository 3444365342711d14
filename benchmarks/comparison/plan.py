"""What a comparison consists of: cells, each with all the settings that decide its result."""

import dataclasses
import hashlib
import json
import pathlib
import re

KINDS = ("measure", "pretrain", "finetune")
STARTS = ("scratch", "pretrained")
BUDGETS = ("steps", "seconds", "flops")
SIZES = ("tiny", "mini")  # of convnlp.models.SIZES, those that a CPU trains many of
# Public sets as JSON-lines in --data_dir, as for benchmarks.first_results.
TASKS = {
    "trec6": {
        "label_names": ("abbreviation", "description", "entity", "human", "location", "number"),
        "length": 32,
        "split": "train[10%:]",
        "validation_split": "train[:10%]",
    },
    "sst2": {
        "label_names": ("negative", "positive"),
        "length": 48,
        "split": "train",
        "validation_split": "valid",
    },
}


@dataclasses.dataclass(frozen=True)
class Data:
    """A classification task.

    Args:
        source: str, see `convnlp.data.sources`.
        split: str, to train on.
        validation_split: str, to choose the best step by.
        test_source: str, which the scores are of.
        test_split: str.
        label_names: tuple of str; empty for a source that has its own.
        length: int, tokens of a text; longer ones are cut.
        text_field: str.
        label_field: str.
    """

    source: str
    split: str
    validation_split: str
    test_source: str
    test_split: str
    label_names: tuple
    length: int
    text_field: str = "text"
    label_field: str = "label"


def named_task(name, data_dir):
    """The `Data` of a name in `TASKS`.

    Raises:
        ValueError: if there is no such task.
    """
    if name not in TASKS:
        raise ValueError(f"`--task` must be one of {', '.join(TASKS)}, or --source given. Received: {name!r}")
    source = f"jsonl:{data_dir}/classification/{name}.{{split}}.jsonl.gz"
    return Data(source=source, test_source=source, test_split="test", **TASKS[name])


@dataclasses.dataclass(frozen=True)
class Plan:
    """A comparison. Everything but the mixers, the seeds and the starts is the same for all cells.

    Args:
        mixers: tuple of str, the rows, as `benchmarks.comparison.variants.Variant` writes them.
        seeds: tuple of ints: of weights, dropout and the order of the data.
        data: `Data`.
        tokenizer: str, path of the SentencePiece model.
        size: str, of `SIZES`.
        batch_size: int.
        budget: str, of `BUDGETS`: what all fine-tunings have the same amount of.
        amount: float, of it.
        pretrain_source: str; "" for none.
        pretrain_amount: float, of the budget's unit, for each pre-training.
        learning_rate: float, of fine-tuning.
        pretrain_learning_rate: float.
    """

    mixers: tuple
    seeds: tuple
    data: Data
    tokenizer: str
    size: str = "mini"
    batch_size: int = 32
    budget: str = "steps"
    amount: float = 600
    pretrain_source: str = ""
    pretrain_amount: float = 0
    learning_rate: float = 5e-4
    pretrain_learning_rate: float = 1.5e-3

    def __post_init__(self):
        if self.size not in SIZES:
            raise ValueError(f"`--size` must be one of {', '.join(SIZES)}. Received: {self.size!r}")
        if self.budget not in BUDGETS:
            raise ValueError(f"`--budget` must be one of {', '.join(BUDGETS)}. Received: {self.budget!r}")
        if self.amount <= 0:
            raise ValueError(f"`--amount` must be > 0. Received: {self.amount}")
        if self.pretrain_source and self.pretrain_amount <= 0:
            raise ValueError(f"`--pretrain_amount` must be > 0. Received: {self.pretrain_amount}")

    @property
    def starts(self):
        """From what fine-tuning starts."""
        return STARTS if self.pretrain_source else STARTS[:1]

    def cells(self, mixer):
        """The `Cell`s of a mixer, in an order in which each finds what it needs."""
        model = {"mixer": mixer, "size": self.size, "length": self.data.length, "tokenizer": self.tokenizer}
        model |= {"batch_size": self.batch_size}
        measure = Cell("measure", model)
        cells, pretrained = [measure], None
        # In seconds the number of steps comes from the measurement, and so belongs to it.
        budget = {"budget": self.budget} | ({"measure": measure.name} if self.budget == "seconds" else {})
        if self.pretrain_source:
            settings = {"amount": self.pretrain_amount, "learning_rate": self.pretrain_learning_rate}
            settings |= {"source": self.pretrain_source}
            pretrained = Cell("pretrain", {**model, **budget, **settings})
            cells.append(pretrained)
        for seed in self.seeds:
            for start in self.starts:
                settings = {"seed": seed, "start": start, **dataclasses.asdict(self.data)}
                settings |= {"amount": self.amount, "learning_rate": self.learning_rate}
                if start == "pretrained":
                    settings["preset"] = pretrained.name
                cells.append(Cell("finetune", {**model, **budget, **settings}))
        return cells

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
        data = {**fields["data"], "label_names": tuple(fields["data"]["label_names"])}
        fields |= {"mixers": tuple(fields["mixers"]), "seeds": tuple(fields["seeds"]), "data": Data(**data)}
        return cls(**fields)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One thing to compute, once.

    Args:
        kind: str, of `KINDS`: speed and memory of a model, a pre-training, a fine-tuning with its scores.
        settings: dict of JSON values: all that decides the result. Another value is another cell.
    """

    kind: str
    settings: dict

    @property
    def name(self):
        """The cell's directory: what it is, to be read, and a hash of all its settings."""
        text = json.dumps([self.kind, self.settings], sort_keys=True)
        words = [self.kind, file_name(self.settings["mixer"])]
        if self.kind == "finetune":
            words += [self.settings["start"], str(self.settings["seed"])]
        return "-".join([*words, hashlib.sha256(text.encode()).hexdigest()[:10]])

    def result(self, workdir):
        """The cell's result, or None if it has not been computed."""
        path = self.directory(workdir) / "result.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def directory(self, workdir):
        """pathlib.Path of the cell's directory."""
        return pathlib.Path(workdir) / "cells" / self.name


def file_name(row):
    """A row's name as part of a file's.

    Example:
    >>> file_name("synthesizer:modes=dense+random")
    'synthesizer-modes-dense+random'
    """
    return re.sub(r"[^\w.+]+", "-", row)


def steps_of(budget, amount, cost, per_call):
    """How many steps a budget pays for, a multiple of `per_call` and at least that.

    Args:
        budget: str, of `BUDGETS`.
        amount: float, of steps, seconds or floating-point operations.
        cost: dict, what one step takes: {"steps": 1, "seconds": ..., "flops": ...}.
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
