"""WORKDIR/config.json: what a run was started with, and what may be different when it goes on.

The file holds the resolved config and, under "inputs", the sizes and sums of the files that the run reads. A
change that is allowed is written down under "history", with the step from which it holds.
"""

import json

from absl import logging

from convnlp.training import checkpoints, storage

INPUTS, HISTORY = "inputs", "history"


def check_config(workdir, config, *, write=True, always=(), on_request=(), requested=False, defaults=None):
    """Writes `config` to WORKDIR/config.json, or compares it with the one that is there.

    Args:
        workdir: directory, created if missing; a local path or a URL.
        config: nested dict of JSON values. `config["inputs"]`, if there, is a dict field -> {file: facts} of
            the files that a field names; while these are the same, the field itself may change: the files
            were moved. Without it such fields are not compared: another worker does that.
        write: bool. False only compares, for all workers but the first. Defaults to True.
        always: names of fields, such as "train.num_samples", that may change from start to start.
        on_request: names of fields that may change where `requested` is true: they leave what was trained
            alone and change what comes after. "inputs.NAME" stands for the files of the field NAME.
        requested: bool. Defaults to False.
        defaults: nested dict, what fields are that the file does not have: those of a newer version, whose
            defaults leave a run as it was. Default None: they differ.

    Raises:
        ValueError: if the directory holds checkpoints of another config, of which it names each field, or
            its config.json cannot be read.
    """
    path = storage.join(workdir, "config.json")
    config, defaults = json.loads(json.dumps([config, defaults or {}]))
    steps = checkpoints.steps(workdir)
    exists = storage.gfile.exists(path)
    if not steps or not exists:  # nothing that could be spoilt, or nothing to compare with
        if write:
            if steps:
                logging.warning("%s is missing; the run is taken to be of the config given now", path)
            storage.gfile.makedirs(workdir)
            storage.write_json(path, config)
        return
    before = _read(path)
    history = before.pop(HISTORY, [])
    changed = {**_changed_fields(before, config, defaults), **_changed_inputs(before, config)}
    refused = {name: text for name, (text, *_) in changed.items() if name not in always}
    can_be_requested = set(refused) <= set(on_request)
    if refused and not (requested and can_be_requested):
        advice = "; --resume_with_changes continues it from its last checkpoint" if can_be_requested else ""
        raise ValueError(
            f"`workdir` {workdir} holds a run of another config ({'; '.join(refused.values())}){advice}"
        )
    if changed and write:
        values = {name: [old, new] for name, (_, old, new) in changed.items()}
        for text, *_ in changed.values():
            logging.warning("From step %d on: %s", steps[-1], text)
        history.append({"step": steps[-1], "changed": values})
        storage.write_json(path, {**config, HISTORY: history})


def _read(path):
    try:
        config = storage.read_json(path)
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged ({error}); put it back as it was, or remove it to go on with the config given"
        ) from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} must hold an object. Received: {config!r}")
    return config


def _changed_fields(before, now, defaults):
    """Dict name -> (text, old, new) of the fields that differ, without those whose files were moved."""
    inputs, new_inputs = before.get(INPUTS, {}), now.get(INPUTS, {})
    old, new = (_flatten({k: v for k, v in config.items() if k != INPUTS}) for config in (before, now))
    old = {**{name: value for name, value in _flatten(defaults).items() if name in new}, **old}
    changed = {}
    for name in sorted({*old, *new}):
        value, other = old.get(name, "absent"), new.get(name, "absent")
        # A worker that has not looked at the files leaves them to the one that has.
        was_moved = inputs.get(name) and (INPUTS not in now or inputs.get(name) == new_inputs.get(name))
        if value != other and not was_moved:
            changed[name] = f"{name}: {value!r} -> {other!r}", value, other
    return changed


def _changed_inputs(before, now):
    """Dict "inputs.FIELD" -> (text, old, new) of the fields whose files differ, where both are known."""
    if INPUTS not in before or INPUTS not in now:
        return {}
    old, new = before[INPUTS], now[INPUTS]
    changed = {}
    for field in sorted({*old, *new}):
        files, others = old.get(field, {}), new.get(field, {})
        texts = []
        for name in sorted({*files, *others}):
            if files.get(name) != others.get(name):
                what = "is new" if name not in files else "is gone" if name not in others else "was edited"
                texts.append(f"{name} of {field} {what}")
        if texts:
            more = f" and {len(texts) - 3} more files" if len(texts) > 3 else ""
            changed[f"{INPUTS}.{field}"] = f"{', '.join(texts[:3])}{more} since the run began", files, others
    return changed


def _flatten(config, prefix=""):
    flat = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
