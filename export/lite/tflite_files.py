"""Writes TFLite files, and measures their speed and their distance from the preset."""

import os
import statistics
import time

import numpy as np

from convnlp import outputs
from convnlp.export import edge_model, preset
from convnlp.export.lite import conversion, forms, metadata, refusal
from convnlp.export.saved_models import signatures
from convnlp.export.verification import requests
from convnlp.models import preset_names
from convnlp.models.folded_constants import folded
from convnlp.tasks import task_of

TIMED_RUNS = 31


def export(preset_dir, output, mode="dynamic", inputs="ids", rows=None):
    """Converts a preset, compares it with the preset, and writes the file.

    Args:
        preset_dir: str. Name, or directory written by `save_to_preset`.
        output: str. The file; an existing file is replaced.
        mode: str. One of `convnlp.export.lite.forms.FORMS`.
        inputs: "ids" or "text".
        rows: list of int32 [1,T]. Token ids for a mode that is `calibrated`, see `calibration.rows`; None for
            the others.

    Returns:
        dict with "megabytes" (size of the file), "milliseconds" (median for one text of full length on one
        thread), "output" (the name of what the file gives), and, over various texts at batch 1, 2 and 5,
        "largest_value", "range" (the largest minus the smallest) and "largest_error" of that output.

    Raises:
        ValueError: if `output` cannot be a file or is in the preset, or the preset cannot be converted, or
            the result has custom operations that it should not have, a NaN, or an error beyond the `bound` of
            the form.
        OSError: if the file cannot be written. In this case, nothing is left behind.
    """
    outputs.check_file("output", output, inputs=[preset_names.locate(preset_dir)])  # before the work
    model = preset.load(preset_dir)
    servable, content = converted(model, mode, inputs, rows)
    content = packed(content, model, servable, preset_dir, mode, inputs)
    measured = _measured(model, servable, content, inputs)
    forms.form_named(mode).require_near(measured["largest_error"], measured["range"])
    outputs.write_file(output, content)
    return {**measured, "megabytes": len(content) / 1e6}


def converted(model, mode, inputs="ids", rows=None):
    """Returns the model as a servable and as a flatbuffer without metadata; arguments as for `export`.

    Raises:
        ValueError: if TFLite lacks operations; the message names the mixers or else the operations.
    """
    try:
        with folded(model):
            servable = signatures.edge(model, inputs)
            content = conversion.convert(servable, mode, inputs, rows)
    except conversion.UnsupportedError as error:
        raise ValueError(refusal.message(model, error)) from error
    custom = conversion.custom_operations(content)
    expected = conversion.TEXT_OPERATIONS if inputs == "text" else set()
    if custom != expected:
        raise ValueError(
            f"custom operations must be {expected or '{}'} for inputs={inputs}. Received: {custom or '{}'}"
        )
    return servable, content


def packed(content, model, servable, preset_dir, mode, inputs):
    """Returns the bytes of the file: a flatbuffer with its metadata, followed by the preset's files."""
    facts = _facts(model, servable, mode, inputs)
    files = {os.path.basename(file): file for file in preset.asset_files(preset_dir)}
    return metadata.with_archive(metadata.with_metadata(content, facts), files, facts)


def _facts(model, servable, mode, inputs):
    """Returns the facts that the file holds about itself, see `EdgeModel`."""
    answers = task_of(model).answers(model)
    tokenizer = model.preprocessor.tokenizer
    return {
        "inputs": inputs,
        "output": answers.edge_output,
        "num_texts": len(answers.text_inputs),
        "mode": mode,
        "sequence_length": servable.rows.max_length,
        "labels": answers.labels,
        "pad_token_id": tokenizer.pad_token_id,
        "end_token_id": tokenizer.end_token_id,
    }


def runner(content, inputs="ids"):
    """Returns a function from the input array to the output array, on one thread of LiteRT.

    Args:
        content: bytes of the file.
        inputs: "ids" or "text".
    """
    from ai_edge_litert import interpreter as litert

    if inputs == "ids":
        interpreter = litert.Interpreter(model_content=content, num_threads=1)
    else:
        from tensorflow_text import tflite_registrar

        interpreter = litert.InterpreterWithCustomOps(
            custom_op_registerers=tflite_registrar.SELECT_TFTEXT_OPS, model_content=content, num_threads=1
        )
    return edge_model.runner(interpreter)


def _measured(model, servable, content, inputs):
    run = runner(content, inputs)
    answers = task_of(model).answers(model)
    reference, errors, values = answers.reference(), [], []
    for batch_size in requests.BATCH_SIZES:
        request = requests.request(servable, "serving_default", batch_size)
        (array,) = request.values()
        expected = reference.edge(request)
        errors.append(answers.compare(run(array), expected)["largest_error"])
        values.append(np.ravel(answers.edge_values(expected)))
    values = np.concatenate(values)
    longest = array[-1:]  # the last text fills its row
    return {
        "milliseconds": milliseconds(run, longest),
        "output": answers.edge_output,
        "largest_value": float(np.max(np.abs(values))),
        "range": float(np.ptp(values)),
        "largest_error": float(np.max(errors)),
    }


def milliseconds(run, array):
    """Returns the median time of `run(array)` in milliseconds."""
    run(array)
    seconds = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        run(array)
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds)
