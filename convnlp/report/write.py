"""Gathers the results of a fine-tuning run in report.json and report.html in its directory."""

import dataclasses
import json

from convnlp.models import model_card
from convnlp.report import data_facts, page
from convnlp.training import storage

_REVIEWED = ("test", "validation")  # the first one that exists


def write(workdir, outcome, results, judged, card):
    """Writes report.json and report.html.

    Args:
        workdir: str, the directory of the run, with its metrics.jsonl.
        outcome: `convnlp.finetuning.outcome.Outcome`.
        results: dict, name of a split -> its scores.
        judged: dict, name of a split -> `convnlp.finetuning.outcome.Judged`, what its scores come from.
        card: dict, entries of the model card.

    Returns:
        dict, the content of report.json.
    """
    task, left_out = outcome.task, outcome.left_out
    name = next(name for name in _REVIEWED if name in results)
    review = judged[name].review(task)
    names = getattr(getattr(task, "label", None), "names", None)
    facts = {
        split: data_facts.of_split(each, outcome.tokenizer, names)
        for split, each in {"train": outcome.train, **outcome.held_out}.items()
    }
    report = {
        "title": f"{task.name.replace('_', ' ').capitalize()}: {card['trained_on']}",
        "scores": {split: _scores(task, values, split == name, review) for split, values in results.items()},
        "reviewed": name,
        "left_out": left_out is not None and left_out.model is None,
        "learned": left_out is not None and left_out.model is not None,
        "warnings": data_facts.warnings(facts, outcome.num_overlapping),
        "sections": [{"kind": section.kind, **dataclasses.asdict(section)} for section in review.sections],
        "curves": _curves(workdir, task),
        "data": facts,
        "cost": _cost(outcome, card),
        "command": card["command"],
    }
    storage.write_json(storage.join(workdir, "report.json"), report)
    storage.write(storage.join(workdir, "report.html"), page.render(report).encode())
    return report


def _scores(task, values, is_reviewed, review):
    number = int(values["num_examples"])
    rows = {}
    for name, value in values.items():
        if name == "num_examples":
            continue
        interval = review.intervals.get(name) if is_reviewed else None
        if name in task.share_metrics and number and 0 <= value <= 1:
            interval = model_card.share_interval(value, number)
        rows[name] = {"value": value, "interval": interval and list(interval)}
    return {"num_examples": number, "values": rows}


def _curves(workdir, task):
    """Returns {name of a metric: [[step, value], ...]} for the losses and what chooses the best step."""
    try:
        lines = storage.read(storage.join(workdir, "metrics.jsonl")).decode().splitlines()
    except storage.ERRORS:
        return {}  # a head that is fitted at once has none
    wanted = ("loss", "valid/loss", task.best[0])
    curves = {}
    for row in map(json.loads, lines):
        for name in dict.fromkeys(wanted):
            if name in row:
                curves.setdefault(name, []).append([row["step"], row[name]])
    return curves


def _cost(outcome, card):
    summary = outcome.summary
    cost = {"parameters": outcome.model.count_params(), "seconds": summary["seconds"]}
    if "cpu_seconds" in summary:
        hours = summary["cpu_seconds"] / 3600
        cost |= {"cpu_hours": hours, "kilowatt_hours": hours * model_card.WATTS_PER_CPU / 1000}
    for name in ("step", "best_step", "tokens"):
        if name in summary:
            cost[name] = summary[name]
    return cost | {"hardware": card["hardware"]}
