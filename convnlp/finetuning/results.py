"""Scores what a fine-tuning has come to, and writes it into the directory of the run."""

from convnlp import report
from convnlp.finetuning import mistakes
from convnlp.runs import run_preset
from convnlp.training import storage


def save(config, workdir, outcome):
    """Scores a model, and writes its preset with a model card, results.json and the report of the run.

    Args:
        config: the experiment.
        workdir: directory of the run.
        outcome: `Outcome`.
    """
    task, summary, size = outcome.task, outcome.summary, config.train.batch_size
    judged = {name: outcome.judged(name, size) for name in outcome.judged_names}
    results = {name: each.scores(task) for name, each in judged.items()}
    card = run_preset.card(config, summary, outcome.model.backbone, task.decoder_length)
    card["objective"] = task.name
    named = [(f"{s} {name}", name, v, values) for s, values in results.items() for name, v in values.items()]
    card["scores"] = {
        title: {"value": value, "num_examples": int(values["num_examples"])}
        if name in task.share_metrics and 0 <= value <= 1 and values["num_examples"] >= 1
        else value
        for title, name, value, values in named
    }
    run_preset.save(outcome.model, workdir, card)
    storage.write_json(storage.join(workdir, "results.json"), {**summary, **results})
    for title, name, value, _ in named:
        print(f"{title}: {value:.0f}" if name == "num_examples" else f"{title}: {value:.4f}")
    report.write(workdir, outcome, results, judged, card)
    for path in mistakes.write(config, workdir, task, judged):
        print(f"texts with another answer than their label: {path}")
    print(f"report: {storage.join(workdir, 'report.html')}")
    print(f"preset: {storage.join(workdir, 'preset')}")
