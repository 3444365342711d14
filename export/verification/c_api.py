"""Runs signatures by TensorFlow's C API: `python -I c_api.py JOBS RESULTS`, in a process without tensorflow.

These are the functions that servers and programs in other languages call. JOBS is a pickled list of jobs as
in fresh_run.py; RESULTS is a pickled pair of rows, as there, and the serialized OpList of what TensorFlow
itself registers. This file is run, not imported, and imports nothing from the project.
"""

import ctypes
import importlib.util
import pathlib
import pickle
import sys

import numpy as np

# TF_DataType of the NumPy types that signatures may have.
_TYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "int64": 9,
    "bool": 10,
    "uint16": 17,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}
_NAMES = {number: name for name, number in _TYPES.items()}
_STRING, _STRING_BYTES = 7, 24  # TF_STRING, sizeof(TF_TString)


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("deallocator", ctypes.c_void_p)]


class _Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_SIGNATURES = {
    "TF_NewStatus": (_POINTER, []),
    "TF_GetCode": (_INT, [_POINTER]),
    "TF_Message": (_TEXT, [_POINTER]),
    "TF_GetAllOpList": (ctypes.POINTER(_Buffer), []),
    "TF_LoadLibrary": (_POINTER, [_TEXT, _POINTER]),
    "TF_NewGraph": (_POINTER, []),
    "TF_NewSessionOptions": (_POINTER, []),
    "TF_LoadSessionFromSavedModel": (
        _POINTER,
        [_POINTER, _POINTER, _TEXT, ctypes.POINTER(_TEXT), _INT, _POINTER, _POINTER, _POINTER],
    ),
    "TF_CloseSession": (None, [_POINTER, _POINTER]),
    "TF_DeleteSession": (None, [_POINTER, _POINTER]),
    "TF_DeleteGraph": (None, [_POINTER]),
    "TF_GraphOperationByName": (_POINTER, [_POINTER, _TEXT]),
    "TF_SessionRun": (
        None,
        [*[_POINTER] * 4, _INT, _POINTER, _POINTER, _INT, _POINTER, _INT, _POINTER, _POINTER],
    ),
    "TF_AllocateTensor": (_POINTER, [_INT, _POINTER, _INT, ctypes.c_size_t]),
    "TF_DeleteTensor": (None, [_POINTER]),
    "TF_TensorType": (_INT, [_POINTER]),
    "TF_NumDims": (_INT, [_POINTER]),
    "TF_Dim": (ctypes.c_int64, [_POINTER, _INT]),
    "TF_TensorData": (_POINTER, [_POINTER]),
    "TF_TensorByteSize": (ctypes.c_size_t, [_POINTER]),
    "TF_StringInit": (None, [_POINTER]),
    "TF_StringCopy": (None, [_POINTER, _TEXT, ctypes.c_size_t]),
    "TF_StringGetDataPointer": (_POINTER, [_POINTER]),
    "TF_StringGetSize": (ctypes.c_size_t, [_POINTER]),
}


def main(jobs_path, results_path):
    """Answers all jobs, first those without text operations, before tensorflow_text is loaded."""
    with open(jobs_path, "rb") as file:
        jobs = sorted(pickle.load(file), key=lambda job: job[1])
    library = _library("tensorflow")
    op_list = library.TF_GetAllOpList().contents
    core_ops = ctypes.string_at(op_list.data, op_list.length)
    has_text_ops, rows = False, []
    for directory, uses_text_ops, tensor_names, requests in jobs:
        if uses_text_ops and not has_text_ops:
            _load_text_ops(library)
            has_text_ops = True
        try:
            session = _Session(library, directory)
        except Exception as error:
            rows += [(directory, name, "c_api", inputs, str(error)) for name, inputs in requests]
            continue
        for name, inputs in requests:
            # What is said last is the reason if the process dies.
            print("asked", name, *(value.shape for value in inputs.values()), file=sys.stderr, flush=True)
            try:
                outputs = session.run(*tensor_names[name], inputs)
            except Exception as error:
                outputs = str(error)
            rows.append((directory, name, "c_api", inputs, outputs))
        session.close()
    with open(results_path, "wb") as file:
        pickle.dump((rows, core_ops), file)


def _library(package):
    """Loads TensorFlow's shared libraries, and declares the types of the functions called."""
    folder = pathlib.Path(importlib.util.find_spec(package).origin).parent
    sys.modules["tensorflow"] = None  # importing it now raises ImportError
    for path in sorted(folder.glob("libtensorflow_framework.so*")):
        ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    (path,) = folder.glob("libtensorflow_cc.so*")
    library = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _load_text_ops(library):
    folder = pathlib.Path(importlib.util.find_spec("tensorflow_text").origin).parent
    for path in sorted(folder.glob("*/*/_*.so")) + sorted(folder.glob("*/_*.so")):
        with _Status(library) as status:
            library.TF_LoadLibrary(str(path).encode(), status)


class _Status:
    """`with _Status(library) as status:` raises RuntimeError if a call inside leaves an error in `status`."""

    def __init__(self, library):
        self._library = library

    def __enter__(self):
        self._status = self._library.TF_NewStatus()
        return self._status

    def __exit__(self, *_):
        if self._library.TF_GetCode(self._status):
            raise RuntimeError(self._library.TF_Message(self._status).decode("utf-8", "replace"))


class _Session:
    """A session of a SavedModel with restored variables."""

    def __init__(self, library, directory):
        self._library = library
        self._graph = library.TF_NewGraph()
        tags = (_TEXT * 1)(b"serve")
        options = library.TF_NewSessionOptions()
        with _Status(library) as status:
            self._session = library.TF_LoadSessionFromSavedModel(
                options, None, directory.encode(), tags, 1, self._graph, None, status
            )

    def run(self, input_names, output_names, inputs):
        """Returns {output: array} for {input: array}, given the names of their tensors in the graph."""
        library = self._library
        feeds = (_Output * len(inputs))(*(self._output(input_names[name]) for name in inputs))
        fetches = (_Output * len(output_names))(*map(self._output, output_names.values()))
        results = (_POINTER * len(output_names))()
        values = [_tensor(library, value) for value in inputs.values()]
        with _Status(library) as status:
            library.TF_SessionRun(
                self._session,
                None,
                feeds,
                (_POINTER * len(values))(*values),
                len(values),
                fetches,
                results,
                len(results),
                None,
                0,
                None,
                status,
            )
        arrays = {name: _array(library, result) for name, result in zip(output_names, results, strict=True)}
        for tensor in [*values, *results]:  # only now: an output may share its strings with an input
            library.TF_DeleteTensor(tensor)
        return arrays

    def close(self):
        with _Status(self._library) as status:
            self._library.TF_CloseSession(self._session, status)
            self._library.TF_DeleteSession(self._session, status)
        self._library.TF_DeleteGraph(self._graph)

    def _output(self, tensor_name):
        name, _, index = tensor_name.partition(":")
        operation = self._library.TF_GraphOperationByName(self._graph, name.encode())
        if not operation:
            raise RuntimeError(f"the graph has no operation {name}")
        return _Output(operation, int(index or 0))


def _tensor(library, array):
    """Returns a TF_Tensor with a copy of a NumPy array; an array of objects holds bytes."""
    dims = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    if array.dtype != object:
        array = np.ascontiguousarray(array)
        tensor = library.TF_AllocateTensor(_TYPES[array.dtype.name], dims, len(array.shape), array.nbytes)
        ctypes.memmove(library.TF_TensorData(tensor), array.ctypes.data, array.nbytes)
        return tensor
    tensor = library.TF_AllocateTensor(_STRING, dims, array.ndim, array.size * _STRING_BYTES)
    for address, value in zip(_strings(library, tensor, array.size), array.flat, strict=True):
        library.TF_StringInit(address)
        library.TF_StringCopy(address, value, len(value))
    return tensor


def _array(library, tensor):
    """Returns a NumPy array with a copy of a TF_Tensor."""
    shape = [library.TF_Dim(tensor, axis) for axis in range(library.TF_NumDims(tensor))]
    number = library.TF_TensorType(tensor)
    if number == _STRING:
        array = np.empty(shape, object)
        array.flat = [
            ctypes.string_at(library.TF_StringGetDataPointer(address), library.TF_StringGetSize(address))
            for address in _strings(library, tensor, array.size)
        ]
    elif number in _NAMES:
        content = ctypes.string_at(library.TF_TensorData(tensor), library.TF_TensorByteSize(tensor))
        array = np.frombuffer(content, _NAMES[number]).reshape(shape)
    else:
        raise RuntimeError(f"an output has the unsupported TF_DataType {number}")
    return array


def _strings(library, tensor, size):
    """Returns the addresses of a string tensor's elements."""
    start = library.TF_TensorData(tensor) if size else 0
    return [start + _STRING_BYTES * index for index in range(size)]


if __name__ == "__main__":
    main(*sys.argv[1:])
