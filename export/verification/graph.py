"""Reads the file of a SavedModel without loading the model."""

import pathlib

import numpy as np
from google.protobuf.message import DecodeError
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import dtypes

_INIT = "__saved_model_init_op"
_PRODUCTS = ("MatMul", "BatchMatMulV2", "Einsum")
_LOOK_UPS = {"GatherV2": "Tparams", "ResourceGather": "dtype"}  # and the attribute with the type of the table


class Graph:
    """The graph of a SavedModel that servers run: the one tagged "serve".

    Args:
        directory: str or path. The SavedModel.

    Raises:
        ValueError: if it holds no SavedModel, or one without a graph tagged "serve" or without signatures.

    Attributes:
        signatures: dict, name -> SignatureDef.
        saved_model: SavedModel message, all that the file holds.
    """

    def __init__(self, directory):
        file = pathlib.Path(directory, "saved_model.pb")
        try:
            saved_model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
        except FileNotFoundError:
            raise ValueError(f"{directory} holds no saved_model.pb") from None
        except DecodeError as error:
            raise ValueError(f"{file} is damaged: {error}") from error
        self.saved_model = saved_model
        tagged = [meta for meta in saved_model.meta_graphs if list(meta.meta_info_def.tags) == ["serve"]]
        if not tagged:
            found = [list(meta.meta_info_def.tags) for meta in saved_model.meta_graphs]
            raise ValueError(f"{directory} must have a graph with the tag 'serve'. Received: {found}")
        self._graph = tagged[0].graph_def
        self.signatures = {
            name: signature for name, signature in tagged[0].signature_def.items() if name != _INIT
        }
        if not self.signatures:
            raise ValueError(f"{directory} has no signatures")

    def nodes(self):
        """Yields all nodes of the graph and of its functions."""
        yield from self._graph.node
        for function in self._graph.library.function:
            yield from function.node_def

    def op_names(self):
        """Returns the names of all operations."""
        return {node.op for node in self.nodes()}

    def must_be_compiled(self):
        """Whether XLA has to compile a part of it (`jit_compile=True`)."""
        holders = [*self.nodes(), *self._graph.library.function]
        return any(holder.attr["_XlaMustCompile"].b for holder in holders)

    def product_dtype(self):
        """Returns the type of matrix products, a key of `parity.BOUNDS`: "bfloat16" if any has it."""
        products = (node for node in self.nodes() if node.op in _PRODUCTS)
        is_narrow = any(node.attr["T"].type == types_pb2.DT_BFLOAT16 for node in products)
        return "bfloat16" if is_narrow else "float32"

    def has_int8_tables(self):
        """Whether it looks up rows in a table of int8."""
        return any(
            node.attr[_LOOK_UPS[node.op]].type == types_pb2.DT_INT8
            for node in self.nodes()
            if node.op in _LOOK_UPS
        )

    def tensor_names(self, signature):
        """Returns ({input: tensor}, {output: tensor}) of a signature, by names in the graph such as "x:0"."""
        definition = self.signatures[signature]
        return tuple(
            {name: info.name for name, info in infos.items()}
            for infos in (definition.inputs, definition.outputs)
        )

    def input_specs(self, signature):
        """Returns {input: (NumPy dtype, shape)} of a signature; a size or shape of None is unknown."""
        return _specs(self.signatures[signature].inputs)

    def output_specs(self, signature):
        """Returns the same for its outputs."""
        return _specs(self.signatures[signature].outputs)

    def max_length(self):
        """Returns the most tokens that it generates; None if its signature "ids" generates none.

        For a `PrefixLM` this decides how many tokens of a prompt are kept.
        """
        if "ids" not in self.signatures:
            return None
        _, shape = self.output_specs("ids").get("generated_ids", (None, None))
        return shape[1] if shape and len(shape) == 2 else None


def _specs(infos):
    specs = {}
    for name, info in infos.items():
        dims = [None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim]
        shape = None if info.tensor_shape.unknown_rank else tuple(dims)
        specs[name] = np.dtype(dtypes.as_dtype(info.dtype).as_numpy_dtype), shape
    return specs
