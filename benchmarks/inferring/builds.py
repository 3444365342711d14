"""Makes the file of every variant from one preset, and the logits that all are held against.

To be called in a process of its own, which takes the memory of all these tools along when it ends.
"""

import json
import pathlib

import numpy as np

from benchmarks.inferring import asks
from benchmarks.inferring.parity import centred
from benchmarks.inferring.pieces import FACTS, Pieces
from benchmarks.peers import pytorch_weights
from convnlp.export import preset
from convnlp.export.lite import tflite_files
from convnlp.export.saved_models import versions

PRESET, REFERENCE = "preset", "reference.npz"
_CALIBRATING, _SEED = 50, 1  # texts, and as many rows of random ids; another seed than that of the asks


class Builds:
    """The files of one model.

    Args:
        folder: path, with what `benchmarks.inferring.model.written` writes. What else is there is taken as it
            is.
        texts: list of str, for what needs calibration.
    """

    def __init__(self, folder, texts):
        self.folder, self._texts = pathlib.Path(folder), texts
        self.facts = json.loads((self.folder / FACTS).read_text(encoding="utf-8"))
        self._preset = str(self.folder / PRESET)
        self._model = preset.load(self._preset)

    def build(self, name):
        """Path of what the builder `name` makes, which is made unless it is there."""
        return getattr(self, name)()

    def reference(self, asked):
        """Our float32 logits for the first batch of each of the `Ask`s: dict, name -> [B,C]."""
        return {ask.name: centred(self._logits(ask)) for ask in asked}

    def _logits(self, ask):
        if ask.is_text:
            return np.array(self._model(self._model.preprocessor(ask.batches[0])))
        ids = ask.batches[0]
        return np.array(self._model({"token_ids": ids, "padding_mask": ids != 0}))

    # === Ours ===

    def saved_model(self, **options):
        """What `export.saved_model` writes."""
        base = self.folder / "-".join(["saved_model", *options.values()])
        if not (base / "1").exists():
            versions.export(self._preset, str(base), check=False, **options)
        return base / "1"

    def saved_model_bfloat16(self):
        """The same with `--dtype=bfloat16`."""
        return self.saved_model(dtype="bfloat16")

    def litert_dynamic(self):
        """What `export.tflite` writes by default."""
        return self._litert("dynamic")

    def litert_fp32(self):
        """The same with `--mode=fp32`."""
        return self._litert("fp32")

    def _litert(self, mode):
        def write(path):
            servable, content = tflite_files.converted(self._model, mode)
            path.write_bytes(tflite_files.packed(content, self._model, servable, self._preset, mode, "ids"))

        return self._file(f"litert-{mode}.tflite", write)

    # === Peers ===

    def pytorch_float32(self):
        """The weights of the twin."""
        return self._pytorch("float32")

    def pytorch_bfloat16(self):
        """The same, rounded."""
        return self._pytorch("bfloat16")

    def _pytorch(self, dtype):
        import torch

        def write(path):
            state = pytorch_weights.state(self._model)
            torch.save(
                {name: torch.tensor(value, dtype=getattr(torch, dtype)) for name, value in state.items()},
                path,
            )

        return self._file(f"pytorch-{dtype}.pt", write)

    def onnx_float32(self):
        """The twin by PyTorch's own exporter."""
        import torch

        from benchmarks.peers import pytorch_deployed

        def write(path):
            state = torch.load(self.pytorch_float32())
            pytorch_deployed.export_onnx(pytorch_deployed.classifier(self.facts, state), path)

        return self._file("onnx-float32.onnx", write)

    def onnx_int8(self):
        """Dynamic int8 of all products with weights, and of the embedding; convolutions stay float32."""
        import onnx
        from onnxruntime import quantization

        def write(path):
            proto = onnx.load(self.onnx_float32())
            del proto.graph.value_info[:]  # the quantiser takes PyTorch's shapes for contradictions
            quantization.quantize_dynamic(
                proto,
                path,
                op_types_to_quantize=["MatMul", "Gemm", "Gather"],
                weight_type=quantization.QuantType.QInt8,
            )

        return self._file("onnx-int8.onnx", write)

    def openvino_float32(self):
        """OpenVINO's own format."""
        return self._openvino("openvino-float32", lambda found: found)

    def openvino_bfloat16(self):
        """The same with weights of 16 bits."""
        return self._openvino("openvino-bfloat16", lambda found: found, compress_to_fp16=True)

    def openvino_int8_weights(self):
        """NNCF's compression of the weights; OpenVINO rounds the activations while it runs."""
        import nncf

        mode = nncf.CompressWeightsMode.INT8_SYM
        return self._openvino("openvino-int8-weights", lambda found: nncf.compress_weights(found, mode=mode))

    def openvino_int8(self):
        """NNCF's quantisation of weights and activations, calibrated; convolutions stay as they are.

        With the depthwise convolutions in int8 the model answers wrongly at all lengths but one
        (OpenVINO 2026.4), and is no faster at that.
        """
        import nncf

        data = self._calibration()
        ignored = nncf.IgnoredScope(types=["GroupConvolution", "Convolution"], validate=False)
        return self._openvino(
            "openvino-int8",
            lambda found: nncf.quantize(
                found,
                nncf.Dataset(data),
                model_type=nncf.ModelType.TRANSFORMER,
                subset_size=len(data),
                ignored_scope=ignored,
            ),
        )

    def _calibration(self):
        """Rows like those that are asked: texts, and random ids of all lengths, int64 [1,T] each."""
        random, pieces = np.random.default_rng(_SEED), Pieces(self.folder)
        texts = [pieces([text]) for text in self._texts[:_CALIBRATING]]
        lengths = np.geomspace(8, self.facts["sequence_length"], _CALIBRATING).astype(int)
        below = self.facts["sizes"]["vocabulary_size"]
        rows = [random.integers(3, below, [1, length]) for length in lengths]
        return [row.astype(np.int64) for row in [*texts, *rows]]

    def _openvino(self, name, change, compress_to_fp16=False):
        import openvino

        def write(path):
            found = change(openvino.Core().read_model(self.onnx_float32()))
            openvino.save_model(found, path, compress_to_fp16=compress_to_fp16)

        return self._file(f"{name}.xml", write)

    def _file(self, name, write):
        path = self.folder / name
        if not path.exists():
            write(path)
        return path


def prepare(folder, texts, builders, asks_path):
    """Makes the files of one model and its reference.

    Args:
        folder: str, see `Builds`.
        texts: list of str.
        builders: list of str, methods of `Builds`.
        asks_path: str, of the asks.

    Returns:
        dict, builder -> str, the path of what it has made.
    """
    builds = Builds(folder, texts)
    found = {name: str(builds.build(name)) for name in builders}
    np.savez(builds.folder / REFERENCE, **builds.reference(asks.read(asks_path).values()))
    return found


def megabytes(path):
    """Of a variant's files: a directory, or a file and those beside it that differ in their ending."""
    path = pathlib.Path(path)
    files = path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.stem}.*")
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6
