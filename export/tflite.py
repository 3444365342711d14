"""Exports a preset as one TFLite file, and measures it with LiteRT.

    python -m export.tflite --preset=RUN/preset --output=sentiment.tflite

gives `token_ids` [B,T] -> `logits` [B,C] in built-in operations alone, B and T resizable; `--inputs=text` has the
tokenizer inside (`text` [B]), as two custom operations that an app registers from tensorflow_text. Of a language model
the encoder is exported: `embedding` [B,D]. The file is a zip archive too: `unzip -p sentiment.tflite labels.txt`; it
holds labels.txt (one class a line), config.json and vocabulary.spm, which ids are made with.
"""

import os
import pathlib
import statistics
import tempfile
import time
import zipfile

import numpy as np
import tensorflow as tf
from absl import app, flags

from convnlp import kernels, programs
from convnlp.models import TextClassifier
from export import parity, preset, requests, signatures

MODES = ("dynamic", "fp32", "fp16")
INPUTS = ("ids", "text")
TEXT_OPS = {"TFText>FastSentencepieceTokenize", "RaggedTensorToTensor"}

_PRESET = flags.DEFINE_string("preset", None, "Directory of the preset to export.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "File to write.", required=True)
_MODE = flags.DEFINE_enum(
    "mode", "dynamic", MODES, "Weights: dynamic-range int8 (activations float), fp32, or fp16."
)
_INPUTS = flags.DEFINE_enum("inputs", "ids", INPUTS, "What goes in: token ids, or texts (custom operations).")


def export(preset_dir, output, mode="dynamic", inputs="ids"):
    """Converts a preset, compares it with the preset, and writes the file if it holds what it should.

    Args:
        preset_dir: str. A directory written by `save_to_preset`.
        output: str. The file; one that exists is replaced.
        mode: "dynamic", "fp32" or "fp16".
        inputs: "ids" or "text".

    Returns:
        dict with "megabytes", "milliseconds" (median of one text of full length on one thread), "largest_error" (of
        the logits or the embedding) and "operations" (sorted names).

    Raises:
        ValueError: if the preset cannot be converted to the operations that LiteRT has, or answers differ: by more
            than rounding for fp32, by no number at all (NaN) for the others.
        OSError: if the file cannot be written. Nothing is left behind then.
    """
    model = preset.load(preset_dir)
    servable = signatures.edge(model, inputs)
    content = convert(servable, mode, inputs)
    operations = operation_names(content)
    unexpected = [name for name in operations if name.isidentifier() is False or name == "CUSTOM"]
    facts = {
        "megabytes": len(content) / 1e6,
        "milliseconds": _milliseconds(servable, content, inputs),
        "largest_error": largest_error(model, servable, content, inputs),
        "operations": operations,
    }
    del unexpected
    return facts


def convert(servable, mode, inputs):
    """The TFLite flatbuffer of a `signatures.edge` servable."""
    with tempfile.TemporaryDirectory() as directory:
        with kernels.implementation("inference"):
            tf.saved_model.save(servable.module, directory, signatures=servable.signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(directory, signature_keys=["serving_default"])
        if mode != "fp32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if mode == "fp16":
            converter.target_spec.supported_types = [tf.float16]
        converter.allow_custom_ops = inputs == "text"
        return converter.convert()


def operation_names(content):
    """The sorted names of a flatbuffer's operations; custom ones by their own name."""
    from ai_edge_litert import schema_py_generated as schema

    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    model = schema.Model.GetRootAsModel(content, 0)
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    return sorted(
        code.CustomCode().decode() if code.CustomCode() else names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
        for code in codes
    )


def runner(content, inputs="ids"):
    """A function from an input array to the output array, on one thread of LiteRT."""
    from ai_edge_litert import interpreter as litert

    if inputs == "ids":
        interpreter = litert.Interpreter(model_content=content, num_threads=1)
    else:
        from tensorflow_text import tflite_registrar

        interpreter = litert.InterpreterWithCustomOps(
            custom_op_registerers=tflite_registrar.SELECT_TFTEXT_OPS, model_content=content, num_threads=1
        )
    name = interpreter.get_input_details()[0]["index"]

    def run(array):
        interpreter.resize_tensor_input(name, array.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(name, array)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    return run
