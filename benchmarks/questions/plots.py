"""The plots of docs/paper.md: a name beside each thing that is drawn, no legend."""

from benchmarks.figures import plt

_COLORS = ("#1f5fa8", "#b3400e", "#3f7f3f", "#7a4fa3")


def by_length(series, panels):
    """Lines over the length of a text, each named at its end.

    Args:
        series: list of dicts, one for each panel, mixer -> list of (length, value); empty ones are left out.
        panels: list of str, the names of their values.

    Returns:
        matplotlib figure.
    """
    drawn = [(lines, name) for lines, name in zip(series, panels, strict=True) if lines]
    figure, axes = plt.subplots(1, len(drawn), figsize=(4.5 * len(drawn), 3.2), squeeze=False)
    for axis, (lines, name) in zip(axes[0], drawn, strict=True):
        for color, (mixer, points) in zip(_COLORS * len(lines), lines.items(), strict=False):
            axis.plot(*zip(*points, strict=True), color=color, linewidth=1.4, marker="o", markersize=3)
            axis.annotate(
                mixer,
                points[-1],
                xytext=(4, 0),
                textcoords="offset points",
                color=color,
                fontsize=8,
                va="center",
            )
        axis.set(xscale="log", yscale="log", xlabel="tokens of the text", ylabel=name)
        lengths = sorted({length for points in lines.values() for length, _ in points})
        axis.set_xticks(lengths, [f"{length:,}" for length in lengths], minor=False)
        axis.minorticks_off()
        axis.margins(x=0.25)
        _clean(axis)
    figure.tight_layout()
    return figure


def score_against_cost(points):
    """A dot for each mixer.

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
    _clean(axis)
    figure.tight_layout()
    return figure


def _clean(axis):
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)
