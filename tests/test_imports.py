"""Who may import whom: the house rules of the design, read off the import statements."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run_program import run_code

ROOT = Path(__file__).resolve().parents[1]
TOP_LEVEL = ("benchmarks", "configs", "convnlp", "export", "serving", "tests")  # folders
INSIDE = ("configs", "export", "serving")  # which are imported as convnlp.configs, ...
# What no part may import but itself and those whose rule names it, though it may import convnlp.
APART = ("convnlp.configs", "convnlp.export", "convnlp.serving")

# Per part: the parts of ours that it may import besides itself, and the packages of others; None is any.
RULES = {
    "convnlp.adamw": ((), ("keras", "tensorflow")),
    "convnlp.kernels": ((), ("tensorflow",)),
    "convnlp.layers": (("convnlp.kernels", "convnlp.tables"), ("keras", "tensorflow")),
    "convnlp.models": (
        ("convnlp.adamw", "convnlp.layers", "convnlp.presets", "convnlp.sums"),
        (
            "google",
            "h5py",
            "keras",
            "keras_hub",
            "keras_nlp",
            "numpy",
            "scipy",
            "sentencepiece",
            "tensorflow",
            "tensorflow_text",
        ),
    ),
    "convnlp.presets": ((), ()),
    "convnlp.saved_model_operations": ((), ("google", "tensorflow")),
    "convnlp.saved_model_sums": (("convnlp.sums",), ()),
    "convnlp.sums": ((), ()),
    "convnlp.data": (
        (),
        ("absl", "numpy", "pyarrow", "tensorflow", "tensorflow_datasets", "tensorflow_text"),
    ),
    "convnlp.prediction": ((), ("numpy", "tensorflow")),
    "convnlp.prediction.program": (
        (
            "convnlp.data",
            "convnlp.models",
            "convnlp.outputs",
            "convnlp.prediction",
            "convnlp.source_flags",
            "convnlp.standard_input",
            "convnlp.tasks",
        ),
        ("absl",),
    ),
    "convnlp.bulk": (
        ("convnlp.data", "convnlp.prediction", "convnlp.saved_model_operations", "convnlp.saved_model_sums"),
        ("numpy", "tensorflow", "tensorflow_text"),
    ),
    "convnlp.bulk.engine": ((), ("apache_beam", "distributed")),
    "convnlp.bulk.pipeline": (("convnlp.bulk", "convnlp.data"), ("apache_beam",)),
    "convnlp.corpora": (("convnlp.data",), ("absl", "numpy", "py3langid")),
    "convnlp.corpora.pipeline": (("convnlp.bulk", "convnlp.corpora", "convnlp.data"), ("apache_beam",)),
    "convnlp.training": (("convnlp.adamw",), ("absl", "keras", "numpy", "tensorflow", "tqdm")),
    "convnlp.launching": ((), ()),
    "convnlp.launch": (
        ("convnlp.command", "convnlp.launching", "convnlp.runs.config_files"),
        ("absl", "ml_collections"),
    ),
    "convnlp.losses": (("convnlp.kernels", "convnlp.layers"), ("tensorflow",)),
    "convnlp.options": (("convnlp.data",), ()),
    "convnlp.outputs": (("convnlp.models",), ()),
    "convnlp.product_speed": ((), ("tensorflow",)),
    "convnlp.tables": ((), ()),
    "convnlp.tasks": (
        (
            "convnlp.data",
            "convnlp.kernels",
            "convnlp.layers",
            "convnlp.losses",
            "convnlp.models",
            "convnlp.options",
            "convnlp.prediction",
            "convnlp.tables",
        ),
        ("absl", "keras", "numpy", "scipy", "tensorflow"),
    ),
    "convnlp.objectives": (
        (
            "convnlp.data",
            "convnlp.layers",
            "convnlp.losses",
            "convnlp.models",
            "convnlp.options",
            "convnlp.tables",
        ),
        ("tensorflow",),
    ),
    "convnlp.report": (("convnlp.data", "convnlp.models", "convnlp.tasks", "convnlp.training"), ("numpy",)),
    "convnlp.testing": (
        (
            "convnlp.adamw",
            "convnlp.configs",
            "convnlp.data",
            "convnlp.kernels",
            "convnlp.layers",
            "convnlp.models",
            "convnlp.objectives",
            "convnlp.prediction",
            "convnlp.tasks",
        ),
        ("keras", "numpy", "tensorflow"),
    ),
    "convnlp.runs": (
        (
            "convnlp.configs",
            "convnlp.data",
            "convnlp.layers",
            "convnlp.models",
            "convnlp.objectives",
            "convnlp.options",
            "convnlp.outputs",
            "convnlp.product_speed",
            "convnlp.tasks",
            "convnlp.training",
        ),
        ("absl", "keras", "ml_collections", "numpy", "tensorflow"),
    ),
    "convnlp": (("convnlp.configs", "convnlp"), None),
    "convnlp.serve_preset": (
        ("convnlp.export.saved_models", "convnlp.models", "convnlp.outputs", "convnlp.programs"),
        ("absl",),
    ),
    # Runs all else as processes.
    "convnlp.demo": (("convnlp.configs", "convnlp.outputs", "convnlp.programs", "convnlp.tour"), ("absl",)),
    "convnlp.tour": (("convnlp.serving.client",), ()),
    "convnlp.configs": ((), ("ml_collections",)),
    "convnlp.export": (
        (
            "convnlp.data",
            "convnlp.kernels",
            "convnlp.models",
            "convnlp.outputs",
            "convnlp.product_speed",
            "convnlp.programs",
            "convnlp.saved_model_operations",
            "convnlp.saved_model_sums",
            "convnlp.source_flags",
            "convnlp.tables",
            "convnlp.tasks",
            "convnlp.export.edge_model",
        ),
        (
            "absl",
            "ai_edge_litert",
            "flatbuffers",
            "google",
            "numpy",
            "tensorflow",
            "tensorflow_serving",
            "tensorflow_text",
        ),
    ),
    "convnlp.export.testing": (("convnlp.export", "convnlp.tasks", "convnlp.testing"), ("numpy",)),
    "convnlp.export.verification.c_api": ((), ("numpy",)),
    "convnlp.export.edge_model": ((), ("ai_edge_litert", "numpy", "sentencepiece")),
    "convnlp.export.run_tflite": (("convnlp.export.edge_model",), ("absl", "edge_model")),
    "convnlp.serving.client": (("convnlp.serving.client.grpc_client",), ("tqdm",)),
    "convnlp.serving.client.grpc_client": (
        ("convnlp.serving.client", "convnlp.serving.client.grpc_messages"),
        ("google", "grpc"),
    ),
    "convnlp.serving.client.grpc_messages": (("convnlp.serving.protos",), ("google",)),
    "convnlp.serving.protos": ((), ("google",)),
    "convnlp.serving.core": (
        (
            "convnlp.saved_model_operations",
            "convnlp.saved_model_sums",
            "convnlp.serving.core.lite",
            "convnlp.serving.protos",
        ),
        ("google", "numpy", "tensorflow", "tensorflow_serving", "tensorflow_text"),
    ),
    "convnlp.serving.core.lite": (("convnlp.export.edge_model", "convnlp.serving.core.servable"), ("numpy",)),
    "convnlp.serving": (
        ("convnlp.serving.core", "convnlp.serving.protos"),
        (
            "absl",
            "google",
            "grpc",
            "httptools",
            "numpy",
            "starlette",
            "tensorflow",
            "tensorflow_serving",
            "tensorflow_text",
            "uvicorn",
        ),
    ),
    "benchmarks": ((*APART, "convnlp"), None),
    "tests": ((*APART, "benchmarks", "convnlp", "tests"), None),
}
# The mixers whose definition contains another one.
MIXERS_OF_MIXERS = {
    ("muse", "dynamic_conv"),
    ("muse", "self_attention"),
    ("spatial_gating", "self_attention"),
}


def modules():
    """All our Python files, as (module name, path)."""
    for top in TOP_LEVEL:
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = ("convnlp", *parts) if top in INSIDE else parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(module, path):
    """Yields the full names that a file imports, at any level of its code."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module or "").split(".") if node.module else base
            # `from convnlp import kernels` names a module, `from convnlp.layers import MIXERS` not.
            yield from (".".join([*base, alias.name]) for alias in node.names)


def within(name, prefixes):
    """The longest of the dotted prefixes that `name` begins with, or None."""
    found = [prefix for prefix in prefixes if name == prefix or name.startswith(f"{prefix}.")]
    return max(found, key=len, default=None)


def violations(module, names):
    """The imports of a module that its rule does not allow."""
    part = within(module, RULES)
    ours, others = RULES[part]
    for name in names:
        top = name.split(".")[0]
        if top in TOP_LEVEL:
            # The longest part decides: who may import convnlp may not import convnlp.serving.
            allowed = within(name, RULES) == part or within(name, {*ours, *APART}) in ours
            forbidden = top in ("tests", "benchmarks") and part not in ("tests", top)
            if forbidden or not allowed:
                yield name
        elif others is not None and top not in others and top not in sys.stdlib_module_names:
            yield name


def test_every_module_keeps_its_rule():
    found = {module: sorted(violations(module, imports(module, path))) for module, path in modules()}
    assert len(found) > 50
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("convnlp.kernels.depthwise", "keras"),
        ("convnlp.layers.feed_forward", "convnlp.models"),
        ("convnlp.data.sources", "convnlp.layers.Dropout"),
        ("convnlp.training.loop", "convnlp.models"),
        ("convnlp.configs.common", "convnlp"),
        ("convnlp.export.saved_model", "convnlp.training"),
        ("convnlp.serving.client", "tensorflow"),
        ("convnlp.serving.rest.interface", "convnlp.models"),
        ("convnlp.serving.core.config_files", "convnlp.serving.rest.site"),
        ("convnlp.serving.core.drain", "grpc"),
        ("convnlp.pretrain", "benchmarks.baselines"),
        ("convnlp.export.tflite", "tests.corpus"),
        ("convnlp.pretrain", "convnlp.serving.client"),
        ("convnlp.runs.experiment", "configs.common"),
        ("tests.test_configs", "configs.common"),  # twice in one process
    ],
)
def test_the_rules_forbid(module, name):
    assert list(violations(module, [name])) == [name]


def test_a_mixer_imports_another_only_where_its_definition_contains_it():
    prefix = "convnlp.layers.mixers."
    mixers = {module.removeprefix(prefix): path for module, path in modules() if module.startswith(prefix)}
    assert len(mixers) >= 4
    for mixer, path in mixers.items():
        for name in imports(prefix + mixer, path):
            other = name.removeprefix(prefix).split(".")[0]
            if name.startswith(prefix) and other in mixers and other != mixer:
                assert (mixer, other) in MIXERS_OF_MIXERS


@pytest.mark.multiprocess
def test_convnlp_can_be_imported_without_tensorflow_text():
    code = "import sys; sys.modules['tensorflow_text'] = None; import convnlp; print(*convnlp.layers.MIXERS)"
    done = run_code(code)
    assert done.returncode == 0, done.stderr
    assert "dynamic_conv" in done.stdout


@pytest.mark.multiprocess
def test_the_folders_need_no_tensorflow_and_nothing_else_is_found_inside():
    code = """
import sys
import convnlp.configs.common, convnlp.launching.supervisor, convnlp.serving.client
assert "tensorflow" not in sys.modules, "tensorflow"
for name in ("benchmarks", "convnlp", "tests"):
    try:
        __import__(f"convnlp.{name}")
    except ModuleNotFoundError as error:
        print(error)
import convnlp
print(hasattr(convnlp, "nothing"), "tensorflow" in sys.modules, len(convnlp.layers.MIXERS) > 9)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    lines = [f"No module named 'convnlp.{name}'" for name in ("benchmarks", "convnlp", "tests")]
    assert done.stdout.splitlines() == [*lines, "False False True"], done.stderr


@pytest.mark.multiprocess
def test_importing_convnlp_registers_its_models():
    code = "import convnlp, keras; print(keras.saving.get_registered_object('convnlp>TextClassifier'))"
    done = run_code(code)
    assert "text_classifier" in done.stdout, done.stderr


def test_no_committed_file_names_a_directory_of_a_machine():
    machine_path = re.compile(r"(^|[^\w./-])/(work|farm|root|home|Users)/")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            lines = content.decode("utf-8", "replace").splitlines()
            found += [f"{name}:{number}" for number, line in enumerate(lines, 1) if machine_path.search(line)]
    assert found == []
