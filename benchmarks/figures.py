"""Plots for the generated pages, drawn without a display and saved without a date."""

import itertools
import math

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_OTHERS = "#d5d5d5"  # the background lines
_COLUMNS = 4


def save_figure(figure, file, **options):
    """Writes a figure without its date and with the same ids each time, and closes it.

    Args:
        figure: matplotlib figure.
        file: path or file-like object.
        **options: further arguments for `savefig`.
    """
    figure.tight_layout()
    with plt.rc_context({"svg.hashsalt": "convnlp"}):
        figure.savefig(file, metadata={"Date": None}, **options)
    plt.close(figure)


def clean(axis):
    """Leaves two of the four sides of a panel out, and makes its grid and its numbers unobtrusive."""
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)


def small_multiples(titles, background, xlabel, ylabel):
    """Returns panels with equal axes and the same grey lines in the background.

    Args:
        titles: list of str, one per panel.
        background: list of lines, each a list of (x, y).
        xlabel: str.
        ylabel: str.

    Returns:
        (figure, list of axes, one per title).
    """
    height = math.ceil(len(titles) / _COLUMNS)
    size = (2.5 * _COLUMNS, 1.7 * height + 0.5)
    figure, grid = plt.subplots(height, _COLUMNS, figsize=size, sharex=True, sharey=True, squeeze=False)
    axes = list(grid.flat)
    # One path with gaps: a path per line and panel would make the file three times as large.
    gap = (math.nan, math.nan)
    points = list(itertools.chain.from_iterable((*line, gap) for line in background))
    for axis, title in zip(axes, titles, strict=False):
        axis.plot(*zip(*points, strict=True), color=_OTHERS, linewidth=0.6)
        axis.set_title(title, fontsize=9, loc="left")
        clean(axis)
    for axis in axes[len(titles) :]:
        axis.axis("off")
    for axis in axes[: len(titles)][-_COLUMNS:]:
        axis.tick_params(labelbottom=True)  # the lowest of its column, if not of the grid
    figure.supxlabel(xlabel, fontsize=9)
    figure.supylabel(ylabel, fontsize=9)
    return figure, axes[: len(titles)]
