"""Refuses SavedModels whose graph opens files of its own choice, uses the network, or calls Python.

A SavedModel is a program: TensorFlow runs whatever operations its graph names. Those that compute are left
alone. Of those that reach further, only two kinds are needed: the operations that restore the variables, and
the tables that read an asset of the SavedModel. Checksums do not help against the others, since whoever
writes such a model writes its sums too.
"""

import re

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import meta_graph_pb2

# Files, of any kind; of a graph that arrives as a string, nobody knows what it holds.
_FILES = """
CSVDataset CSVDatasetV2 CacheDataset CacheDatasetV2 CalibrationStatisticsSaver CreateSummaryDbWriter
CreateSummaryFileWriter DTensorRestoreV2 DatasetFromGraph DatasetToTFRecord DeserializeIterator
DistributedSave DumpTensor ExperimentalCSVDataset
ExperimentalDatasetToTFRecord ExperimentalLMDBDataset ExperimentalMatchingFilesDataset
FileSystemSetConfiguration FixedLengthRecordDataset FixedLengthRecordDatasetV2 FixedLengthRecordReader
FixedLengthRecordReaderV2 GenerateVocabRemapping ImmutableConst ImportEvent InitializeTRTResource LMDBDataset
LMDBReader ListSnapshotChunksDataset LoadAndRemapMatrix LoadDataset MatchingFiles MatchingFilesDataset
ReadFile RecordInput SaveDataset SaveDatasetV2 Skipgram SnapshotChunkDataset SnapshotDataset
SnapshotDatasetReader SnapshotDatasetV2 SnapshotNestedDatasetReader TFRecordDataset TFRecordDatasetV2
TFRecordReader TFRecordReaderV2 TextLineDataset TextLineReader TextLineReaderV2 WholeFileReader
WholeFileReaderV2 WriteFile
"""
_NETWORK = """
DataServiceDataset DataServiceDatasetV2 DataServiceDatasetV3 DataServiceDatasetV4 RegisterDataset
RegisterDatasetV2 RpcCall RpcClient RpcServer RpcServerRegister RpcServerStart
"""
_PYTHON = "EagerPyFunc PyFunc PyFuncStateless"
NEVER = frozenset(f"{_FILES} {_NETWORK} {_PYTHON}".split())
# Where the name of a file or an address is an attribute, and the values that name none.
HARMLESS = {
    "debug_ops_spec": rb"",
    "debug_urls": rb"",
    "descriptor_source": rb"|local://|bytes://.*",
    "output_stream": rb"stdout|stderr|log\(\w+\)",
    "vocab_file": rb"",
}
SAVE = frozenset(["MergeV2Checkpoints", "Save", "SaveSlices", "SaveV2"])
RESTORE = frozenset(["Restore", "RestoreSlice", "RestoreV2"])
TABLES = frozenset(["InitializeTableFromTextFile", "InitializeTableFromTextFileV2"])
_INIT = "__saved_model_init_op"
_ASSET_COLLECTION = "saved_model_assets"
_INIT_COLLECTIONS = ("legacy_init_op", "saved_model_main_op")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_TABLES_FILE = 1  # the input of a table that names its file


def check(saved_model, directory):
    """Looks at every operation of a SavedModel, without running any.

    Args:
        saved_model: SavedModel message.
        directory: str or path, for the error.

    Raises:
        ValueError: if an operation opens a file that is not part of the SavedModel, uses the network or calls
            Python, or if an asset is said to be outside of the directory; the message names the first one.
    """
    for meta_graph in saved_model.meta_graphs:
        try:
            assets = _assets(meta_graph)
            found = _Graph(meta_graph, assets).violation()
        except (DecodeError, IndexError):  # objects, or inputs of operations, that are not there
            raise ValueError(f"{directory}: its graph is damaged: it names a part that is missing") from None
        for asset in assets:
            if asset.filename.startswith("/") or ".." in re.split(r"[/\\]", asset.filename):
                raise ValueError(
                    f"{directory}: an asset must be inside the SavedModel. Received: {_cut(asset.filename)}"
                )
        if found:
            function, node = found
            place = f"of function {_cut(function)}" if function else "of the graph"
            raise ValueError(
                f"{directory}: its graph must not open files of its own choice, use the network or call "
                f"Python. Received: the operation {node.op}, node {_cut(node.name)} {place}"
            )


def _cut(name):
    return repr(name[:200])


def _assets(meta_graph):
    """Returns the assets where TensorFlow looks for them: a list of AssetFileDef."""
    collections = meta_graph.collection_def
    if meta_graph.asset_file_def or _ASSET_COLLECTION not in collections:
        return list(meta_graph.asset_file_def)
    packed = collections[_ASSET_COLLECTION].any_list.value
    return [meta_graph_pb2.AssetFileDef.FromString(each.value) for each in packed]


class _Graph:
    """A graph with its functions: a place in it is (name of the function or None, NodeDef)."""

    def __init__(self, meta_graph, assets):
        graph = meta_graph.graph_def
        self._meta_graph = meta_graph
        self._bodies = [(None, graph.node)]
        self._arguments = {}
        for function in graph.library.function:
            self._bodies.append((function.signature.name, function.node_def))
            self._arguments[function.signature.name] = [each.name for each in function.signature.input_arg]
        self._nodes = {name: {node.name: node for node in nodes} for name, nodes in self._bodies}
        self._objects = meta_graph.object_graph_def
        names = {_node_of(asset.tensor_info.name) for asset in assets}
        self._assets = names - self._ends("inputs")  # what a client feeds

    def violation(self):
        """Returns the first place with an operation that must not be there, or None."""
        places = list(self._places())
        for place in places:
            if place[1].op in NEVER or _names_something(place[1]):
                return place
        # The operations that each of them may not run. Only what runs at the start gets the paths of assets.
        if {node.op for _, node in places} & (SAVE | RESTORE | TABLES):
            restoring = self._reached([self._meta_graph.saver_def.restore_op_name], ())
            for reached, wrong in (
                (self._reached(self._ends("outputs"), ()), SAVE | RESTORE | TABLES),
                (self._reached(self._init_ops(), self._functions_of_objects()), SAVE | RESTORE),
                (restoring, SAVE | TABLES),
            ):
                if found := next((place for place in reached if place[1].op in wrong), None):
                    return found
        for function, node in places:
            if node.op in TABLES and not self._is_asset(function, node.input[_TABLES_FILE]):
                return function, node
        return None

    def _places(self):
        """Yields all places, also those that share a name."""
        for function, nodes in self._bodies:
            for node in nodes:
                yield function, node

    def _ends(self, side):
        """Returns the nodes of the inputs or outputs of all signatures."""
        definitions = self._meta_graph.signature_def.items()
        infos = [info for name, each in definitions if name != _INIT for info in getattr(each, side).values()]
        return {_node_of(name) for info in infos for name in _tensors(info)}

    def _init_ops(self):
        signatures, collections = self._meta_graph.signature_def, self._meta_graph.collection_def
        infos = signatures[_INIT].outputs.values() if _INIT in signatures else ()  # to ask would add it
        found = [info.name for info in infos]
        for name in _INIT_COLLECTIONS:
            found += collections[name].node_list.value if name in collections else ()
        return found

    def _functions_of_objects(self):
        """Returns the functions that `tf.saved_model.load` calls or gives, except those of savers."""
        objects = self._objects.nodes
        savers = {
            name
            for each in objects
            for saver in each.saveable_objects.values()
            for node in (saver.save_function, saver.restore_function)
            for name in objects[node].function.concrete_functions
        }
        return set(self._objects.concrete_functions) - savers

    def _reached(self, roots, functions):
        """Returns the places that run with these tensors of the graph and with these functions."""
        nodes = _closure(map(_node_of, roots), self._nodes[None], lambda node: map(_node_of, node.input))
        found = [(None, node) for node in nodes]
        functions = {*functions, *_called_by(node for _, node in found)}
        bodies = {name: (name, nodes.values()) for name, nodes in self._nodes.items() if name is not None}
        for name, body in _closure(functions, bodies, lambda each: _called_by(each[1])):
            found += [(name, node) for node in body]
        return found

    def _is_asset(self, function, tensor):
        """Whether a tensor of a function is nothing but the name of an asset, wherever it comes from."""
        wanted, done = [(function, _node_of(tensor))], set()
        while wanted:
            function, name = wanted.pop()
            if (function, name) in done:
                continue
            done.add((function, name))
            node = self._nodes[function].get(name)
            if function is None and name in self._assets:
                continue
            if node is not None and node.op == "Identity":
                wanted.append((function, _node_of(node.input[0])))
            elif node is not None and node.op == "ReadVariableOp" and function is None:
                if (given := self._assigned(_node_of(node.input[0]))) is None:
                    return False
                wanted += given
            elif name in self._arguments.get(function, ()):
                if (given := self._given(function, name)) is None:
                    return False
                wanted += given
            else:
                return False
        return True

    def _assigned(self, variable):
        """Returns what is assigned to a variable: a list of (None, node); None if it may be anything."""
        handle, found = self._nodes[None].get(variable), []
        for function, node in self._places():
            is_other = node.op == "VarHandleOp" and (function, node.name) != (None, variable)
            if handle is None or (is_other and _shared_name(node) == _shared_name(handle)):
                return None
            if function is None and variable in map(_node_of, node.input):
                if node.op == "AssignVariableOp":
                    found.append((None, _node_of(node.input[1])))
                elif node.op not in ("ReadVariableOp", "VarIsInitializedOp"):
                    return None
        return found

    def _given(self, function, argument):
        """Returns what is given for an argument: a list of (function, node); None if it may be anything."""
        place = self._arguments[function].index(argument)
        if function in self._objects.concrete_functions:
            bound = self._objects.concrete_functions[function].bound_inputs
            place_bound = place - len(self._arguments[function]) + len(bound)
            if place_bound < 0 or self._objects.nodes[bound[place_bound]].WhichOneof("kind") != "asset":
                return None
        found = []
        for caller, node in self._places():
            if function in _called(node):
                if node.op not in (*_CALLS, function):
                    return None
                found.append((caller, _node_of(node.input[place])))
        return found


def _closure(roots, items, following):
    """Yields the items with these keys, and with the keys that `following` gives for them, once each."""
    wanted, done = list(roots), set()
    while wanted:
        key = wanted.pop()
        if key not in done and key in items:
            done.add(key)
            yield items[key]
            wanted += following(items[key])


def _node_of(tensor):
    """Returns the name of a node, or of an argument, from "node:0", "node:output:0" or "^node"."""
    return tensor.removeprefix("^").partition(":")[0]


def _shared_name(node):
    return node.attr["shared_name"].s if "shared_name" in node.attr else b""  # to ask would add it


def _tensors(info):
    """Returns the names of the tensors of a TensorInfo."""
    kind = info.WhichOneof("encoding")
    if kind == "coo_sparse":
        coo = info.coo_sparse
        return [coo.values_tensor_name, coo.indices_tensor_name, coo.dense_shape_tensor_name]
    if kind == "composite_tensor":
        return [name for each in info.composite_tensor.components for name in _tensors(each)]
    return [info.name]


def _called(node):
    """Returns the names of the functions that a node may call, a set."""
    found = {node.op}
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            found.add(value.func.name)
        elif kind == "list":
            found |= {each.name for each in value.list.func}
    return found


def _called_by(nodes):
    return {name for node in nodes for name in _called(node)}


def _names_something(node):
    """Whether an attribute of a node names a file or an address."""
    for name, harmless in HARMLESS.items():
        if name in node.attr:
            value = node.attr[name]
            values = [*value.list.s, *([value.s] if value.WhichOneof("value") == "s" else [])]
            if not all(re.fullmatch(harmless, each, re.DOTALL) for each in values):
                return True
    return False
