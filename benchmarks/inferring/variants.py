"""The forms in which one classifier is run: each has a row here, a builder of its file, and a runner."""

import dataclasses
import importlib.util
import shutil

# The largest error of a logit, as a share of the largest logit of all inputs.
BOUNDS = {"float32": 1e-3, "bfloat16": 0.05, "int8": 0.15}


@dataclasses.dataclass(frozen=True)
class Variant:
    """One form.

    Args:
        key: str, its name in flags and files.
        title: str, its name on the page.
        precision: str, a key of `BOUNDS`: the narrowest type in which it multiplies.
        builder: str, the method of `benchmarks.inferring.builds.Builds` that makes its file.
        runner: str, class of `benchmarks.inferring.runners`.
        needs: tuple of str, packages.
        options: dict, keyword arguments of the runner.
        ours: bool, whether it is a form of convnlp.
        longest: int, the largest number of tokens in a row; None for the model's limit.
        has_twin: bool, whether it computes the same as the others.
    """

    key: str
    title: str
    precision: str
    builder: str
    runner: str
    needs: tuple = ()
    options: dict = dataclasses.field(default_factory=dict)
    ours: bool = False
    longest: int | None = None
    has_twin: bool = True

    @property
    def missing(self):
        """What it needs and is not installed: packages, and the compiler that torch.compile calls."""
        missing = [name for name in self.needs if importlib.util.find_spec(name) is None]
        return [*missing, "g++"] if self.options.get("compiled") and not shutil.which("g++") else missing


def _ours(key, title, precision, builder, runner, **rest):
    return Variant(key, title, precision, builder, runner, ours=True, **rest)


def _pytorch(key, title, precision, file="float32", **options):
    return Variant(key, title, precision, f"pytorch_{file}", "PyTorch", ("torch",), options)


def _openvino(key, title, precision, builder, hint, *packages):
    needs = ("torch", "onnx", "onnxscript", "openvino", *packages)
    return Variant(key, title, precision, builder, "OpenVino", needs, {"precision": hint})


_ONNX = ("torch", "onnx", "onnxscript", "onnxruntime")
MINILM = "minilm-int8"

VARIANTS = {
    variant.key: variant
    for variant in (
        _ours("saved_model-float32", "SavedModel float32", "float32", "saved_model", "SavedModel"),
        _ours(
            "saved_model-bfloat16", "SavedModel bfloat16", "bfloat16", "saved_model_bfloat16", "SavedModel"
        ),
        _ours("litert-int8", "LiteRT int8", "int8", "litert_dynamic", "LiteRt"),
        _ours("litert-float32", "LiteRT float32", "float32", "litert_fp32", "LiteRt"),
        _pytorch("pytorch-float32", "PyTorch float32", "float32"),
        _pytorch("pytorch-bfloat16", "PyTorch bfloat16", "bfloat16", "bfloat16", dtype="bfloat16"),
        _pytorch("pytorch-autocast", "PyTorch bfloat16, autocast", "bfloat16", autocast=True),
        _pytorch("pytorch-compiled", "PyTorch float32, compiled", "float32", compiled=True),
        _pytorch(
            "pytorch-compiled-bfloat16",
            "PyTorch bfloat16, compiled",
            "bfloat16",
            "bfloat16",
            compiled=True,
            dtype="bfloat16",
        ),
        Variant(
            "onnxruntime-float32", "ONNX Runtime float32", "float32", "onnx_float32", "OnnxRuntime", _ONNX
        ),
        Variant("onnxruntime-int8", "ONNX Runtime int8", "int8", "onnx_int8", "OnnxRuntime", _ONNX),
        _openvino("openvino-float32", "OpenVINO float32", "float32", "openvino_float32", "f32"),
        _openvino("openvino-bfloat16", "OpenVINO bfloat16", "bfloat16", "openvino_bfloat16", "bf16"),
        _openvino(
            "openvino-int8-weights", "OpenVINO int8 weights", "int8", "openvino_int8_weights", "bf16", "nncf"
        ),
        _openvino("openvino-int8", "OpenVINO int8", "int8", "openvino_int8", "bf16", "nncf"),
        Variant(
            MINILM,
            "all-MiniLM-L6 int8",
            "int8",
            "minilm",
            "MiniLm",
            ("onnxruntime", "tokenizers"),
            longest=512,
            has_twin=False,
        ),
    )
}


def chosen(keys):
    """Returns the variants that --variants names.

    Args:
        keys: list of str; empty for all.

    Returns:
        list of `Variant`, in the order of the table.

    Raises:
        ValueError: if a key is unknown.
    """
    known = [key for key in VARIANTS if key != MINILM]
    for key in keys:
        if key not in known:
            raise ValueError(f"`variants` must be among {', '.join(known)}. Received: {key!r}")
    return [variant for key, variant in VARIANTS.items() if key != MINILM and (key in keys or not keys)]
