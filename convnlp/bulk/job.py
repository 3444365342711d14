"""A bulk prediction's folder: what it holds, whose it is, and how much of it is done."""

import contextlib
import json

import tensorflow as tf

from convnlp.bulk import outputs

_JOB, _SUMMARY = "job.json", "summary.json"
_VERSION = 1  # counts changes of this package that change its files


def description(source, format, signature, fields, shard_size, model, inputs):
    """What makes a prediction another one, as a dict for JSON: a restart must have the same.

    The batch size, the runner and where the model lies are not among them.

    Args:
        source: string, the input as the user named it, with its split.
        format: string.
        signature: string.
        fields: list of strings.
        shard_size: int.
        model: string, the model's fingerprint.
        inputs: list, the files; see `FileInput.description`.
    """
    return {
        "version": _VERSION,
        "model": model,
        "signature": signature,
        "fields": fields,
        "format": format,
        "shard_size": shard_size,
        "input": source,
        "files": inputs,
    }


def open_folder(folder, job):
    """Makes the folder of a job, or takes up the one that an earlier run of it left.

    Args:
        folder: string.
        job: dict, see `description`.

    Returns:
        The summary as a dict where the job is complete, else None.

    Raises:
        ValueError: if the folder holds something else, or another job, with the differences.
    """
    found = tf.io.gfile.listdir(folder) if tf.io.gfile.exists(folder) else []
    if _JOB in found:
        differences = list(_differences(_read(f"{folder}/{_JOB}"), job))
        if differences:
            raise ValueError(
                f"`output` must be new, or hold a part of the same job. {folder} has another: "
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
    """Number of shards whose predictions are there."""
    return sum(
        name.startswith("predictions-") and outputs.PARTIAL not in name
        for name in tf.io.gfile.listdir(folder)
    )


def finish(folder):
    """Removes what killed workers have left of files that others have then written; returns the summary."""
    summary = read_summary(folder)
    _remove_partial(folder, tf.io.gfile.listdir(folder))
    return summary


def read_summary(folder):
    """{"examples", "predictions", "bad", "shards"} of a complete job."""
    return _read(f"{folder}/{_SUMMARY}")


def write_summary(folder, summary):
    """Marks the job as complete."""
    outputs.write_rows(f"{folder}/{_SUMMARY}", "jsonl", [summary])


def _remove_partial(folder, names):
    for name in names:
        if outputs.PARTIAL in name:
            with contextlib.suppress(tf.errors.NotFoundError):  # of a worker that is still alive after all
                tf.io.gfile.remove(f"{folder}/{name}")


def _read(path):
    try:
        with tf.io.gfile.GFile(path, "r") as file:
            return json.loads(file.read())
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


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
            yield f"{key} {there!r} there, {here!r} here"
