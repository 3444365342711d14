"""Reads the text of an optimised program: how long its parts take, and which operations it consists of."""

import collections
import math
import re

# The part of the step that an operation comes from: the first pattern that matches its TensorFlow name.
PARTS = {
    "dropout": r"dropout|stateless_random|StatelessRandom",
    "optimizer": r"adafactor|adam_?w/|AssignSub|AssignVariable",
    "clipping": r"global_norm|L2Loss",
    "feed-forward": r"/feed_forward/",
    "norm": r"norm(/|$)",
    # In its block, or by its own name: those above are a decoder layer's only other names of two words.
    "mixer": r"/mixing/|encoder/layer/[a-z]|decoder/layer/(\w+_\w+|muse)/",
    "embedding": r"embedding|Gather|IndexedSlices|UnsortedSegmentSum",
    "cross-attention": r"decoder/layer",
    "loss": r"CrossEntropy|cross_entropy|ArgMax|^(gradient_tape/)?Tensordot|logits",
}
OTHER = "other"
# Operations outside the units for matrix products and elementwise work, or that only move data.
COUNTED = ("copy", "custom-call", "fft", "gather", "reduce-window", "scatter", "sort", "transpose", "while")
# These only name values or wait for them.
_FREE = ("bitcast", "constant", "copy-done", "get-tuple-element", "parameter", "slice-done", "tuple", "while")
_COPIES = ("copy-start", "slice-start")  # between the chip's main and fast memory, in the background
_INSTRUCTION = re.compile(
    r"^\s+(?:ROOT )?%(?P<name>[\w.-]+) = (?P<type>.*?[})\]])\s(?P<kind>[a-z][a-z0-9-]*)\((?P<inputs>[^)]*)\)"
)
_ARRAY = re.compile(r"\b(pred|bf16|[a-z]\d+)\[([\d,]*)\](\{[^}]*\})?")
_BITS = {"pred": 8, "bf16": 16}
_COMPUTATION = re.compile(r"^(ENTRY )?%([\w.-]+) \(.*\{$")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_NAME = re.compile(r'op_name="([^"]*)"')
_CALLS = re.compile(r"calls=%([\w.-]+)")
_BODY = re.compile(r"body=%([\w.-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


def figures(text):
    """Returns what a program consists of.

    Args:
        text: str, an optimised `HloModule` of the TPU's compiler, which includes the number of cycles that
            it expects each fusion to take.

    Returns:
        dict: `cycles` in total, with loops counted as often as they are known to run; `matrix_cycles`,
        those of fusions with a matrix product; `cycles_by_part`, a dict by `PARTS`; `moved_bytes`, to and
        from the chip's memory, without what stays in the fast memory; `num_fusions`; and `operations`,
        those of `COUNTED` in the whole text, kind -> number.
    """
    computations = _computations(text)
    operations = collections.Counter()
    matrix = set()  # computations with a matrix product, which the compiler writes as a convolution
    for name, (_, lines) in computations.items():
        for line in lines:
            if found := _INSTRUCTION.match(line):
                operations[found["kind"]] += 1
                if found["kind"] in ("convolution", "dot"):
                    matrix.add(name)
    cycles, times = collections.Counter(), _times(computations)
    matrix_cycles = moved = 0
    for name, count in times.items():
        lines = computations[name][1]
        moved += count * _moved_bytes(lines)
        for line in lines:
            if not (found := _CYCLES.search(line)):
                continue
            spent = count * int(found[1])
            cycles[part(line)] += spent
            called = _CALLS.search(line)
            is_product = re.search(r"\s(convolution|dot)\(", line)
            matrix_cycles += spent if is_product or (called and called[1] in matrix) else 0
    return {
        "cycles": sum(cycles.values()),
        "matrix_cycles": matrix_cycles,
        "cycles_by_part": dict(cycles.most_common()),
        "moved_bytes": moved,
        "num_fusions": operations["fusion"],
        "operations": {kind: operations[kind] for kind in COUNTED if operations[kind]},
    }


def part(line):
    """Returns the part of the step that an instruction comes from, a key of `PARTS` or `OTHER`.

    Example:
    >>> part('op_name="gradient_tape/encoder/layer_1/feed_forward/outer/Tensordot/MatMul"')
    'feed-forward'
    """
    found = _NAME.search(line)
    if found is None:
        return OTHER
    name = re.sub(r"(_\d+)+(?=/|$)", "", found[1])  # TensorFlow numbers repeated names
    return next((part for part, pattern in PARTS.items() if re.search(pattern, name)), OTHER)


def _moved_bytes(lines):
    """Returns the bytes that the instructions of a computation read from the chip's memory or write to it.

    An array in the fast memory has a layout with `S(`. All inputs of a fusion count in full, even if it
    reads only a part.
    """
    total, slow_bytes = 0, {}
    for line in lines:
        if not (found := _INSTRUCTION.match(line)):
            continue
        arrays = [
            (_num_bytes(kind, sizes), "S(" in layout) for kind, sizes, layout in _ARRAY.findall(found["type"])
        ]
        slow_bytes[found["name"]] = sum(size for size, is_fast in arrays if not is_fast)
        if found["kind"] in _COPIES:
            total += min(size for size, _ in arrays[:2])  # of the target and the source
        elif found["kind"] not in _FREE:
            names = re.findall(r"%([\w.-]+)", found["inputs"])
            total += sum(slow_bytes.get(name, 0) for name in (found["name"], *names))
    return total


def _num_bytes(kind, sizes):
    """Returns the size of an array with a type such as "bf16" and sizes such as "8,512".

    Example:
    >>> _num_bytes("bf16", "8,512"), _num_bytes("s32", "")
    (8192, 4)
    """
    bits = _BITS.get(kind) or int(kind[1:])
    return bits * math.prod(int(size) for size in sizes.split(",") if size) // 8


def _computations(text):
    """Returns name -> (whether it is the entry, its lines)."""
    found, lines = {}, None
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            lines = []
            found[header[2]] = bool(header[1]), lines
        elif line.startswith("}"):
            lines = None
        elif lines is not None:
            lines.append(line)
    return found


def _times(computations):
    """Returns how often each computation of the main sequence runs: the entry, and the bodies of loops."""
    waiting = [(name, 1) for name, (is_entry, _) in computations.items() if is_entry]
    times = collections.Counter()
    while waiting:
        name, count = waiting.pop()
        times[name] += count
        for line in computations[name][1]:
            if body := _BODY.search(line):
                trips = _TRIPS.search(line)
                waiting.append((body[1], count * int(trips[1]) if trips else count))
    return times
