"""The folder of a bulk prediction: what it holds, which job it belongs to, and how much is done."""

import contextlib
import json
import os
import re

import tensorflow as tf

from convnlp.bulk import outputs

_JOB, _SUMMARY = "job.json", "summary.json"
_SHARD = re.compile(r"(predictions|documents|bad)-(?P<file>\d+)-\d+\.(jsonl|tfrecord)")


def check_outside(folder, model):
    """Raises ValueError if a folder is in a model's directory, which would be another model at a restart.

    Args:
        folder: string, as the user named it, a path or a URL.
        model: string, the directory of the SavedModel.
    """
    inner, outer = (path if "://" in path else os.path.realpath(path) for path in (folder, model))
    if f"{inner}/".startswith(f"{outer.rstrip('/')}/"):
        raise ValueError(
            f"`output` must not be in the directory of `model`, {model}. Received: output={folder}"
        )


def drop_changed(folder, job):
    """Removes the shards of input files that have changed, such as a damaged one that was repaired.

    The other shards are kept, and the folder holds this job from then on. Does nothing if the job is
    complete, or if it differs in more than the sizes and times of its files, which `open_folder` refuses.

    Args:
        folder: string.
        job: see `open_folder`. What becomes of a file must not depend on other files.

    Returns:
        The paths of these files, a list.
    """
    path = f"{folder}/{_JOB}"
    if not tf.io.gfile.exists(path) or tf.io.gfile.exists(f"{folder}/{_SUMMARY}"):
        return []
    before, files = _read(path), job["files"]
    known = before.get("files", [])
    if before | {"files": files} != job or [file[0] for file in known] != [file[0] for file in files]:
        return []
    changed = [number for number, file in enumerate(files) if file != known[number]]
    found = filter(None, map(_SHARD.fullmatch, tf.io.gfile.listdir(folder)))
    names = [match[0] for match in found if int(match["file"]) in changed]
    # Before the new job.json, so that a run which is killed here is continued here; and predictions first, as
    # without them, nobody counts the bad lines.
    for name in sorted(names, reverse=True):
        tf.io.gfile.remove(f"{folder}/{name}")
    if changed:
        outputs.write_rows(path, "jsonl", [job])
    return [files[number][0] for number in changed]


def open_folder(folder, job):
    """Creates the folder of a job, or continues in the one that an earlier run has left.

    Args:
        folder: string.
        job: dict for JSON, what identifies the job; it must be the same on a restart.

    Returns:
        The summary, a dict, if the job is complete; else None.

    Raises:
        ValueError: if the folder holds something else or another job; lists the differences.
    """
    if tf.io.gfile.exists(folder) and not tf.io.gfile.isdir(folder):
        raise ValueError(f"`output` must be a directory, not a file. Received: output={folder}")
    found = tf.io.gfile.listdir(folder) if tf.io.gfile.exists(folder) else []
    if _JOB in found:
        differences = list(_differences(_read(f"{folder}/{_JOB}"), job))
        if differences:
            raise ValueError(
                f"`output` must be new or hold part of the same job. {folder} holds another job: "
                + "; ".join(differences)
            )
    elif [name for name in found if outputs.PARTIAL not in name]:
        raise ValueError(f"`output` must be a new or empty directory. {folder} holds {sorted(found)[0]}")
    else:
        tf.io.gfile.makedirs(folder)
    _remove_partial(folder, found)
    if _SUMMARY in found:
        summary = read_summary(folder)
        if num_done(folder) >= summary.get("shards", 0):
            return summary
        tf.io.gfile.remove(f"{folder}/{_SUMMARY}")  # as shards have been removed
    if _JOB not in found:
        outputs.write_rows(f"{folder}/{_JOB}", "jsonl", [job])
    return None


def num_done(folder):
    """Returns the number of complete files of predictions or documents, one for each shard that has any."""
    found = filter(None, map(_SHARD.fullmatch, tf.io.gfile.listdir(folder)))
    return sum(match[1] != "bad" for match in found)


def finish(folder):
    """Removes partial files that killed workers have left; returns the summary."""
    summary = read_summary(folder)
    _remove_partial(folder, tf.io.gfile.listdir(folder))
    return summary


def read_summary(folder):
    """Returns the summary of a complete job, a dict; "shards" is the number of its files, see `num_done`."""
    return _read(f"{folder}/{_SUMMARY}")


def write_summary(folder, summary):
    """Writes the summary, which marks the job as complete."""
    outputs.write_rows(f"{folder}/{_SUMMARY}", "jsonl", [summary])


def _remove_partial(folder, names):
    for name in names:
        if outputs.PARTIAL in name:
            with contextlib.suppress(tf.errors.NotFoundError):  # its worker is still alive after all
                tf.io.gfile.remove(f"{folder}/{name}")


def _read(path):
    try:
        with tf.io.gfile.GFile(path, "r") as file:
            found = json.loads(file.read())
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it does not hold a JSON object")
    return found


def _differences(before, now):
    for key in {**now, **before}:
        there, here = before.get(key), now.get(key)
        if there == here:
            continue
        if key == "files" and None not in (there, here):
            changed = [file for file in here if file not in there] or [
                file for file in there if file not in here
            ]
            yield f"{len(changed)} input files changed, such as {changed[0][0]}"
        else:
            yield f"{key} was {there!r} and is now {here!r}"
