"""Compares one model as a SavedModel and as a TFLite file of each mode."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from convnlp import kernels
from convnlp.export import preset
from convnlp.export.lite import calibration, tflite_files
from convnlp.export.lite.forms import form_named
from convnlp.export.saved_models import signatures, versions
from convnlp.tasks import task_of
from convnlp.tasks.reference import full_rows

SAVED_MODEL = "SavedModel"
_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An exported model.

    Attributes:
        name: str. `SAVED_MODEL` or a key of `convnlp.export.lite.forms.FORMS`.
        megabytes: float. The size of all its files.
        run: function from token ids int32 [B,T] to float32 [B,N], the output of `Answers.edge`.
    """

    name: str
    megabytes: float
    run: Callable


def use_one_thread():
    """Gives TensorFlow one thread, like LiteRT. Must be called before anything runs."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def candidates(preset_dir, modes, rows, directory):
    """Yields the SavedModel of a preset, then its TFLite model in each mode.

    The size of the SavedModel is that of one with all signatures; the answers come from a signature with
    the same output as TFLite.

    Args:
        preset_dir: str. A preset of any task.
        modes: sequence of str. Keys of `convnlp.export.lite.forms.FORMS`.
        rows: list of int32 [1,T]. The rows that calibrate the modes that need it; None if there are none.
        directory: str or path. An empty directory, which must exist as long as the candidates are used.
    """
    model = preset.load(preset_dir)
    shipped, _, _ = versions.export(preset_dir, str(pathlib.Path(directory, "model")), check=False)
    size = sum(file.stat().st_size for file in shipped.rglob("*") if file.is_file())
    yield Candidate(SAVED_MODEL, size / 1e6, _saved(model, str(pathlib.Path(directory, "edge"))))
    for mode in modes:
        servable, content = tflite_files.converted(
            model, mode, "ids", rows if form_named(mode).calibrated else None
        )
        file = tflite_files.packed(content, model, servable, preset_dir, mode, "ids")
        yield Candidate(mode, len(file) / 1e6, tflite_files.runner(file))


def _saved(model, directory):
    """Returns `Candidate.run` of a SavedModel with the same output as TFLite."""
    servable = signatures.edge(model, "ids")
    with kernels.implementation("inference"):
        tf.saved_model.save(servable.module, directory, signatures=servable.signatures)
    loaded = tf.saved_model.load(directory)  # keeps its variables alive

    def run(ids):
        (output,) = loaded.signatures["serving_default"](token_ids=tf.constant(ids)).values()
        return output.numpy()

    return run


def examples(model, source, fields):
    """Returns the inputs of the candidates, and a function that scores their outputs.

    Args:
        model: a model of any task.
        source: `convnlp.data.Source`. Its records need labels only if the task has `edge_metrics`.
        fields: `convnlp.tasks.Fields`.

    Returns:
        (token ids int32 [N,L], function from outputs [N,...] to the task's scores, a dict of floats).
    """
    token_ids = calibration.encoded(model, calibration.texts(source, fields.texts))
    task = task_of(model)
    if not task.edge_metrics:
        return token_ids, lambda outputs: {}
    task = task.from_model(model, source, fields)
    return token_ids, functools.partial(task.edge_scores, found=task.read(source))


def batches(token_ids):
    """Yields token ids int32 [N,L] in batches [B,T], each cut to its longest text."""
    for start in range(0, len(token_ids), _BATCH_SIZE):
        batch = token_ids[start : start + _BATCH_SIZE]
        yield np.ascontiguousarray(batch[:, : (batch != 0).sum(axis=1).max()])


def outputs(run, token_ids):
    """Runs a function like `Candidate.run` on token ids int32 [N,L] in `batches`.

    Returns:
        What it returns of all of them, an array [N,...] or a dict of arrays.
    """
    found = [run(ids) for ids in batches(token_ids)]
    return tf.nest.map_structure(lambda *parts: np.concatenate(parts), *found)


def runner(answers, answer):
    """Returns a function of token ids int32 [B,T]: the answers of the preset itself, to rows of full length.

    Args:
        answers: `Answers` of its model.
        answer: their method, `edge` for the output of a `Candidate`, or `answer` for a dict.
    """
    traced = tf.function(answer, reduce_retracing=True, autograph=False)

    def run(ids):
        rows = tf.constant(full_rows(ids, answers.sequence_length))
        return traced({"token_ids": rows, "padding_mask": rows != 0})

    return run


def text_of_length(token_ids, length):
    """Returns token ids int32 [1,length] without pads: the tokens of the rows, one after the other."""
    return np.resize(token_ids[token_ids != 0], (1, length)).astype(np.int32)
