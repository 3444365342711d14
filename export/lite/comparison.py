"""One classifier in all ways that it is shipped, as SavedModel and as TFLite of each mode, side by side."""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from convnlp.data import Source
from convnlp.tasks import Fields, task_of
from convnlp.tasks.reference import full_rows
from export import preset
from export.lite import tflite_files
from export.lite.forms import form_named
from export.saved_models import versions

SAVED_MODEL = "SavedModel"
_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A classifier as it is shipped.

    Attributes:
        name: str, `SAVED_MODEL` or a key of `export.lite.forms.FORMS`.
        megabytes: float, of all its files.
        run: function from token ids int32 [B,T] to float32 [B,C]: logits, of the SavedModel their softmax.
    """

    name: str
    megabytes: float
    run: Callable


def use_one_thread():
    """Gives TensorFlow one thread, as LiteRT has. To be called before anything runs."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def load_classifier(preset_dir):
    """The `TextClassifier` of a preset.

    Raises:
        ValueError: if the preset holds none.
    """
    model = preset.load(preset_dir)
    if not task_of(model).answers(model).labels:
        raise ValueError(
            f"--preset must hold a TextClassifier, whose labels can be right. Received: {preset_dir}"
        )
    return model


def lengthened(preset_dir, sequence_length, directory):
    """A copy of a classifier's preset that reads longer texts, to be timed.

    Args:
        preset_dir: str.
        sequence_length: int.
        directory: str or path. Where the copy goes.

    Returns:
        str, the copy; `preset_dir` where its mixers have weights for no longer texts, or it is as long.
    """
    model = load_classifier(preset_dir)
    longest = model.backbone.encoder.longest_text()
    length = sequence_length if longest is None else min(sequence_length, longest)
    if length <= model.preprocessor.sequence_length:
        return str(preset_dir)
    model.preprocessor.sequence_length = length
    model.save_to_preset(str(directory))
    return str(directory)


def candidates(preset_dir, modes, rows, directory):
    """Yields the SavedModel of a preset, then its TFLite model in each mode.

    Args:
        preset_dir: str. Of a `TextClassifier`.
        modes: sequence of str, keys of `export.lite.forms.FORMS`.
        rows: list of int32 [1,T], what calibrates the modes that need it; None without those.
        directory: str or path. An empty one, which must last as long as they are used.
    """
    text, ids, _ = versions.export(preset_dir, str(pathlib.Path(directory, "model")), check=False)
    signature = tf.saved_model.load(str(ids)).signatures["ids"]
    size = sum(file.stat().st_size for file in text.rglob("*") if file.is_file())
    yield Candidate(
        SAVED_MODEL, size / 1e6, lambda ids: signature(token_ids=tf.constant(ids))["scores"].numpy()
    )
    model = load_classifier(preset_dir)
    for mode in modes:
        servable, content = tflite_files.converted(
            model, mode, "ids", rows if form_named(mode).calibrated else None
        )
        file = tflite_files.packed(content, model, servable, preset_dir, mode, "ids")
        yield Candidate(mode, len(file) / 1e6, tflite_files.runner(file))


def labelled(model, source, split="train", text_fields=("text",), label_field="label", data_dir=None):
    """Token ids int32 [N,L] and classes int32 [N] of a labelled source, in its order.

    Args:
        model: the `TextClassifier`.
        source: str, see `convnlp.data.sources`.
        split: str. Split of the source, with a slice where wanted. Defaults to "train".
        text_fields: tuple of one or two str. Defaults to `("text",)`.
        label_field: str. Defaults to "label".
        data_dir: str. For TFDS. Default None.
    """
    source = Source(source, split, data_dir)
    task = task_of(model).from_model(model, source, Fields(tuple(text_fields), label_field))
    batches = task.batches(task.read(source), _BATCH_SIZE)
    columns = [(b["token_ids"], b["label"], b["weight"]) for b in batches.as_numpy_iterator()]
    token_ids, labels, weights = (np.concatenate(column) for column in zip(*columns, strict=True))
    return token_ids[weights > 0], labels[weights > 0]


def outputs(run, token_ids):
    """What `Candidate.run` makes of token ids [N,L], in batches as long as their longest text: [N,C]."""
    found = []
    for start in range(0, len(token_ids), _BATCH_SIZE):
        batch = token_ids[start : start + _BATCH_SIZE]
        found.append(run(np.ascontiguousarray(batch[:, : (batch != 0).sum(axis=1).max()])))
    return np.concatenate(found)


def logits(model):
    """`Candidate.run` of the preset itself, on rows of full length."""
    predict = tf.function(lambda inputs: model(inputs, training=False), reduce_retracing=True)

    def run(ids):
        rows = tf.constant(full_rows(ids, model.preprocessor.sequence_length))
        return predict({"token_ids": rows, "padding_mask": rows != 0}).numpy()

    return run


def text_of_length(token_ids, length):
    """Token ids int32 [1,length] without pads: the rows' tokens, one after the other."""
    return np.resize(token_ids[token_ids != 0], (1, length)).astype(np.int32)
