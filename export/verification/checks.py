"""Checks what servers need from a SavedModel, in processes without convnlp."""

import dataclasses

import numpy as np

from convnlp.export.verification import joining, loaders, parity, requests, stock
from convnlp.export.verification.graph import Graph
from convnlp.kernels.implementations import implementation
from convnlp.tasks.reference import relative_difference


@dataclasses.dataclass
class Report:
    """The result of a verification.

    Attributes:
        differences: dict, (directory, signature, loader) -> (largest difference from the "python" loader,
            largest difference from the preset or None). Signatures that failed have no entry.
        violations: list of str. One line for each rule that does not hold.
    """

    differences: dict
    violations: list

    @property
    def largest(self):
        """The largest of all differences."""
        return max(value for pair in self.differences.values() for value in pair if value is not None)


def verify(asked, model=None, bound=None):
    """Runs SavedModels with all `loaders.LOADERS`, and compares their answers and operations.

    Floats are compared by their largest difference, relative to the largest value if that is above 1;
    everything else must be equal. `parity.reference` defines what is compared with the preset. Examples of
    different lengths are also run one by one, and their answers must fit together (`joining`). A text that is
    not in a list is run too: it may be refused, but must not end the process.

    Args:
        asked: dict, directory of a SavedModel -> list of (signature, {input: array}), for every signature.
        model: the model, of any task, from which they were exported; None if it is not known.
        bound: float. The largest difference allowed. Default: `parity.bound` of the graph.

    Returns:
        `Report`.

    Raises:
        ValueError: if a directory holds no SavedModel, or a process ends without an answer.
    """
    graphs = {directory: Graph(directory) for directory in asked}
    rows, core_ops = _answers(asked, graphs)
    report = Report({}, _failures(rows))
    for directory, graph in graphs.items():
        unasked = sorted(set(graph.signatures) - {name for name, _ in asked[directory]})
        report.violations += [f"signature {name!r} of {directory} was not run" for name in unasked]
    answered = [row for row in rows if not isinstance(row[-1], str)]
    with implementation("plain"):  # not compiled for each of the shapes, each of which is used once
        _compare(report, answered, parity.reference(model) if model else None)
    for (directory, name, loader), pair in report.differences.items():
        most = parity.bound(graphs[directory]) if bound is None else bound
        for difference, other in zip(pair, ("python loader", "preset"), strict=True):
            if difference is not None and not difference <= most:  # or NaN
                report.violations.append(
                    f"signature {name!r} of {directory} ({loader} loader) differs from the {other} by "
                    f"{difference:.3g}, more than the bound of {most:g}"
                )
    report.violations += joining.violations(answered, graphs)
    for directory, graph in graphs.items():
        report.violations += [f"{directory}: {line}" for line in stock.violations(graph, core_ops)]
    return report


def check(model, servables):
    """Runs every signature of exported models at batch 1, 2 and 5, and compares it with the preset.

    Args:
        model: the model, of any task.
        servables: dict, directory of a SavedModel -> its `Servable`.

    Returns:
        dict, (directory, signature, loader) -> largest difference from the preset.

    Raises:
        ValueError: if a rule does not hold; the message is the first violation.
    """
    report = verify({directory: requests.of_servable(one) for directory, one in servables.items()}, model)
    if report.violations:
        raise ValueError(report.violations[0])
    return {key: from_preset for key, (_, from_preset) in report.differences.items()}


def _answers(asked, graphs):
    """Returns `loaders.ask`, with the requests of `joining.parts` after the others."""
    with_parts, cut = {}, set()
    for directory, graph in graphs.items():
        parts = joining.parts(asked[directory], graph)
        with_parts[directory] = [
            *asked[directory],
            *((name, inputs) for name, inputs, _ in parts),
            *_without_a_list(asked[directory]),
        ]
        cut |= {(directory, name, _key(inputs)) for name, inputs, is_cut in parts if is_cut}
    rows, core_ops = loaders.ask(graphs, with_parts)
    rows = [row for row in rows if not _is_without_a_list(row[3])]
    # A model may reject half of an example.
    rows = [row for row in rows if not isinstance(row[-1], str) or (*row[:2], _key(row[3])) not in cut]
    return rows, core_ops


def _without_a_list(asked):
    """Returns a request of texts of the shape [] for each signature that takes texts [B] only.

    TensorFlow Serving does not compare the shape of a request with that of the signature.
    """
    first = dict(reversed(asked))
    return [
        (name, {key: value[0, ...] for key, value in inputs.items()})
        for name, inputs in first.items()
        if all(value.dtype == object and value.ndim == 1 and value.size for value in inputs.values())
    ]


def _is_without_a_list(inputs):
    return all(value.dtype == object and value.ndim == 0 for value in inputs.values())


def _failures(rows):
    """Returns a line per loader and error, with the signatures that failed with it."""
    failed = {}
    for directory, name, loader, _, outputs in rows:
        if isinstance(outputs, str):
            reason = " ".join(outputs.split())[:300]
            failed.setdefault((directory, loader, reason), {})[name] = None
    return [
        f"signature {', '.join(map(repr, names))} of {directory} ({loader} loader) fails in a fresh process: "
        f"{reason}"
        for (directory, loader, reason), names in failed.items()
    ]


def _compare(report, rows, reference):
    """Fills in the differences, first those of a language model's ids, as its reference requires."""
    firsts = {}
    for directory, name, loader, inputs, outputs in sorted(rows, key=lambda row: row[1] != "ids"):
        key = directory, name, _key(inputs)
        first, from_preset = firsts.get(key, (outputs, None))
        from_first = _difference(outputs, first)
        if reference is not None and (key not in firsts or from_first != 0):  # equal answers: equal errors
            from_preset = reference.error(name, inputs, outputs)
        firsts.setdefault(key, (outputs, from_preset))
        pair = from_first, from_preset
        before = report.differences.get((directory, name, loader), (0.0, 0.0))
        report.differences[directory, name, loader] = tuple(
            None if new is None else float(np.maximum(new, old))  # keeps NaN
            for new, old in zip(pair, before, strict=True)
        )


def _key(inputs):
    """Returns a key that is the same for equal inputs from any process."""
    return tuple((name, value.dtype.str, repr(value.tolist())) for name, value in sorted(inputs.items()))


def _difference(outputs, expected):
    """Returns the largest difference of two answers; infinite if they differ in more than float values."""
    if outputs.keys() != expected.keys():
        return np.inf
    found = [0.0]
    for name, value in outputs.items():
        other = expected[name]
        if value.shape != other.shape or value.dtype != other.dtype:
            return np.inf
        if value.dtype.kind == "f":
            differs = ~((value == other) | (np.isnan(value) & np.isnan(other)))  # equal infinities are equal
            if differs.any():
                found.append(relative_difference(value[differs], other[differs]))
        elif not np.array_equal(value, other):
            return np.inf
    return float(np.max(found))
