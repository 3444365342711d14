"""The plots of docs/soak.md: what happened when, and below it the resources that the process used."""

import itertools
import math

from benchmarks.figures import plt

_COLORS = ("#1f5fa8", "#b3400e", "#227a4b")
_NUM_POINTS = 400  # of a line, at most


def thinned(rows, count=_NUM_POINTS):
    """Returns at most so many of the rows, at even intervals, with the last one."""
    stride = math.ceil(len(rows) / count) or 1
    return rows[::-stride][::-1]


def training(result):
    """Plots faults, steps, memory, threads and open files of a training run over time.

    Args:
        result: dict, as in docs/soak.json.

    Returns:
        A matplotlib figure.
    """
    rows = _with_gaps(result["rows"])
    return _over_time(
        [(event["seconds"], event["fault"]) for event in result["events"]],
        rows,
        [("step", ["step"]), ("memory, MB", ["memory_mb"]), ("count", ["threads", "files", "sockets"])],
    )


def serving(result):
    """Plots disturbances and resources of the server over time; arguments as for `training`."""
    panels = [("memory, MB", ["memory_mb"]), ("count", ["threads", "files", "sockets"])]
    return _over_time(result["events"], result["rows"], panels)


def _with_gaps(rows):
    """Returns the rows with one of NaN between two processes, so that a line ends there."""
    found = []
    for row, following in itertools.pairwise([*rows, None]):
        found.append(row)
        if following and following["life"] != row["life"]:
            found.append({**dict.fromkeys(row, math.nan), "seconds": following["seconds"]})
    return found


def _over_time(events, rows, panels):
    names = sorted({name for _, name in events}, reverse=True)
    heights = [0.16 * len(names) + 0.3, *[1.6] * len(panels)]
    figure, axes = plt.subplots(
        len(heights), figsize=(8, sum(heights) + 0.8), sharex=True, height_ratios=heights
    )
    minutes = [seconds / 60 for seconds, _ in events]
    axes[0].scatter(minutes, [names.index(name) for _, name in events], s=9, color="#444444")
    axes[0].set_yticks(range(len(names)), [name.replace("_", " ") for name in names], fontsize=7)
    axes[0].set_ylim(-0.7, len(names) - 0.3)
    for axis, (label, columns) in zip(axes[1:], panels, strict=True):
        for color, column in zip(_COLORS, columns, strict=False):
            x = [row["seconds"] / 60 for row in rows]
            axis.plot(x, [row[column] for row in rows], color=color, linewidth=1, label=column)
        axis.set_ylabel(label)
        axis.set_ylim(0, None)
        if len(columns) > 1:
            axis.legend(
                frameon=False, fontsize=8, ncols=len(columns), loc="lower right", bbox_to_anchor=(1, 0.95)
            )
    axes[-1].set_xlabel("minutes")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.set_axisbelow(True)
    return figure
