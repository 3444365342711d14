"""The folder of a bulk prediction: what it holds, which job it belongs to, and how much is done."""

import contextlib
import json
import os

import tensorflow as tf

from convnlp.bulk import outputs

_JOB, _SUMMARY = "job.json", "summary.json"


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
        return read_summary(folder)
    if _JOB not in found:
        outputs.write_rows(f"{folder}/{_JOB}", "jsonl", [job])
    return None


def num_done(folder):
    """Returns the number of shards whose predictions are complete."""
    return sum(
        name.startswith("predictions-") and outputs.PARTIAL not in name
        for name in tf.io.gfile.listdir(folder)
    )


def finish(folder):
    """Removes partial files that killed workers have left; returns the summary."""
    summary = read_summary(folder)
    _remove_partial(folder, tf.io.gfile.listdir(folder))
    return summary


def read_summary(folder):
    """Returns the summary of a complete job: {"examples", "predictions", "bad", "shards"}."""
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
