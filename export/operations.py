r"""What an exported model is made of: how many operations of each kind run, by layer; no times.

    python -m export.operations --model=sentiment.tflite --length=128
    python -m export.operations --model=MODELS/sentiment --signature=ids

Of a TFLite file it says too how much the operations write, and how many of them XNNPACK, its fast
implementation, leaves to the slow one. Of a SavedModel, the highest version of a directory, it counts what is
left once TensorFlow has optimised the graph. Unlike a time these do not depend on what else a machine is
doing: two exports can be compared anywhere.
"""

import collections
import json
import pathlib

from absl import app, flags

from convnlp import programs
from convnlp.export.lite import delegation
from convnlp.export.saved_models import execution
from convnlp.export.saved_models.versions import version_directory

_MODEL = flags.DEFINE_string(
    "model", None, "TFLite file, SavedModel, or the directory of its versions.", required=True
)
_SIGNATURE = flags.DEFINE_string("signature", "ids", "Of a SavedModel; it must take token_ids.")
_LENGTH = flags.DEFINE_integer("length", 128, "Tokens of the text that is asked for.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 1, "How many of them.", lower_bound=1)
_OUTPUT = flags.DEFINE_string("output", None, "JSON file to write the counts to.")


def main(argv):
    """Model -> operations -> table."""
    if len(argv) > 1:
        raise app.UsageError(f"unknown argument {argv[1]!r}")
    path = pathlib.Path(_MODEL.value)
    shape = _BATCH_SIZE.value, _LENGTH.value
    if not path.exists():
        raise ValueError(f"`model` must be a file or a directory. Received: {_MODEL.value}")
    if path.is_file():
        found, num_parts = delegation.operations(path.read_bytes(), *shape)
    else:
        found, num_parts = execution.operations(version_directory(path), _SIGNATURE.value, *shape), None
    lines = table(found)
    print("\n".join(lines))
    print(summary(found, num_parts))
    if _OUTPUT.value:
        facts = {"model": _MODEL.value, "batch_size": shape[0], "length": shape[1], "parts": num_parts}
        content = json.dumps(facts | {"operations": counts(found)}, indent=1) + "\n"
        output = pathlib.Path(_OUTPUT.value)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(content, encoding="utf-8")


def counts(found):
    """{kind: {place: number}} of a list of `Operation`, the most frequent kind first."""
    numbers = collections.defaultdict(collections.Counter)
    for each in found:
        numbers[each.kind][each.place] += 1
    return {kind: dict(numbers[kind]) for kind, _ in collections.Counter(o.kind for o in found).most_common()}


def table(found):
    """Lines of a kind each: how many in each layer, in all, and of a TFLite file how many are slow."""
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
    """One line of totals."""
    if num_parts is None:
        return f"{len(found)} operations"
    fast = sum(each.is_fast for each in found)
    written = sum(each.num_bytes for each in found) / 1e6
    return f"{len(found)} operations, {fast} of them XNNPACK's in {num_parts} parts; {written:.2f} MB written"


if __name__ == "__main__":
    programs.run(main)
