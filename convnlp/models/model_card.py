"""Writes a preset's README.md: what the model is, what it was trained on, how well it does, what it costs."""

import json
import math
import numbers
import os

import keras

from convnlp.models import preset_weights, presets

WATTS_PER_CPU = 10.0  # a guess for a busy CPU in a server, with its share of memory and cooling
_ENTRIES = {
    "title": "the heading; by default, the directory's name",
    "language": "ISO 639-1 code",
    "licence": "licence of the weights, as the Hugging Face hub names it: apache-2.0",
    "sources": "list of dicts: what the texts are, with the keys name, licence and, if known, tokens and url",
    "trained_on": "str or list of str: source strings, with their splits",
    "initialised_from": "the preset that training started from",
    "objective": "what was minimised",
    "steps": "int: optimizer steps",
    "examples": "int: sequences seen",
    "tokens": "int: tokens seen",
    "seconds": "float: wall time of the training",
    "cpu_seconds": "float: the same, summed over all CPUs",
    "watts_per_cpu": "float: watts of a busy CPU, for the energy; by default, WATTS_PER_CPU",
    "hardware": "what it ran on",
    "scores": "dict: name -> number, as in {'sst2 test accuracy': 0.84}; or the number with its 95% "
    "interval, {'value': 0.84, 'interval': [0.82, 0.86], 'over': 'five seeds'}; or a share of examples, "
    "whose interval is computed: {'value': 0.84, 'num_examples': 1821}",
    "speed": "dict: what -> number or str, as in {'texts of 128 tokens per second on one CPU': 310}",
    "vocabulary": "list of dicts with the same keys, the rows of benchmarks.pretraining.vocabulary",
    "bias": "list of dicts with the same keys, the rows of benchmarks.pretraining.bias",
    "weaknesses": "list of str, a sentence or two each",
    "encoder_use": "float: nats per target token that the right encoder output is worth",
    "cost": "dict of Seq2SeqBackbone.cost",
    "encoder_length": "int: the encoder tokens that `cost` is for",
    "decoder_length": "int: the decoder tokens that `cost` is for, 0 without a decoder",
    "command": "str: the command line that made it",
    "use": "str: lines of Python that replace those that load the model by its own class",
}

_SOURCE = ("name", "licence", "tokens", "url")
_BIAS = (
    "How the probability of the positive class changes if only the person in a sentence changes, by "
    "`benchmarks.pretraining.bias`.\n\n"
)


def write(preset_dir, entries):
    """Writes README.md into a preset; entries that are not given are left out.

    Args:
        preset_dir: str. A directory written by `save_to_preset`; architecture and size are read from it, and
            its model's class says what it is for (`pipeline_tag`, `example`; see `CheckedPreset`).
        entries: dict. Any of: title, language, licence, sources, trained_on, initialised_from, objective,
            steps, examples, tokens, seconds, cpu_seconds, watts_per_cpu, hardware, scores, speed, vocabulary,
            bias, weaknesses, encoder_use, cost, encoder_length, decoder_length, command, use. `_ENTRIES`
            describes each of them.

    Returns:
        str, the path of the card.

    Raises:
        ValueError: if an entry is unknown, a source has no licence, the rows of a table have different keys,
            or a score has none of the three forms.
    """
    check(entries)
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
        _section("Sources", table=_sources(entries)),
        _section("Scores", [f"{name}: {_score(value)}" for name, value in entries.get("scores", {}).items()]),
        _section("Speed", [f"{name}: {_number(value)}" for name, value in entries.get("speed", {}).items()]),
        _section("Cost", _cost(entries)),
        _section("Vocabulary", table=entries.get("vocabulary", ())),
        _section("Known weaknesses", entries.get("weaknesses", ())),
        _section("Bias", table=entries.get("bias", ()), text=_BIAS),
        _section("Command", code=entries.get("command"), language="sh"),
        _section("Use", code=entries.get("use") or _usage(cls, preset_dir), language="python"),
    ]
    path = os.path.join(preset_dir, "README.md")
    with (
        presets.saving(preset_dir, changed=lambda name: name == "README.md"),
        open(path, "w", encoding="utf-8") as file,
    ):
        file.write("\n".join(filter(None, sections)))
    return path


def share_interval(share, num_examples):
    """Returns Wilson's 95% interval of a share of examples, for other examples of the same kind.

    Source: Wilson, 1927, https://doi.org/10.1080/01621459.1927.10502953.

    Args:
        share: float in [0, 1].
        num_examples: int >= 1.

    Returns:
        (low, high).

    Example:
    >>> [round(bound, 3) for bound in share_interval(0.5, 100)]
    [0.404, 0.596]
    """
    z = 1.959964  # the normal distribution's quantile at 0.975
    centre = (share + z * z / (2 * num_examples)) / (1 + z * z / num_examples)
    half = z / (1 + z * z / num_examples)
    half *= math.sqrt(share * (1 - share) / num_examples + z * z / (4 * num_examples**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def read_entries(path):
    """Reads the entries from a JSON file, a program's `--card`; raises ValueError if it has no object."""
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
    except (OSError, ValueError, RecursionError) as error:  # no file, not JSON, or nested without end
        raise ValueError(f"`--card` must be a JSON file. Received: {path} ({error})") from error
    if not isinstance(entries, dict):
        raise ValueError(f"`--card` must hold a JSON object. Received: {path}, a {type(entries).__name__}")
    check(entries)
    return entries


def check(entries):
    """Raises ValueError, like `write`, unless a card can be made from the entries."""
    unknown = sorted(set(entries) - set(_ENTRIES))
    if unknown:
        raise ValueError(f"`entries` may hold {', '.join(_ENTRIES)}. Received also: {', '.join(unknown)}")
    for names, rule, holds in _RULES:
        for name in names:
            if name in entries and not holds(entries[name]):
                raise ValueError(f"`{name}` must be {rule}. Received: {name}={entries[name]!r}")
    for source in entries.get("sources", ()):
        if not {"name", "licence"} <= set(source) <= set(_SOURCE):
            raise ValueError(
                "`sources` must have the keys name and licence, and may have tokens and url. "
                f"Received: {source}"
            )
    for name in ("vocabulary", "bias"):
        for row in entries.get(name, ()):
            if list(row) != list(entries[name][0]):
                raise ValueError(f"`{name}` must have the same keys in all rows. Received: {row}")
    for name, score in entries.get("scores", {}).items():
        if not _is_score(score):
            raise ValueError(
                "`scores` must be numbers, or have the keys value, interval and over, or value in [0, 1] and "
                f"num_examples. Received: {name}: {score}"
            )


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_score(score):
    if not isinstance(score, dict):
        return isinstance(score, numbers.Real)
    if set(score) == {"value", "interval", "over"}:
        interval = score["interval"]
        return (
            _is_number(score["value"])
            and isinstance(interval, list | tuple)
            and len(interval) == 2
            and all(map(_is_number, interval))
        )
    return (
        set(score) == {"value", "num_examples"}
        and _is_number(score["value"])
        and 0 <= score["value"] <= 1
        and isinstance(score["num_examples"], numbers.Integral)
        and score["num_examples"] > 0
    )


_RULES = (
    (("scores", "speed", "cost"), "a dict", lambda value: isinstance(value, dict)),
    (
        ("sources", "vocabulary", "bias"),
        "a list of dicts",
        lambda value: isinstance(value, list | tuple) and all(isinstance(row, dict) for row in value),
    ),
    (
        ("weaknesses",),
        "a list of sentences",
        lambda value: isinstance(value, list | tuple) and all(isinstance(row, str) for row in value),
    ),
    (("language", "licence"), "a string", lambda value: isinstance(value, str)),
    (("cpu_seconds", "watts_per_cpu"), "a number >= 0", lambda value: _is_number(value) and value >= 0),
)


def _read(preset_dir, name):
    with open(os.path.join(preset_dir, name), encoding="utf-8") as file:
        return json.load(file)


def _front_matter(cls, entries):
    lines = ["library_name: keras-hub", "tags: [convnlp]"]
    for name, key in (("language", "language"), ("licence", "license")):
        if name in entries:
            lines.append(f"{key}: {json.dumps(entries[name])}")  # quoted: no, for Norwegian, means false
    if tag := getattr(cls, "pipeline_tag", None):
        lines.append(f"pipeline_tag: {tag}")
    return "\n".join(["---", *lines, "---", ""])


def _description(config, task, parameters, stored_in):
    """Describes the saved configuration in one paragraph."""
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
    rows = [f"{label}: {_number(entries[name])}" for name, label in named.items() if name in entries]
    if "cpu_seconds" in entries:
        hours, watts = entries["cpu_seconds"] / 3600, entries.get("watts_per_cpu", WATTS_PER_CPU)
        energy = f"{_number(hours * watts / 1000)} kWh, taking {_number(watts)} W for each busy CPU"
        rows.append(f"CPU hours: {_number(hours)}; energy, estimated: {energy}")
    return rows


def _sources(entries):
    """Returns the rows of a table; all have the keys that any of the sources has."""
    found = entries.get("sources", ())
    keys = [key for key in _SOURCE if key != "url" and any(key in source for source in found)]
    rows = []
    for source in found:
        name = f"[{source['name']}]({source['url']})" if "url" in source else source["name"]
        rows.append({key: {**source, "name": name}.get(key, "") for key in keys})
    return rows


def _score(value):
    if not isinstance(value, dict):
        return _number(value)
    if "num_examples" in value:
        low, high = share_interval(value["value"], value["num_examples"])
        over = f"{value['num_examples']:,} examples"
    else:
        (low, high), over = value["interval"], value["over"]
    return f"{_number(value['value'])} (95% interval {_number(low)} to {_number(high)}, over {over})"


def _cost(entries):
    rows = [f"{name.replace('_', ' ')}: {_number(value)}" for name, value in entries.get("cost", {}).items()]
    lengths = [
        f"{entries[f'{side}_length']} {side} tokens"
        for side in ("encoder", "decoder")
        if entries.get(f"{side}_length")
    ]
    return [*rows, *([f"these figures are for {' and '.join(lengths)}"] if rows and lengths else [])]


def _usage(cls, preset_dir):
    """Loads the model by its own class: a keras_nlp base class would choose among all its subclasses."""
    name = os.path.basename(os.path.abspath(preset_dir))
    module = "convnlp.models" if cls.__module__.startswith("convnlp.models.") else cls.__module__
    lines = [f"from {module} import {cls.__name__}", "", f'model = {cls.__name__}.from_preset("{name}")']
    return "\n".join([*lines, *filter(None, [getattr(cls, "example", None)])])


def _section(title, rows=(), code=None, language="", table=(), text=""):
    body = "".join(f"- {row}\n" for row in rows) + (f"```{language}\n{code}\n```\n" if code else "")
    if table:
        lines = [
            list(table[0]),
            ["---"] * len(table[0]),
            *([_number(value).replace("|", "\\|") for value in row.values()] for row in table),
        ]
        body += "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return body and f"## {title}\n\n{text}{body}"


def _number(value):
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return _names(value)
