"""The plots of docs/performance.md, with equal axes and the name of each line at its end."""

import statistics

from benchmarks.figures import plt

DTYPES = ("float32", "bfloat16")
# Peers of the encoder: the end of a row's name -> the name of the line.
PEERS = {
    "own attention": "our attention",
    "keras_nlp TransformerEncoder": "keras_nlp",
    "PyTorch TransformerEncoder, masked": "PyTorch Transformer",
    "PyTorch TransformerEncoder, unmasked": "PyTorch Transformer",
    "PyTorch convolution encoder": "the same in PyTorch",
}
# Columns for the encoder: title, beginning of the rows' names, padding.
READINGS = (
    ("batches, no pads", "encoder forward", "none"),
    ("batches, half of it pads", "encoder forward", "half"),
    ("one text, no pads", "encoder latency", "none"),
)
MIXERS = ("lightweight_conv", "dilated_conv", "dynamic_conv")
PASSES = {"forward": "forward", "forward+backward": "with gradient"}
_COLORS = ("#1f5fa8", "#b3400e", "#227a4b", "#6b4c9a")


def encoder(results):
    """Plots the encoder compared with its peers, against the length; None without rows of two lengths."""
    panels = {}
    for row in _rows(results, "encoder"):
        setting, (what, _, peer) = row["setting"], row["name"].partition(" vs ")
        for column, (_, begin, padding) in enumerate(READINGS):
            fits = what == begin and setting.get("padding", "none") == padding
            if fits and peer in PEERS and row["ratio"] is not None and setting.get("dtype") in DTYPES:
                place = DTYPES.index(setting["dtype"]), column
                line = panels.setdefault(place, {}).setdefault(PEERS[peer], {})
                line.setdefault(setting["length"], []).append(row["ratio"])
    if all(len(line) < 2 for lines in panels.values() for line in lines.values()):
        return None
    titles = [title for title, *_ in READINGS]
    return _multiples(panels, titles, list(dict.fromkeys(PEERS.values())), "length, tokens")


def kernels(results):
    """Plots the mixing operation compared with PyTorch's fastest form, against K; None without two Ks."""
    panels = {}
    for row in _rows(results, "kernels"):
        setting, (what, _, peer) = row["setting"], row["name"].partition(" vs ")
        mixer, _, part = what.partition(" ")
        if peer == "PyTorch" and mixer in MIXERS and part in PASSES and setting.get("dtype") in DTYPES:
            place = DTYPES.index(setting["dtype"]), MIXERS.index(mixer)
            line = panels.setdefault(place, {}).setdefault(PASSES[part], {})
            line.setdefault(setting["kernel_size"], []).append(row["ratio"])
    if all(len(line) < 2 for lines in panels.values() for line in lines.values()):
        return None
    return _multiples(panels, MIXERS, list(PASSES.values()), "taps K")


def memory(results):
    """Plots peak memory of a training step on one text, against its length; None without two lengths."""
    lines, name = {}, "training memory of "
    for row in _rows(results, "train_step"):
        if row["name"].startswith(name) and row["unit"] == "MB":
            ours, _, peer = row["name"].removeprefix(name).partition(" vs ")
            lines.setdefault(ours, {})[row["setting"]["length"]] = row["ours"]
            lines.setdefault(peer.replace("own", "our"), {})[row["setting"]["length"]] = row["peer"]
    lines = {label: points for label, points in lines.items() if len(points) > 1}
    if not lines:
        return None
    figure, axis = plt.subplots(figsize=(6, 3.2))
    for color, group in zip(_COLORS, _of_one_place(lines), strict=False):
        for label in group:
            axis.plot(*zip(*sorted(lines[label].items()), strict=True), color=color, marker="o")
        length = max(lines[group[0]])
        _name(axis, length, lines[group[0]][length], ", ".join(group).replace("_conv", ""), color)
    axis.set(xlabel="length, tokens", ylabel="peak memory, MB", ylim=(0, None))
    lengths = sorted({length for points in lines.values() for length in points})
    axis.set_xticks(lengths)
    axis.set_xlim(0.9 * lengths[0], 1.6 * lengths[-1])
    return _plain(figure)


def _rows(results, program):
    return results.get(program, {"rows": []})["rows"]


def _of_one_place(lines):
    """Groups labels whose lines end within a tenth of each other, because their names would overlap."""
    groups = []
    for label in sorted(lines, key=lambda label: lines[label][max(lines[label])]):
        end = lines[label][max(lines[label])]
        if groups and end < 1.1 * lines[groups[-1][0]][max(lines[groups[-1][0]])]:
            groups[-1].append(label)
        else:
            groups.append([label])
    return groups


def _multiples(panels, titles, names, xlabel):
    """Draws one row of panels per dtype: medians as lines, the range from lowest to highest as an area."""
    rows = sorted({row for row, _ in panels})
    figure, axes = plt.subplots(
        len(rows), len(titles), figsize=(3.6 * len(titles), 3.1 * len(rows)),
        sharex=True, sharey=True, squeeze=False,
    )  # fmt: skip
    for i, row in enumerate(rows):
        for column, title in enumerate(titles):
            axis, lines = axes[i, column], panels.get((row, column), {})
            axis.axhline(1, color="#666666", linewidth=1)
            ends = {}
            for name, points in lines.items():
                color = _COLORS[names.index(name)]
                x = sorted(points)
                axis.plot(x, [statistics.median(points[each]) for each in x], color=color, marker=".")
                axis.fill_between(
                    x, [min(points[each]) for each in x], [max(points[each]) for each in x],
                    color=color, alpha=0.15, linewidth=0,
                )  # fmt: skip
                ends[name] = x[-1], statistics.median(points[x[-1]]), color
            _name_all(axis, ends)
            axis.set_title(f"{title}, {DTYPES[row]}", fontsize=10)
            axis.set_xscale("log", base=2)
            axis.set_yscale("log", base=2)
            for side in (axis.xaxis, axis.yaxis):
                side.set_major_formatter("{x:g}")
            if i == len(rows) - 1:
                axis.set_xlabel(xlabel)
        axes[i, 0].set_ylabel("times as fast")
    every_x = {x for lines in panels.values() for points in lines.values() for x in points}
    ticks = []
    for x in sorted(every_x, reverse=True):  # two ticks an octave apart would touch
        if not ticks or x < ticks[-1] / 2.05:
            ticks.append(x)
    axes[0, 0].set_xticks(ticks)
    axes[0, 0].set_xlim(0.9 * min(every_x), max(every_x) * (max(every_x) / min(every_x)) ** 0.65)
    return _plain(figure)


def _name_all(axis, ends):
    """Writes names at the ends of lines on a logarithmic axis, moved apart to at least half an octave."""
    last = None
    for name, (x, y, color) in sorted(ends.items(), key=lambda item: item[1][1]):
        y = y if last is None else max(y, 1.45 * last)
        _name(axis, x, y, name, color)
        last = y


def _name(axis, x, y, text, color):
    axis.annotate(
        text, (x, y), xytext=(5, 0), textcoords="offset points", color=color, va="center", fontsize=8,
        bbox={"color": "white", "pad": 0.5},
    )  # fmt: skip


def _plain(figure):
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.set_axisbelow(True)
    return figure
