"""The plots of a comparison: everything drawn is labelled directly, panels share axes, and no legend."""

from benchmarks.figures import clean, plt, small_multiples

STARTS = {"scratch": "from scratch", "pretrained": "pre-trained"}
_COLORS = {"scratch": "#b3400e", "pretrained": "#1f5fa8"}


def plots(rows):
    """Returns the plots, title -> matplotlib figure.

    Args:
        rows: list of dicts, see `benchmarks.comparison.results.collect`.
    """
    return {
        "Scores and speeds": _plot_scores(rows),
        "Learning curves": _plot_multiples(
            rows,
            lambda score: [(step, 100 * value) for step, value in score["curve"]],
            "step",
            "validation accuracy, per cent",
        ),
        "Score against length": _plot_multiples(
            rows,
            lambda score: [
                ((group["shortest"] + group["longest"]) / 2, 100 * group["accuracy"])
                for group in score["by_length"]
            ],
            "tokens of the text, middle of its group",
            "test accuracy, per cent",
        ),
    }


def _plot_scores(rows):
    """Draws a line for each mixer, the best on top: its scores with their intervals, and its speed."""
    rows = sorted(rows, key=lambda row: max(score["mean"] for score in row["starts"].values()))
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 1 + 0.26 * len(rows)), sharey=True, width_ratios=(2, 1)
    )
    for y, row in enumerate(rows):
        for start, score in row["starts"].items():
            is_filled = start == list(STARTS)[-1]
            left.errorbar(
                100 * score["mean"],
                y + (0.14 if is_filled else -0.14),
                xerr=100 * (score["half_width"] or 0),
                fmt="o",
                color=_COLORS[start],
                markerfacecolor=_COLORS[start] if is_filled else "white",
                markersize=5,
                linewidth=1,
            )
        right.barh(y, row.get("train_tokens_per_second", 0) / 1e3, height=0.6, color="#8a8a8a")
    starts = [start for start in STARTS if any(start in row["starts"] for row in rows)]
    for x, start in enumerate(reversed(starts)):
        left.text(
            0.01 + 0.22 * x, 1.01, STARTS[start], color=_COLORS[start], transform=left.transAxes, va="bottom"
        )
    left.set(xlabel="test accuracy, per cent", ylim=(-0.7, len(rows) - 0.3))
    left.set_yticks(range(len(rows)), [row["mixer"] for row in rows])
    right.set(xlabel="training, thousand tokens/s")
    for axis in (left, right):
        clean(axis)
    figure.tight_layout()
    return figure


def _plot_multiples(rows, points, xlabel, ylabel):
    """Draws a panel per mixer, in front of the others in grey; `points` returns the (x, y) of a score."""
    lines = {row["mixer"]: {start: points(score) for start, score in row["starts"].items()} for row in rows}
    every_line = [line for found in lines.values() for line in found.values()]
    figure, axes = small_multiples(list(lines), every_line, xlabel, ylabel)
    for axis, found in zip(axes, lines.values(), strict=True):
        for start, line in found.items():
            axis.plot(*zip(*line, strict=True), color=_COLORS[start], linewidth=1.6)
    starts = [start for start in STARTS if any(start in found for found in lines.values())]
    for y, start in enumerate(starts):
        axes[0].text(
            0.97, 0.05 + 0.14 * y, STARTS[start], color=_COLORS[start], fontsize=8, ha="right",
            transform=axes[0].transAxes,
        )  # fmt: skip
    figure.tight_layout()
    return figure
