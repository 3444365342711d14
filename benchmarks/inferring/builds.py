"""Makes the files of all variants from one preset, and the logits that all variants are compared with.

Call it in a process of its own: the memory of all these tools is freed when that process ends.
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
_CALIBRATING, _SEED = 50, 1  # texts, and as many rows of random ids; not the seed of the inputs


class Builds:
    """The files of one model.

    Args:
        folder: path of the directory that `benchmarks.inferring.model.written` wrote to. Files of variants
            that exist there are not made again.
        texts: list of str, for calibration.
    """

    def __init__(self, folder, texts):
        self.folder, self._texts = pathlib.Path(folder), texts
        self.facts = json.loads((self.folder / FACTS).read_text(encoding="utf-8"))
        self._preset = str(self.folder / PRESET)
        self._model = preset.load(self._preset)

    def build(self, name):
        """Returns the path of what the builder `name` makes, and makes it if it does not exist."""
        return getattr(self, name)()

    def reference(self, asked):
        """Returns our float32 logits for the first batch of each `Ask`: dict, name -> [B,C]."""
        return {ask.name: centred(self._logits(ask)) for ask in asked}

    def _logits(self, ask):
        if ask.is_text:
            return np.array(self._model(self._model.preprocessor(ask.batches[0])))
        ids = ask.batches[0]
        return np.array(self._model({"token_ids": ids, "padding_mask": ids != 0}))

    # === Ours ===

    def saved_model(self, **options):
        """Builds what `export.saved_model` writes."""
        base = self.folder / "-".join(["saved_model", *options.values()])
        if not (base / "1").exists():
            versions.export(self._preset, str(base), check=False, **options)
        return base / "1"

    def saved_model_bfloat16(self):
        """Builds the same with `--dtype=bfloat16`."""
        return self.saved_model(dtype="bfloat16")

    def litert_dynamic(self):
        """Builds what `export.tflite` writes by default."""
        return self._litert("dynamic")

    def litert_fp32(self):
        """Builds the same with `--mode=fp32`."""
        return self._litert("fp32")

    def _litert(self, mode):
        def write(path):
            servable, content = tflite_files.converted(self._model, mode)
            path.write_bytes(tflite_files.packed(content, self._model, servable, self._preset, mode, "ids"))

        return self._file(f"litert-{mode}.tflite", write)

    # === Peers ===

    def pytorch_float32(self):
        """Builds the weights of the twin in PyTorch."""
        return self._pytorch("float32")

    def pytorch_bfloat16(self):
        """Builds the same, rounded to bfloat16."""
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
        """Exports the twin with PyTorch's own exporter."""
        import torch

        from benchmarks.peers import pytorch_deployed

        def write(path):
            state = torch.load(self.pytorch_float32())
            pytorch_deployed.export_onnx(pytorch_deployed.classifier(self.facts, state), path)

        return self._file("onnx-float32.onnx", write)

    def onnx_int8(self):
        """Quantises all products with weights, and the embedding, to dynamic int8.

        The convolutions stay float32.
        """
        import onnx
        from onnxruntime import quantization

        def write(path):
            proto = onnx.load(self.onnx_float32())
            del proto.graph.value_info[:]  # the quantiser rejects PyTorch's shapes as contradictory
            quantization.quantize_dynamic(
                proto,
                path,
                op_types_to_quantize=["MatMul", "Gemm", "Gather"],
                weight_type=quantization.QuantType.QInt8,
            )

        return self._file("onnx-int8.onnx", write)

    def openvino_float32(self):
        """Converts the ONNX file to OpenVINO's own format."""
        return self._openvino("openvino-float32", lambda found: found)

    def openvino_bfloat16(self):
        """Does the same, with weights stored in 16 bits."""
        return self._openvino("openvino-bfloat16", lambda found: found, compress_to_fp16=True)

    def openvino_int8_weights(self):
        """Compresses the weights with NNCF; OpenVINO quantises the activations at run time."""
        import nncf

        mode = nncf.CompressWeightsMode.INT8_SYM
        return self._openvino("openvino-int8-weights", lambda found: nncf.compress_weights(found, mode=mode))

    def openvino_int8(self):
        """Quantises weights and activations with NNCF, calibrated; convolutions stay as they are.

        With the depthwise convolutions in int8, the model's answers are wrong at all lengths except one
        (OpenVINO 2026.4), and it is no faster.
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
        """Returns rows like the inputs: texts, and random ids of all lengths, each int64 [1,T]."""
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
        asks_path: str, the file of the inputs.

    Returns:
        dict, builder -> str, the path of what it made.
    """
    builds = Builds(folder, texts)
    found = {name: str(builds.build(name)) for name in builders}
    np.savez(builds.folder / REFERENCE, **builds.reference(asks.read(asks_path).values()))
    return found


def megabytes(path):
    """Returns the size of a variant's files: a directory, or all files with the same stem as `path`."""
    path = pathlib.Path(path)
    files = path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.stem}.*")
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6
