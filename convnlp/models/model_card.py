"""The README.md of a preset: what the model is, what it was trained on, how well it does, what it costs."""

import json
import os

import keras

from convnlp.models import preset_weights, presets

_ENTRIES = {
    "title": "the heading; the directory's name without it",
    "language": "ISO 639-1 code",
    "trained_on": "str or list of str: source strings, with their splits",
    "initialised_from": "the preset that training started from",
    "objective": "what was minimised",
    "steps": "int: optimiser steps",
    "examples": "int: sequences seen",
    "tokens": "int: tokens seen",
    "seconds": "float: wall time of the training",
    "hardware": "what it ran on",
    "scores": "dict: name -> number, as in {'sst2 test accuracy': 0.84}",
    "encoder_use": "float: nats per target token that the right encoder output is worth",
    "cost": "dict of Seq2SeqBackbone.cost",
    "encoder_length": "int: the encoder tokens that `cost` is for",
    "decoder_length": "int: the decoder tokens that `cost` is for",
    "command": "str: the command line that made it",
}


def write(preset_dir, entries):
    """Writes README.md into a preset. What is not given is left out.

    Args:
        preset_dir: str. A directory written by `save_to_preset`; architecture and size are read from it, and
            its model's class says what it is for (`pipeline_tag`, `example`; see `CheckedPreset`).
        entries: dict. Any of: title, language, trained_on, initialised_from, objective, steps, examples,
            tokens, seconds, hardware, scores, encoder_use, cost, encoder_length, decoder_length, command.

    Returns:
        str, the path of the card.

    Raises:
        ValueError: on an unknown entry.
    """
    unknown = sorted(set(entries) - set(_ENTRIES))
    if unknown:
        raise ValueError(f"`entries` may hold {', '.join(_ENTRIES)}. Received also: {', '.join(unknown)}")
    config = _read(preset_dir, "config.json")
    task_file = os.path.join(preset_dir, "task.json")
    task = _read(preset_dir, "task.json") if os.path.exists(task_file) else config
    cls = keras.saving.get_registered_object(task["registered_name"])
    sections = [
        _front_matter(cls, entries),
        f"# {entries.get('title') or os.path.basename(os.path.abspath(preset_dir))}\n",
        _description(
            config["config"],
            task,
            _read(preset_dir, "metadata.json")["parameter_count"],
            preset_weights.stored_in(preset_dir),
        ),
        _section("Training", _training(entries)),
        _section(
            "Scores", [f"{name}: {_number(value)}" for name, value in entries.get("scores", {}).items()]
        ),
        _section("Cost", _cost(entries)),
        _section("Command", code=entries.get("command"), language="sh"),
        _section("Use", code=_usage(cls, preset_dir), language="python"),
    ]
    path = os.path.join(preset_dir, "README.md")
    with (
        presets.saving(preset_dir, changed=lambda name: name == "README.md"),
        open(path, "w", encoding="utf-8") as file,
    ):
        file.write("\n".join(filter(None, sections)))
    return path


def _read(preset_dir, name):
    with open(os.path.join(preset_dir, name), encoding="utf-8") as file:
        return json.load(file)


def _front_matter(cls, entries):
    lines = ["library_name: keras-hub", "tags: [convnlp]"]
    if "language" in entries:
        lines.append(f"language: {entries['language']}")
    if tag := getattr(cls, "pipeline_tag", None):
        lines.append(f"pipeline_tag: {tag}")
    return "\n".join(["---", *lines, "---", ""])


def _description(config, task, parameters, stored_in):
    """One paragraph from the saved configuration."""
    encoder = config["encoder_mixer"] or config["mixer"]
    text = f"A `{task['class_name']}` of convnlp: {config['num_layers']} encoder layers ({_names(encoder)})"
    if config["num_decoder_layers"]:
        decoder = config["decoder_mixer"] or config["mixer"]
        text += f" and {config['num_decoder_layers']} decoder layers ({_names(decoder)})"
    text += (
        f", width {config['hidden_dim']}, {config['num_heads']} heads, "
        f"kernel size {_names(config['kernel_size'])}, {config['vocabulary_size']:,} token ids; "
        f"{parameters:,} parameters in the backbone."
    )
    if stored_in != "float32":
        text += f" The weights are stored in {stored_in}."
    labels = task["config"].get("labels")
    return text + (f"\n\nClasses: {', '.join(labels)}.\n" if labels else "\n")


def _names(value):
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _training(entries):
    named = {
        "trained_on": "Trained on",
        "initialised_from": "Started from",
        "objective": "Objective",
        "steps": "Steps",
        "examples": "Sequences seen",
        "tokens": "Tokens seen",
        "seconds": "Wall time in seconds",
        "hardware": "Hardware",
        "encoder_use": "Encoder use (nats per target token that another example's encoder output loses)",
    }
    return [f"{label}: {_number(entries[name])}" for name, label in named.items() if name in entries]


def _cost(entries):
    rows = [f"{name.replace('_', ' ')}: {_number(value)}" for name, value in entries.get("cost", {}).items()]
    lengths = [
        f"{entries[f'{side}_length']} {side} tokens"
        for side in ("encoder", "decoder")
        if f"{side}_length" in entries
    ]
    return [*rows, *([f"these figures are for {' and '.join(lengths)}"] if rows and lengths else [])]


def _usage(cls, preset_dir):
    """By the class itself: a base class of keras_nlp's would choose one of all its subclasses."""
    name = os.path.basename(os.path.abspath(preset_dir))
    module = "convnlp.models" if cls.__module__.startswith("convnlp.models.") else cls.__module__
    lines = [f"from {module} import {cls.__name__}", "", f'model = {cls.__name__}.from_preset("{name}")']
    return "\n".join([*lines, *filter(None, [getattr(cls, "example", None)])])


def _section(title, rows=(), code=None, language=""):
    body = "".join(f"- {row}\n" for row in rows) + (f"```{language}\n{code}\n```\n" if code else "")
    return body and f"## {title}\n\n{body}"


def _number(value):
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return _names(value)
