"""TFLite files: conversion, what is in them, how fast and how far from the preset they are."""

import os
import pathlib
import statistics
import tempfile
import time
import zipfile

import numpy as np
import tensorflow as tf

from convnlp import kernels
from export import parity, preset, requests, signatures

MODES = ("dynamic", "fp32", "fp16")
INPUTS = ("ids", "text")
TEXT_OPERATIONS = {"TFText>FastSentencepieceTokenize", "RaggedTensorToTensor"}
TIMED_RUNS = 31


def export(preset_dir, output, mode="dynamic", inputs="ids"):
    """Converts a preset, compares it with the preset, and writes the file.

    Args:
        preset_dir: str. A directory written by `save_to_preset`.
        output: str. The file; one that exists is replaced.
        mode: "dynamic", "fp32" or "fp16".
        inputs: "ids" or "text".

    Returns:
        dict with "megabytes" (of the file), "milliseconds" (median for one text of full length on one thread)
        and "largest_error" (of a logit, or of the embedding, over texts of all kinds at batch 1, 2 and 5).

    Raises:
        ValueError: if the preset cannot be converted, or the result is not what was asked for: custom
            operations, a number that is none, or for fp32 an error beyond rounding.
        OSError: if the file cannot be written. Nothing is left behind then.
    """
    model = preset.load(preset_dir)
    servable = signatures.edge(model, inputs)
    content = convert(servable, mode, inputs)
    custom, expected = custom_operations(content), TEXT_OPERATIONS if inputs == "text" else set()
    if custom != expected:
        raise ValueError(f"{inputs} models have the custom operations {expected or '{}'}. Received: {custom}")
    facts = _measured(model, servable, content, inputs)
    bound = parity.BOUND if mode == "fp32" else np.finfo(np.float32).max
    if not facts["largest_error"] <= bound:  # NaN too
        raise ValueError(f"the {mode} model differs from the preset by {facts['largest_error']:.3g}")
    output = pathlib.Path(output)
    _write(content, model, preset_dir, output)
    return {**facts, "megabytes": output.stat().st_size / 1e6}


def convert(servable, mode, inputs):
    """The flatbuffer of a `signatures.edge` servable, as bytes."""
    with tempfile.TemporaryDirectory() as directory:
        with kernels.implementation("inference"):
            tf.saved_model.save(servable.module, directory, signatures=servable.signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(directory, signature_keys=["serving_default"])
        converter.allow_custom_ops = inputs == "text"
        if mode != "fp32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if mode == "fp16":
            converter.target_spec.supported_types = [tf.float16]
        try:
            return converter.convert()
        except Exception as error:  # of several classes, without a common one of their own
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"TFLite cannot hold this model: {reason}") from error


def custom_operations(content):
    """The names of the operations in a flatbuffer that are not built into TFLite; Flex ones count too."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(content, 0)
    codes = [model.OperatorCodes(i).CustomCode() for i in range(model.OperatorCodesLength())]
    return {code.decode() for code in codes if code}


def runner(content, inputs="ids"):
    """A function from an input array to the output array, on one thread of LiteRT.

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
    source, target = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]

    def run(array):
        if tuple(interpreter.get_input_details()[0]["shape"]) != array.shape:
            interpreter.resize_tensor_input(source, array.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(source, array)
        interpreter.invoke()
        return interpreter.get_tensor(target)

    return run


def _measured(model, servable, content, inputs):
    run = runner(content, inputs)
    reference = parity.reference(model)
    errors = []
    for batch_size in requests.BATCH_SIZES:
        request = requests.request(servable, "serving_default", batch_size)
        (array,) = request.values()
        errors.append(np.max(np.abs(run(array) - reference.edge(request))))
    longest = array[-1:]  # the last text fills its row
    run(longest)
    seconds = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        run(longest)
        seconds.append(time.perf_counter() - start)
    return {"milliseconds": 1e3 * statistics.median(seconds), "largest_error": float(np.max(errors))}


def _write(content, model, preset_dir, output):
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        with zipfile.ZipFile(partial, "a") as archive:  # behind the flatbuffer, where TFLite does not look
            for file in preset.asset_files(preset_dir):
                archive.write(file, os.path.basename(file))
            if hasattr(model, "num_classes"):
                archive.writestr(
                    "labels.txt", "".join(f"{label}\n" for label in signatures.label_names(model))
                )
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
