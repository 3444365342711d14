"""The rows that every program of benchmarks/ prints and writes."""

import dataclasses
import json
import math

from convnlp import outputs

BETTER = ("higher", "lower", "limit")


@dataclasses.dataclass
class Row:
    """One comparison of ours with a peer.

    `ratio` says how much better ours is: ours / peer for a rate, peer / ours for a time or for memory. For
    a growth or a share, which must not exceed a limit, the ratio is ours / peer, and the goal is a ceiling;
    for all others it is a floor. Without a peer there is no ratio, and the goal applies to `ours`.

    Args:
        name: str. What is compared, such as "lightweight_conv forward vs PyTorch".
        setting: dict with dtype, shapes, seed and everything else that affects the figures.
        ours: float, in `unit`.
        peer: float, in `unit`, or None.
        unit: str, such as "ms" or "tokens/s".
        better: "higher" (a rate), "lower" (a time, memory) or "limit" (a growth, a share).
        goal: float, or None. See `benchmarks.goals`.
        detail: dict. The samples, medians and spread of both sides, and other facts.
    """

    name: str
    setting: dict
    ours: float
    peer: float | None
    unit: str
    better: str
    goal: float | None = None
    detail: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.better not in BETTER:
            raise ValueError(f"`better` must be one of {', '.join(BETTER)}. Received: {self.better!r}")

    @property
    def ratio(self):
        """How much better ours is, or the quotient that must stay below a limit; None without a peer."""
        if self.peer is None:
            return None
        above, below = (self.peer, self.ours) if self.better == "lower" else (self.ours, self.peer)
        if above == below:
            return 1.0
        return above / below if below else math.inf

    @property
    def met(self):
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        value = self.ours if self.ratio is None else self.ratio
        ceiling = self.better == "limit" or (self.ratio is None and self.better == "lower")
        return bool(value <= self.goal if ceiling else value >= self.goal)

    def as_dict(self):
        """Returns the row as it is written to JSON; `better` is part of the detail."""
        return {
            "name": self.name,
            "setting": self.setting,
            "ours": _figure(self.ours),
            "peer": _figure(self.peer),
            "unit": self.unit,
            "ratio": _figure(self.ratio),
            "goal": self.goal,
            "met": self.met,
            "detail": {"better": self.better, **self.detail},
        }


def _figure(value):
    """Returns `value` with five digits, or None if JSON has no number for it."""
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.5g}")


HEADER = (
    "| what | setting | ours | peer | unit | ratio | goal | met |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def line(row):
    """Returns one line of the printed table, for a row as `Row.as_dict` returns it."""
    goal = ""
    if row["goal"] is not None:
        better, has_ratio = row["detail"]["better"], row["ratio"] is not None
        sign = "≤" if better == "limit" or (better == "lower" and not has_ratio) else "≥"
        goal = f"{sign} {row['goal']:g}"
    cells = [
        row["name"],
        describe(row["setting"]),
        number(row["ours"]),
        number(row["peer"]),
        row["unit"],
        number(row["ratio"]),
        goal,
        {True: "yes", False: "**no**", None: ""}[row["met"]],
    ]
    return f"| {' | '.join(cells)} |"


def describe(setting):
    """Returns a setting in a few words: `float32, same, kernel_size=7, length=512`, without its seed."""
    shown = {key: value for key, value in setting.items() if key not in ("seed", "shapes")}
    words = [str(value) for value in shown.values() if isinstance(value, str)]
    return ", ".join(words + [f"{key}={value}" for key, value in shown.items() if not isinstance(value, str)])


def number(value):
    """Returns a number with three digits or with thousands separators; "" for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 or isinstance(value, int) else f"{value:.3g}"


def write_json(path, machine, rows):
    """Writes {"machine", "rows"} to another file first, so that `path` is never incomplete.

    Args:
        path: str.
        machine: dict, see `benchmarks.machine.describe`.
        rows: list of `Row`.
    """
    found = {"machine": machine, "rows": [row.as_dict() for row in rows]}
    text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)
    outputs.write_file(path, f"{text}\n".encode())
