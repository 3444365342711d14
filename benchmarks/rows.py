"""The rows that every program of benchmarks/ prints and writes."""

import dataclasses
import json
import math
import os
import tempfile

BETTER = ("higher", "lower", "limit")


@dataclasses.dataclass
class Row:
    """One comparison: ours beside a peer.

    `ratio` says how much better ours is: ours / peer of a rate, peer / ours of a time or of memory. What must
    not exceed a limit is the exception, a growth or a share: there the ratio is ours / peer itself, and so
    the goal is a ceiling; everywhere else it is a floor. Without a peer there is no ratio, and the goal is
    one for `ours`.

    Args:
        name: str. What is compared, such as "lightweight_conv forward vs PyTorch".
        setting: dict of dtype, shapes, seed and whatever else decides the figures.
        ours: float, in `unit`.
        peer: float, in `unit`; None without one.
        unit: str, such as "ms" or "tokens/s".
        better: "higher" (a rate), "lower" (a time, memory) or "limit" (a growth, a share).
        goal: float, or None. See `benchmarks.goals`.
        detail: dict. The peer's name and both sides' samples, medians and spread.
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
        """How much better ours is, or what must stay below a limit; None without a peer."""
        if self.peer is None:
            return None
        above, below = (self.peer, self.ours) if self.better == "lower" else (self.ours, self.peer)
        if above == below:
            return 1.0
        return above / below if below else math.inf

    @property
    def met(self):
        """Whether the goal is reached; None without one."""
        if self.goal is None:
            return None
        value = self.ours if self.ratio is None else self.ratio
        ceiling = self.better == "limit" or (self.ratio is None and self.better == "lower")
        return bool(value <= self.goal if ceiling else value >= self.goal)

    def as_dict(self):
        """The row as it is written: the eight keys, `better` and the detail."""
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
    """`value` with five digits; None where JSON has no number for it."""
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.5g}")


HEADER = (
    "| what | setting | ours | peer | unit | ratio | goal | met |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def line(row):
    """One line of the printed table, from a row as `Row.as_dict` gives it."""
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
    """A setting in a few words: `float32, same, kernel_size=7, length=512`; the seed is left to the JSON."""
    shown = {key: value for key, value in setting.items() if key not in ("seed", "shapes")}
    words = [str(value) for value in shown.values() if isinstance(value, str)]
    return ", ".join(words + [f"{key}={value}" for key, value in shown.items() if not isinstance(value, str)])


def number(value):
    """Three digits and thousands separators; nothing for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 or isinstance(value, int) else f"{value:.3g}"


def write_json(path, machine, rows):
    """Writes {"machine", "rows"}: first to a file beside it, so that `path` never holds a part.

    Args:
        path: str.
        machine: dict, see `benchmarks.machine.describe`.
        rows: list of `Row`.
    """
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, suffix=".tmp", delete=False) as file:
        try:
            json.dump(
                {"machine": machine, "rows": [row.as_dict() for row in rows]},
                file,
                indent=1,
                ensure_ascii=False,
                allow_nan=False,
            )
            file.write("\n")
        except BaseException:
            os.unlink(file.name)
            raise
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
