"""The CPU time that the cells of docs/paper.json took, and what a model costs by `cost()`."""

import numpy as np

from benchmarks import pages
from benchmarks.comparison import configs
from benchmarks.comparison.cells import KINDS
from benchmarks.questions import long_range
from convnlp.runs import components

_NAMES = {
    "pretrain_trial": "trials of pre-training",
    "pretrain": "pre-trainings",
    "finetune_trial": "trials of fine-tuning",
    "finetune": "fine-tunings",
    "measure": "measurements",
}


def table(found):
    """Returns the number of cells of each kind and their average CPU minutes, as a Markdown table.

    Args:
        found: dict, name of a cell -> {"kind", "settings", "result"}.
    """
    spent = {}
    for cell in found.values():
        by_kind = spent.setdefault(cell["settings"]["mixer"], {})
        by_kind.setdefault(cell["kind"], []).append(cell["result"]["cpu_seconds"])
    kinds = [kind for kind in KINDS if any(kind in by_kind for by_kind in spent.values())]
    lines = [[mixer, *_line(spent[mixer], kinds)] for mixer in sorted(spent)]
    every = {}
    for by_kind in spent.values():
        for kind, seconds in by_kind.items():
            every.setdefault(kind, []).extend(seconds)
    header = ["cells x CPU minutes", *(_NAMES[kind] for kind in kinds), "CPU hours"]
    return pages.table(header, [*lines, ["all", *_line(every, kinds)]])


def by_vocabulary(found):
    """Returns (cells of words, cells of bytes), because the costs of these are not comparable.

    Args:
        found: as for `table`.
    """
    of_bytes = {
        name: cell for name, cell in found.items() if cell["settings"]["tokenizer"] == long_range.VOCABULARY
    }
    return {name: cell for name, cell in found.items() if name not in of_bytes}, of_bytes


def _line(by_kind, kinds):
    means = [(len(by_kind[kind]), np.mean(by_kind[kind])) if kind in by_kind else None for kind in kinds]
    texts = ["" if found is None else f"{found[0]} x {found[1] / 60:.1f}" for found in means]
    return [*texts, f"{sum(map(sum, by_kind.values())) / 3600:.2f}"]


def model_costs(plan, lengths):
    """Returns the cost of each mixer of a plan.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        lengths: sequence of ints, tokens of a text.

    Returns:
        dict, mixer -> length -> dict, see `Seq2SeqBackbone.cost`.
    """
    found = {}
    for mixer in plan.mixers:
        config = configs.finetune_config(plan, mixer, plan.data, plan.learning_rates[0])
        backbone = components.backbone(config, components.tokenizer(config).vocabulary_size(), "float32")
        found[mixer] = {length: backbone.cost(length) for length in lengths}
    return found
