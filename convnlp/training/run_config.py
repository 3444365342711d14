"""WORKDIR/config.json: what a run was started with, and what may change when it is resumed.

The file holds the resolved config; under "inputs", the sizes and checksums of the files that the run reads;
and under "open_fields", which fields the command left to the data. Allowed changes are recorded under
"history", with the step from which they apply.
"""

import copy
import json

from absl import logging

from convnlp.training import checkpoints, storage

INPUTS, HISTORY, OPEN_FIELDS = "inputs", "history", "open_fields"
_OLD_WEIGHT = "objective.masked_lm_weight"  # of older versions
_WEIGHT = "objective.options.masked_lm.weight"


def check_config(
    workdir,
    config,
    *,
    write=True,
    open_fields=(),
    always=(),
    on_request=(),
    requested=False,
    defaults=None,
    has_steps=True,
):
    """Writes `config` to WORKDIR/config.json, or compares it with the existing one.

    Args:
        workdir: directory, created if missing; a local path or a URL.
        config: nested dict of JSON values. The optional `config["inputs"]` is a dict field -> {file: facts}
            of the files that a field names. As long as these are equal, the field itself may change: the
            files were moved. Without "inputs", such fields are not compared: another worker does that.
        write: bool. False only compares, for all workers but the first. Defaults to True.
        open_fields: names of fields, such as "train.num_steps", that the program sets from its data later.
            They are not compared if the command that began the run left them open, too.
        always: names of fields, such as "train.num_samples", that may change at every start.
        on_request: names of fields that may change if `requested` is true: they affect only the steps that
            follow. "inputs.NAME" stands for the files of the field NAME.
        requested: bool. Defaults to False.
        defaults: nested dict, values of fields that the file lacks because a newer version added them; these
            values do not change a run. Default None: fields that the file lacks count as changed.
        has_steps: bool. Whether the run trains in steps, with checkpoints. Otherwise it is made again as a
            whole, in place of what it wrote before. Defaults to True.

    Returns:
        What the file held before, dict, if a change to the run was written to it; else None.

    Raises:
        ValueError: if the directory holds checkpoints or a preset with a different config, naming each field,
            or those of a run of the other kind (`has_steps`), or if its config.json cannot be read.
    """
    path = storage.join(workdir, "config.json")
    config, defaults = json.loads(json.dumps([config, defaults or {}]))
    steps = checkpoints.steps(workdir)
    exists = storage.gfile.exists(path)
    is_finished = storage.gfile.exists(storage.join(workdir, "preset"))
    if (is_finished and not steps) if has_steps else steps:
        what = "the checkpoints of a run in steps" if steps else "a preset without checkpoints"
        raise ValueError(
            f"`workdir` {workdir} holds {what}, which this program cannot continue; another directory begins "
            "a new run"
        )
    if not (steps or is_finished) or not exists:  # nothing to spoil, or nothing to compare with
        if write:
            if steps:
                logging.warning("%s is missing; the run is taken to be of the config given now", path)
            storage.gfile.makedirs(workdir)
            storage.write_json(path, {**config, OPEN_FIELDS: [*open_fields]})
        return None
    record = _read(path)
    before = copy.deepcopy(record)
    history = before.pop(HISTORY, [])
    were_open = before.pop(OPEN_FIELDS, open_fields)  # files of older versions do not say
    config = with_fields(config, fields_of(before, {*open_fields} & {*were_open}))
    changed = {**_changed_fields(before, config, defaults), **_changed_inputs(before, config)}
    refused = {name: text for name, (text, *_) in changed.items() if name not in always}
    can_be_requested = set(refused) <= set(on_request)
    if refused and not (requested and can_be_requested):
        advice = "another directory begins a new one"
        if can_be_requested:
            what = "continues it from its last checkpoint" if steps else "makes it again in place of that one"
            advice = f"--resume_with_changes {what}, {advice}"
        raise ValueError(
            f"`workdir` {workdir} holds a run with a different config ({'; '.join(refused.values())}); "
            f"{advice}"
        )
    config[OPEN_FIELDS] = [*open_fields]
    if changed and write and not steps:
        storage.write_json(path, config)
    elif changed and write:
        step = checkpoints.newest(workdir)[0] or 0  # a damaged one is not continued from
        values = {name: [old, new] for name, (_, old, new) in changed.items()}
        for text, *_ in changed.values():
            logging.warning("Changed from step %d on: %s", step, text)
        history.append({"step": step, "changed": values})
        storage.write_json(path, {**config, HISTORY: history})
    return record if changed and write else None


def check_is_free(workdir, config):
    """Raises ValueError if the directory has a config.json that no run wrote, such as that of a preset.

    Args:
        workdir: directory, which need not exist; a local path or a URL.
        config: dict, as for `check_config`.
    """
    path = storage.join(workdir, "config.json")
    try:
        found = storage.read_json(path) if storage.gfile.exists(path) else config
    except ValueError:  # of a run, if of any: `check_config` reports it where it matters
        return
    if not isinstance(found, dict) or not found.keys() & config.keys():
        raise ValueError(
            "`workdir` must not hold a config.json that no run wrote, such as that of a preset: it would be "
            f"overwritten. Received: workdir={workdir}"
        )


def last_change(workdir, names):
    """Returns the step at which one of these fields last changed in a run, 0 if none has."""
    history = storage.read_json(storage.join(workdir, "config.json")).get(HISTORY, [])
    names = {*names, *(_OLD_WEIGHT for name in names if name == _WEIGHT)}
    return max((each["step"] for each in history if names & {*each["changed"]}), default=0)


def fields_of(config, names):
    """Returns the values of the fields "SECTION.FIELD" that a config has, a dict by these names."""
    flat = _flatten(config)
    return {name: flat[name] for name in names if name in flat}


def with_fields(config, values):
    """Returns a copy of a config with other values of some fields, as `fields_of` returns them."""
    config = copy.deepcopy(config)
    for name, value in values.items():
        section, field = name.split(".")
        config[section][field] = value
    return config


def _read(path):
    try:
        config = storage.read_json(path)
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged ({error}); restore it, or remove it to continue with the given config"
        ) from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} must hold an object. Received: {config!r}")
    return config


def _changed_fields(before, now, defaults):
    """Returns a dict name -> (text, old, new) of the fields that differ, without those with moved files."""
    inputs, new_inputs = before.get(INPUTS, {}), now.get(INPUTS, {})
    old, new = (_flatten({k: v for k, v in config.items() if k != INPUTS}) for config in (before, now))
    old = {**{name: value for name, value in _flatten(defaults).items() if name in new}, **_moved(old)}
    changed = {}
    for name in sorted({*old, *new}):
        value, other = old.get(name, "absent"), new.get(name, "absent")
        # A worker that has not read the files leaves this to the one that has.
        was_moved = inputs.get(name) and (INPUTS not in now or inputs.get(name) == new_inputs.get(name))
        if value != other and not was_moved:
            changed[name] = f"{name}: {value!r} -> {other!r}", value, other
    return changed


def _moved(flat):
    """Returns the fields of a run that an older version may have begun, under their present names."""
    weight = flat.get(_OLD_WEIGHT, 1.0)
    kept = {name: value for name, value in flat.items() if name != _OLD_WEIGHT}
    is_read = "masked_lm" in flat.get("objective.names", ())
    return {_WEIGHT: weight, **kept} if is_read and weight != 1.0 else kept


def _changed_inputs(before, now):
    """Returns a dict "inputs.FIELD" -> (text, old, new) of fields whose files differ, if both are known."""
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
