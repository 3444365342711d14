"""TFLite models of single functions, for the tests of what they are made of."""

import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from convnlp import kernels


def converted(function, *specs):
    """An interpreter of `function`; the conversion fails on an operation that TFLite has not built in."""
    with kernels.implementation("edge"):
        traced = tf.function(function).get_concrete_function(*specs)
    return Interpreter(model_content=tf.lite.TFLiteConverter.from_concrete_functions([traced]).convert())


def run(interpreter, *values):
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
