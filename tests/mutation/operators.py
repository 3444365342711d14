"""Small wrong changes to a Python file: one sign, pad, mask or index each."""

import ast
import dataclasses

# What the suites of the table do not check: constructors, configs, cost formulae.
LEFT_OUT = ("__init__", "get_config", "cost", "compute_output_shape")
MASKS = ("padding_mask", "segment_ids")
_SIGNS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
_COMPARED = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
_COMBINED = {ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&")}


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    """One changed place.

    Args:
        start: int, offset of the first changed character.
        end: int, offset behind the last one.
        replacement: str.
        kind: "sign", "pad", "mask" or "index".
        line: int, from 1.
    """

    start: int
    end: int
    replacement: str
    kind: str
    line: int

    def apply(self, source):
        """The changed file."""
        return source[: self.start] + self.replacement + source[self.end :]

    def shown(self, source):
        """The changed line before and after, without the indent."""
        number = self.line - 1
        return tuple(text.splitlines()[number].strip() for text in (source, self.apply(source)))


def mutants(source, names=None):
    """The mutants of a file's methods and functions, in order.

    Args:
        source: str, the file.
        names: set of str: classes and functions at the top level to look into. Default: all.

    Returns:
        List of `Mutant`s.

    Example:
    >>> code = "def mix(x, padding_mask):\\n    return zero_pads(x, padding_mask)[:, 1:] - x"
    >>> for mutant in mutants(code):
    ...     print(mutant.kind, mutant.shown(code)[1])
    sign return zero_pads(x, padding_mask)[:, 1:] + x
    pad return x[:, 1:] - x
    mask return zero_pads(x, None)[:, 1:] - x
    index return zero_pads(x, padding_mask)[:, 2:] - x
    """
    finder = _Finder(source)
    for node in ast.parse(source).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and (names is None or node.name in names):
            finder.visit(node)
    return sorted(set(finder.found), key=lambda mutant: (mutant.line, KINDS.index(mutant.kind), mutant))


KINDS = ("sign", "pad", "mask", "index")


class _Finder(ast.NodeVisitor):
    def __init__(self, source):
        self.source, self.found, self.inside = source, [], 0
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.lines = source.splitlines()

    def offset(self, line, column):
        """A place of `ast`, whose columns count UTF-8 bytes, as an offset into the text."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node):
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def text(self, node):
        start, end = self.span(node)
        return self.source[start:end]

    def add(self, kind, start, end, replacement):
        if self.inside:
            line = self.source.count("\n", 0, start) + 1
            self.found.append(Mutant(start, end, replacement, kind, line))

    def between(self, kind, left, right, old, new):
        """Replaces the operator between two expressions, which may stand in parentheses."""
        start, end = self.span(left)[1], self.span(right)[0]
        at = self.source.index(old, start, end)
        self.add(kind, at, at + len(old), new)

    def visit_FunctionDef(self, node):
        if node.name not in LEFT_OUT:
            self.inside += 1
            for statement in node.body:
                self.visit(statement)
            self.inside -= 1

    def visit_Raise(self, node):
        """Messages of errors are not computed with."""

    def visit_JoinedStr(self, node):
        """Nor are names."""

    def visit_BinOp(self, node):
        for kind, operators in (("sign", _SIGNS), ("mask", _COMBINED)):
            if type(node.op) in operators and not self._joins(node):
                self.between(kind, node.left, node.right, *operators[type(node.op)])
        self.generic_visit(node)

    @staticmethod
    def _joins(node):
        """Whether it puts lists or strings together."""
        return any(
            isinstance(side, (ast.List, ast.ListComp, ast.JoinedStr))
            or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
        )

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self.add("sign", *self.span(node), self.text(node.operand))
        self.generic_visit(node)

    def visit_Compare(self, node):
        if len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
            self.between("mask", node.left, node.comparators[0], *_COMPARED[type(node.ops[0])])
        self.generic_visit(node)

    def visit_Attribute(self, node):
        if node.attr == "causal" and isinstance(node.ctx, ast.Load):
            self.add("mask", *self.span(node), f"(not {self.text(node)})")
        self.generic_visit(node)

    def visit_Subscript(self, node):
        for part in ast.walk(node.slice):
            if isinstance(part, ast.Constant) and type(part.value) is int:
                self.add("index", *self.span(part), str(part.value + 1))
        self.visit(node.value)
        self.visit(node.slice)

    def visit_Call(self, node):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name == "zero_pads":
            self.add("pad", *self.span(node), self.text(node.args[0]))
        if name == "pad":
            for pair in (part for part in ast.walk(node.args[1]) if isinstance(part, ast.List)):
                sides = [self.text(side) for side in pair.elts]
                if len(set(sides)) == 2 and not any(isinstance(side, ast.List) for side in pair.elts):
                    self.add("pad", *self.span(pair), f"[{sides[1]}, {sides[0]}]")
        if name == "where" and len(node.args) == 3:
            condition, chosen, other = (self.text(part) for part in node.args)
            start, end = self.span(node.args[0])[0], self.span(node.args[2])[1]
            self.add("mask", start, end, f"{condition}, {other}, {chosen}")
        for argument in arguments:
            if self.text(argument).removeprefix("masks.") in MASKS:
                self.add("mask", *self.span(argument), "None")
            elif self.text(argument) == "masks":
                self.add("mask", *self.span(argument), "type(masks)()")
        for keyword in node.keywords:
            text = self.text(keyword.value)
            if keyword.arg == "axis" and text.removeprefix("-").isdecimal():
                self.add("index", *self.span(keyword.value), str(int(text) + 1))
        self.generic_visit(node)
