"""The plot of docs/recall.md: a panel for each mixer, in front of all the others in grey; no legend."""

import math

import numpy as np

from benchmarks.figures import plt
from benchmarks.recalling import data

_COLORS = {"recall": "#1f5fa8", "copy": "#b3400e"}
_OTHERS = "#d5d5d5"
_COLUMNS = 4


def plot(group):
    """Accuracy against distance.

    Args:
        group: dict, mixer -> task -> distance -> list of cells, in the order of the panels.

    Returns:
        matplotlib figure.
    """
    height = math.ceil(len(group) / _COLUMNS)
    figure, axes = plt.subplots(
        height,
        _COLUMNS,
        figsize=(2.5 * _COLUMNS, 1.7 * height + 0.5),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    lines = {
        mixer: {task: _points(tasks[task]) for task in _COLORS if task in tasks}
        for mixer, tasks in group.items()
    }
    # One path with gaps: a path for each line in each panel would make a file three times as large.
    gap = (math.nan, math.nan)
    recalls = [point for found in lines.values() for point in (*found.get("recall", ()), gap)]
    for axis, (mixer, tasks) in zip(axes.flat, lines.items(), strict=False):
        axis.plot(*zip(*recalls, strict=True), color=_OTHERS, linewidth=0.6)
        for share in (1 / data.NUM_VALUES, data.share_without_keys()):
            axis.axhline(100 * share, color="#8a8a8a", linewidth=0.6, linestyle=":")
        for task, points in tasks.items():
            xy = zip(*points, strict=True)
            axis.plot(*xy, color=_COLORS[task], linewidth=1.6, marker="o", markersize=3)
        name, _, options = mixer.partition(":")
        axis.set_title("\n".join(filter(None, (name.replace("+", " +\n"), options))), fontsize=8, loc="left")
    for axis in axes.flat[len(group) :]:
        axis.axis("off")
    every_line = [line for found in lines.values() for line in found.values()]
    distances = sorted({distance for line in every_line for distance, _ in line})
    axes[0][0].set_xscale("log", base=2)
    axes[0][0].set_xticks(distances, [str(distance) for distance in distances])
    axes[0][0].set_ylim(-3, 105)
    tasks = [task for task in _COLORS if any(task in found for found in lines.values())]
    for y, task in enumerate(tasks):
        axes[0][0].text(
            0.03, 0.3 + 0.14 * y, task, color=_COLORS[task], fontsize=8, transform=axes[0][0].transAxes
        )
    figure.supxlabel("distance, positions", fontsize=9)
    figure.supylabel("test accuracy, per cent", fontsize=9)
    for axis in figure.axes:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    return figure


def _points(by_distance):
    """[(distance, mean accuracy over the seeds in per cent), ...]."""
    return [
        (distance, 100 * float(np.mean([cell["accuracy"] for cell in seeds])))
        for distance, seeds in by_distance.items()
    ]
