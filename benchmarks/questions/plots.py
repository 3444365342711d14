"""The plots of docs/paper.md: everything drawn is labelled directly, without a legend."""

from matplotlib import ticker

from benchmarks.figures import clean, plt

_COLORS = ("#1f5fa8", "#b3400e", "#3f7f3f", "#7a4fa3")


def by_length(series, panels):
    """Draws lines over the length of a text, labelled at their ends, on logarithmic axes like the paper's.

    Args:
        series: list of dicts, one per panel, mixer -> list of (length, value); empty ones are left out.
        panels: list of str, the labels of their values.

    Returns:
        matplotlib figure.
    """
    drawn = [(lines, name) for lines, name in zip(series, panels, strict=True) if lines]
    figure, axes = plt.subplots(1, len(drawn), figsize=(4.5 * len(drawn), 3.2), squeeze=False)
    for axis, (lines, name) in zip(axes[0], drawn, strict=True):
        colors = dict(zip(lines, _COLORS * len(lines), strict=False))
        for mixer, points in lines.items():
            axis.plot(
                *zip(*points, strict=True), color=colors[mixer], linewidth=1.4, marker="o", markersize=3
            )
        lengths = sorted({length for points in lines.values() for length, _ in points})
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="tokens of the text",
            ylabel=name,
            xlim=(lengths[0] / 1.3, lengths[-1] * 40),  # with room for the names
        )
        values = [value for points in lines.values() for _, value in points]
        axis.set_ylim(min(values) / 1.6, max(values) * 1.6)
        labels = [f"{length:,}" if number % 2 == 0 else "" for number, length in enumerate(lengths)]
        axis.set_xticks(lengths, labels)
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.10g}"))
        axis.minorticks_off()
        clean(axis)
        heights = apart({mixer: _height(axis, points[-1]) for mixer, points in lines.items()})
        for mixer, height in heights.items():
            x = lines[mixer][-1][0] * 1.15
            style = {"color": colors[mixer], "fontsize": 8, "va": "center"}
            axis.text(x, height, mixer, transform=axis.get_xaxis_transform(), **style)
    figure.tight_layout()
    return figure


def _height(axis, point):
    """Returns the height of a point as a share of the panel."""
    return axis.transAxes.inverted().transform(axis.transData.transform(point))[1]


def apart(heights, least=0.06):
    """Moves labels up until none overlaps another.

    Args:
        heights: dict, name -> share of the height of the panel.
        least: float, the least distance between two of them.

    Example:
    >>> {name: round(height, 2) for name, height in apart({"a": 0.9, "b": 0.31, "c": 0.3}).items()}
    {'c': 0.3, 'b': 0.36, 'a': 0.9}
    """
    placed, lowest = {}, float("-inf")
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        placed[name] = max(height, lowest)
        lowest = placed[name] + least
    return placed


def score_against_cost(points):
    """Draws a dot for each mixer.

    Args:
        points: dict, mixer -> (million multiply-adds, accuracy in per cent).

    Returns:
        matplotlib figure.
    """
    figure, axis = plt.subplots(figsize=(6, 3.2))
    for mixer, point in points.items():
        axis.plot(*point, "o", color=_COLORS[0])
        axis.annotate(mixer, point, xytext=(5, 3), textcoords="offset points", fontsize=8)
    axis.set(xlabel="million multiply-adds of a text", ylabel="mean test accuracy, per cent")
    axis.margins(x=0.25, y=0.2)
    clean(axis)
    figure.tight_layout()
    return figure
