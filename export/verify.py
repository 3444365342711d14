"""Checks whether servers can run a SavedModel, of this library or not; exits with 1 if they cannot.

    convnlp verify --model=MODELS/sentiment [--preset=RUN/preset]

If the SavedModel has checksums, its files must match them. Then every signature is run in processes without
convnlp: by `tf.saved_model.load`, by a Session (which is what TensorFlow Serving runs) and by TensorFlow's C
API, the last one also without Python's TensorFlow. All must give the same answers, equal to the preset's if
there is one, at batch 1, 2 and 5 and at odd lengths. All operations must be in TensorFlow Serving's stock
server. The inputs are fixed texts if a preset is given, else the warm-up requests in `assets.extra`, else
values made up from the signature.
"""

import sys

from absl import flags

from convnlp import programs, saved_model_operations, saved_model_sums
from convnlp.export import preset
from convnlp.export.saved_models import signatures
from convnlp.export.saved_models.versions import version_directory
from convnlp.export.verification import checks, parity, recorded, requests
from convnlp.export.verification.graph import Graph
from convnlp.models import preset_names

_MODEL = flags.DEFINE_string(
    "model",
    None,
    "SavedModel, or a directory of versions, of which the highest is checked.",
    required=True,
)
_PRESET = flags.DEFINE_string("preset", None, "Name or directory of the preset that it was exported from.")
_BOUND = flags.DEFINE_float(
    "bound",
    None,
    "How far floats may differ, relative to the largest if that is above 1. Default: "
    + ", ".join(f"{bound:g} if the graph multiplies in {name}" for name, bound in parity.BOUNDS.items())
    + f", and {parity.INT8_TABLES:g} more if tables are in int8.",
    lower_bound=0,
)


def table(report, asked):
    """Returns the lines of a table: signature, loader, number of requests, and largest differences."""
    width = max(9, *(len(name) for _, name, _ in report.differences)) if report.differences else 9
    lines = [f"{'signature':<{width}}  loader   requests  from python  from the preset"]
    for (_, name, loader), (from_python, from_preset) in report.differences.items():
        count = sum(name == other for other, _ in asked)
        last = "" if from_preset is None else f"{from_preset:.2g}"
        lines.append(f"{name:<{width}}  {loader:<7}  {count:>8}  {from_python:>11.2g}  {last:>15}".rstrip())
    return lines


def main(_):
    """Checks the SavedModel and prints the result; exits with 1 if a rule is broken."""
    if _PRESET.value:
        preset_names.locate(_PRESET.value)  # before the graph is read
    directory = version_directory(_MODEL.value)
    has_sums = saved_model_sums.check(directory)
    graph = Graph(directory)
    saved_model_operations.check(graph.saved_model, directory)
    if _PRESET.value:
        model = preset.load(_PRESET.value)
        servable = signatures.servable(model, graph.max_length())
        foreign = sorted(set(graph.signatures) - set(servable.signatures))
        if foreign:
            raise ValueError(f"--preset has no signature {', '.join(foreign)}, which {directory} has")
        asked, made_up = requests.of_servable(servable), []
        asked = [(name, inputs) for name, inputs in asked if name in graph.signatures]
    else:
        model = None
        asked, made_up = recorded.of_saved_model(directory, graph)
    bound = parity.bound(graph) if _BOUND.value is None else _BOUND.value
    report = checks.verify({directory: asked}, model, bound)
    print(f"{directory}: {len(graph.op_names())} kinds of operations, {len(asked)} requests")
    print("the files match their checksums" if has_sums else "there are no checksums (SHA256SUMS)")
    print("\n".join(table(report, asked)))
    for name in made_up:
        print(f"{name}: run with made-up values, because {recorded.WARM_UP} has no request for it")
    for violation in report.violations:
        print(f"FAILED: {violation}")
    if report.violations:
        sys.exit(1)
    print(f"all rules hold: the largest difference is {report.largest:.2g}, within the bound of {bound:g}")


if __name__ == "__main__":
    programs.run(main)
