"""What was refused, where, and because of which operation, according to TensorFlow or the compiler."""

import re

# The first match names the operation. TensorFlow's messages give the kinds without an XLA form, or else the
# place in the graph; the compiler's give the operation as MLIR or HLO writes it.
_OPERATIONS = (
    r"unsupported operations when trying to compile graph [^:]*: (\w+)",
    r"No registered '(\w+)' OpKernel",
    r"with op (\w+) must be a compile-time constant",
    r"failed to legalize operation '([\w.]+)'",
    r"'([a-z_]+\.[\w.]+)' op\b",
    r"%[\w.-]+ = [^=]*?\s([a-z][a-z-]*)\(",
    r"\{\{node ([^}\s]+)\}\}",
    r"\[\[([^\]]+)\]\]",
)
# What exceeds the memory -> how the compiler says so.
_MEMORY = {
    "all": re.compile(r"Used ([\d.]+)([KMGT]?) of ([\d.]+)([KMGT]?) hbm"),
    "temporaries": re.compile(
        r"HLO temporaries \(([\d.]+)([KMGT]?)\) exceeds available HBM \(([\d.]+)([KMGT]?)\)"
    ),
}
_UNITS = {unit: 2 ** (10 * power) for power, unit in enumerate(("", "K", "M", "G", "T"))}
_LONGEST = 300  # characters of a reason


def of_error(stage, message):
    """Returns a refusal.

    Args:
        stage: str, "lowering" (TensorFlow) or "compiling" (the TPU's compiler).
        message: str, of the exception.

    Returns:
        dict of `stage`, `operation` ("not named" if none is) and `reason` (a line); for a program that is
        too large for the chip's memory also `needed_bytes`, `needed_for` (a key of `_MEMORY`) and
        `memory_bytes`.

    Example:
    >>> of_error("compiling", "failed to legalize operation 'mhlo.copy'")["operation"]
    'mhlo.copy'
    """
    found = {"stage": stage, "operation": operation(message), "reason": _line(message)}
    for needed_for, pattern in _MEMORY.items():
        if memory := pattern.search(message):
            needed, needed_unit, there, there_unit = memory.groups()
            found["operation"], found["needed_for"] = "memory", needed_for
            found["needed_bytes"] = round(float(needed) * _UNITS[needed_unit])
            found["memory_bytes"] = round(float(there) * _UNITS[there_unit])
    return found


def of_crash(signal_name, log):
    """Returns the refusal of a compiler that was killed by a signal; `log` is what it printed."""
    lines = [line for line in log.splitlines() if "Check failed" in line or re.match(r"F\d{4}", line)]
    reason = lines[0] if lines else "no message"
    found = {"stage": "compiling", "operation": operation("\n".join(lines) or log[-4000:])}
    return {**found, "reason": f"{signal_name}: {_line(reason)}"}


def operation(message):
    """Returns the operation that a message is about."""
    for pattern in _OPERATIONS:
        if found := re.search(pattern, message):
            return found[1]
    return "not named"


def _line(message):
    line = next((line.strip() for line in message.splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
