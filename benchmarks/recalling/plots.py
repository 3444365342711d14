"""The plot of docs/recall.md: a panel per mixer, in front of all the others in grey, without a legend."""

import numpy as np

from benchmarks.figures import small_multiples
from benchmarks.recalling import data

_COLORS = {"recall": "#1f5fa8", "copy": "#b3400e"}


def plot(group):
    """Draws accuracy against distance.

    Args:
        group: dict, mixer -> task -> distance -> list of cells, in the order of the panels.

    Returns:
        matplotlib figure.
    """
    lines = {
        mixer: {task: _points(tasks[task]) for task in _COLORS if task in tasks}
        for mixer, tasks in group.items()
    }
    recalls = [found["recall"] for found in lines.values() if "recall" in found]
    titles = [_title(mixer) for mixer in group]
    figure, axes = small_multiples(titles, recalls, "distance, positions", "test accuracy, per cent")
    for axis, tasks in zip(axes, lines.values(), strict=True):
        for share in (1 / data.NUM_VALUES, data.share_without_keys()):
            axis.axhline(100 * share, color="#8a8a8a", linewidth=0.6, linestyle=":")
        for task, points in tasks.items():
            xy = zip(*points, strict=True)
            axis.plot(*xy, color=_COLORS[task], linewidth=1.6, marker="o", markersize=3)
    every_line = [line for found in lines.values() for line in found.values()]
    distances = sorted({distance for line in every_line for distance, _ in line})
    axes[0].set_xscale("log", base=2)
    axes[0].set_xticks(distances, [str(distance) for distance in distances])
    axes[0].set_ylim(-3, 105)
    tasks = [task for task in _COLORS if any(task in found for found in lines.values())]
    for y, task in enumerate(tasks):
        axes[0].text(0.03, 0.3 + 0.14 * y, task, color=_COLORS[task], fontsize=8, transform=axes[0].transAxes)
    return figure


def _title(mixer):
    """Returns the name of a mixer with its options, broken into lines that fit a panel."""
    name, _, options = mixer.partition(":")
    return "\n".join(filter(None, (name.replace("+", " +\n"), options)))


def _points(by_distance):
    """Returns [(distance, mean accuracy over the seeds in per cent), ...]."""
    return [
        (distance, 100 * float(np.mean([cell["accuracy"] for cell in seeds])))
        for distance, seeds in by_distance.items()
    ]
