"""Lists the operations of a SavedModel that TensorFlow runs after it has optimised the graph."""

import pathlib

import tensorflow as tf

from convnlp.export.operation import Operation, place
from convnlp.export.verification.graph import Graph

_NOTHING = {"Const", "NoOp", "_Arg", "_Retval"}  # these compute nothing


def operations(directory, signature, batch_size, length):
    """Returns the operations that run when a signature gets token ids.

    Args:
        directory: path of a SavedModel.
        signature: str. Its only input must be "token_ids".
        batch_size: int. B.
        length: int. T; the signature is run with ids [B,T].

    Returns:
        list of `Operation`. The operations of a loop or a branch that is a function of its own are listed
        once.

    Raises:
        ValueError: if there is no such signature, or it has other inputs.
    """
    from tensorflow.python.eager import context  # there is no public way to the optimised graph

    specs = _input_names(directory, signature)
    if specs != {"token_ids"}:
        raise ValueError(
            f"`signature` must be one that takes only token_ids. Received: {signature!r}, which "
            f"takes {', '.join(sorted(specs))}"
        )
    model = tf.saved_model.load(str(directory))
    run, ids = model.signatures[signature], tf.ones([batch_size, length], tf.int32)
    context.context().enable_run_metadata()
    try:
        run(token_ids=ids)
        functions = context.context().export_run_metadata().function_graphs
    finally:
        context.context().disable_run_metadata()
    return [
        Operation(node.op, place(node.name))
        for function in functions
        for graph in function.partition_graphs
        for node in graph.node
        if node.op not in _NOTHING
    ]


def _input_names(directory, signature):
    graph = Graph(pathlib.Path(directory))
    if signature not in graph.signatures:
        known = ", ".join(sorted(graph.signatures))
        raise ValueError(f"`signature` must be one of {known}. Received: {signature!r}")
    return set(graph.input_specs(signature))
