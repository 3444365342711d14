r"""Counts the operations that an exported model runs, by kind and layer, without measuring times.

    convnlp operations --model=sentiment.tflite --length=128
    convnlp operations --model=MODELS/sentiment --signature=ids

For a TFLite file it also says how much the operations write, and how many of them XNNPACK, the fast
implementation, leaves to the slow one. For a SavedModel (the highest version, if a directory holds several),
it counts what is left once TensorFlow has optimised the graph. Unlike times, these counts do not depend on
what else the machine is doing, so two exports can be compared anywhere.
"""

import collections
import json
import pathlib

from absl import flags

from convnlp import outputs, programs
from convnlp.export.lite import delegation
from convnlp.export.saved_models import execution
from convnlp.export.saved_models.versions import version_directory

_MODEL = flags.DEFINE_string(
    "model", None, "TFLite file, SavedModel, or directory of SavedModel versions.", required=True
)
_SIGNATURE = flags.DEFINE_string("signature", "ids", "Signature of a SavedModel; it must take token_ids.")
_LENGTH = flags.DEFINE_integer("length", 128, "Number of tokens per text.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 1, "Number of texts.", lower_bound=1)
_OUTPUT = flags.DEFINE_string("output", None, "JSON file to write the counts to.")


def main(_):
    """Prints a table of the model's operations, and writes it to --output."""
    path = pathlib.Path(_MODEL.value)
    shape = _BATCH_SIZE.value, _LENGTH.value
    if _OUTPUT.value is not None:
        outputs.check_file("output", _OUTPUT.value, inputs=[path])
    if not path.exists():
        raise ValueError(f"`model` must be a file or a directory. Received: {_MODEL.value}")
    if path.is_file():
        found, num_parts = delegation.operations(path.read_bytes(), *shape)
    else:
        found, num_parts = execution.operations(version_directory(path), _SIGNATURE.value, *shape), None
    lines = table(found)
    print("\n".join(lines))
    print(summary(found, num_parts))
    if _OUTPUT.value is not None:
        facts = {"model": _MODEL.value, "batch_size": shape[0], "length": shape[1], "parts": num_parts}
        content = json.dumps(facts | {"operations": counts(found)}, indent=1) + "\n"
        outputs.write_file(_OUTPUT.value, content.encode())


def counts(found):
    """Counts a list of `Operation`: {kind: {place: number}}, the most frequent kind first."""
    numbers = collections.defaultdict(collections.Counter)
    for each in found:
        numbers[each.kind][each.place] += 1
    return {kind: dict(numbers[kind]) for kind, _ in collections.Counter(o.kind for o in found).most_common()}


def table(found):
    """Returns a line per kind: how many in each layer and in all, and for a TFLite file how many are slow."""
    places = sorted(
        {each.place for each in found}, key=lambda where: (not where[-1].isdigit(), len(where), where)
    )
    is_lite = found[0].is_fast is not None
    header = ["operation", *places, "all", *(["not XNNPACK's", "kB written"] if is_lite else [])]
    cells = [header]
    for kind, numbers in counts(found).items():
        row = [kind, *(str(numbers.get(where, "")) for where in places), str(sum(numbers.values()))]
        if is_lite:
            of_kind = [each for each in found if each.kind == kind]
            slow = sum(not each.is_fast for each in of_kind)
            row += [str(slow or ""), f"{sum(each.num_bytes for each in of_kind) / 1e3:.1f}"]
        cells.append(row)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in cells
    ]


def summary(found, num_parts):
    """Returns one line of totals."""
    if num_parts is None:
        return f"{len(found)} operations"
    fast = sum(each.is_fast for each in found)
    written = sum(each.num_bytes for each in found) / 1e6
    return f"{len(found)} operations, {fast} of them XNNPACK's in {num_parts} parts; {written:.2f} MB written"


if __name__ == "__main__":
    programs.run(main)
