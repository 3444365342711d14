"""The critical-difference plot: models on a line by mean rank, with bars over those that may be alike."""

from benchmarks.figures import plt

_BAR, _LINE = "#1f5fa8", "#444444"


def plot(ranking):
    """Draws the names beside the line, the better half on the left, the others on the right.

    Source: Demsar, 2006, figure 1; see `benchmarks.comparison.ranks.rank`.

    Args:
        ranking: `benchmarks.comparison.ranks.Ranking`.

    Returns:
        matplotlib figure.
    """
    names, count = list(ranking.ranks), len(ranking.ranks)
    groups, half = ranking.alike(), (count + 1) // 2
    below = 0.6 + 0.28 * len(groups)  # how far below the line the names begin
    figure, axis = plt.subplots(figsize=(8, 0.9 + 0.3 * (below + half)))
    axis.set(xlim=(1 - 0.45 * count, count + 0.45 * count), ylim=(-below - 0.7 * half, 1.4))
    axis.axis("off")
    axis.plot([1, count], [0, 0], color=_LINE, linewidth=1)
    for place in range(1, count + 1):
        axis.plot([place, place], [0, 0.15], color=_LINE, linewidth=1)
        axis.text(place, 0.25, str(place), ha="center", fontsize=8)
    axis.plot([1, 1 + ranking.critical_difference], [1, 1], color=_LINE, linewidth=1)
    axis.text(1, 1.1, f"critical difference {ranking.critical_difference:.2f}", fontsize=8)
    for index, name in enumerate(names):
        is_left = index < half
        y = -below - 0.7 * (index if is_left else count - 1 - index)
        x = 1 - 0.05 * count if is_left else count + 0.05 * count
        axis.plot([ranking.ranks[name], ranking.ranks[name], x], [0, y, y], color=_LINE, linewidth=0.7)
        text = f"{name}  {ranking.ranks[name]:.2f}" if is_left else f"{ranking.ranks[name]:.2f}  {name}"
        axis.text(x, y, f" {text} ", ha="right" if is_left else "left", va="center", fontsize=9)
    for row, group in enumerate(groups):
        ends = [ranking.ranks[group[0]] - 0.04, ranking.ranks[group[-1]] + 0.04]
        axis.plot(ends, [-0.3 - 0.28 * row] * 2, color=_BAR, linewidth=3, solid_capstyle="round")
    figure.tight_layout()
    return figure
