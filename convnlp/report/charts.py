"""Draws small SVG charts, with labels beside the lines and a sentence for those who cannot see them."""

import itertools

from convnlp.report.markup import element, join

WIDTH, HEIGHT = 340, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 92, 12, 34
_LINE = 13  # from one line of text to the next


def lines(series, x_name, description):
    """Draws curves over a common horizontal axis.

    Args:
        series: list of (name, points), where points is a list of (x, y).
        x_name: str.
        description: str, one sentence on what the chart shows.

    Returns:
        `Markup`, an SVG element.
    """
    points = [point for _, each in series for point in each]
    x_scale = _Scale([x for x, _ in points], _LEFT, WIDTH - _RIGHT)
    y_scale = _Scale([y for _, y in points], HEIGHT - _BOTTOM, _TOP)
    parts = [_axes(x_scale, y_scale, x_name)]
    labels = _apart([y_scale(each[-1][1]) for _, each in series])
    for number, ((name, each), label) in enumerate(zip(series, labels, strict=True)):
        style = f"c{number}"
        path = " ".join(f"{x_scale(x):.1f},{y_scale(y):.1f}" for x, y in each)
        x, y = x_scale(each[-1][0]), y_scale(each[-1][1])
        parts.append(element("polyline", class_=f"line {style}", points=path))
        parts.append(element("circle", class_=f"dot {style}", cx=x, cy=y, r=2.5))
        parts.append(element("text", name, class_=f"name {style}", x=x + 7, y=label + 4))
    return _svg(parts, description)


def calibration(bins, description):
    """Draws the share that is right over the probability, on equal axes, with the diagonal.

    Args:
        bins: list of (mean probability, share that is right, number).
        description: str.

    Returns:
        `Markup`, an SVG element.
    """
    size = HEIGHT - _TOP - _BOTTOM
    x_scale, y_scale = _Scale((0, 1), _LEFT, _LEFT + size), _Scale((0, 1), HEIGHT - _BOTTOM, _TOP)
    ends = {"x1": x_scale(0), "y1": y_scale(0), "x2": x_scale(1), "y2": y_scale(1)}
    parts = [_axes(x_scale, y_scale, "probability"), element("line", class_="diagonal", **ends)]
    most = max(number for *_, number in bins)
    for sure, right, number in bins:
        radius = 2.5 + 5 * (number / most) ** 0.5
        parts.append(element("circle", class_="dot c0", cx=x_scale(sure), cy=y_scale(right), r=radius))
    parts.append(element("text", "share right", class_="name c0", x=_LEFT + size + 8, y=_TOP + 8))
    return _svg(parts, description)


def short(value):
    """Formats a number with three significant digits and separated thousands."""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


class _Scale:
    """Maps values to places."""

    def __init__(self, values, start, end):
        self.low, self.high = min(values), max(values)
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self._start, self._end = start, end

    def __call__(self, value):
        return self._start + (value - self.low) / (self.high - self.low) * (self._end - self._start)


def _svg(parts, description):
    size = f"0 0 {WIDTH} {HEIGHT}"
    return element("svg", *parts, role="img", viewBox=size, aria_label=description)


def _axes(x_scale, y_scale, x_name):
    left, bottom, right = x_scale(x_scale.low), HEIGHT - _BOTTOM, x_scale(x_scale.high)
    parts = [element("path", class_="axis", d=f"M{left},{_TOP}V{bottom}H{right:.1f}")]
    for value in (y_scale.low, (y_scale.low + y_scale.high) / 2, y_scale.high):
        parts.append(_tick(value, left - 6, y_scale(value) + 4, "end"))
    parts += [_tick(x_scale.low, left, bottom + 16, "start"), _tick(x_scale.high, right, bottom + 16, "end")]
    parts.append(_tick(x_name, (left + right) / 2, bottom + 30, "middle"))
    return join(parts)


def _tick(value, x, y, anchor):
    text = value if isinstance(value, str) else short(value)
    return element("text", text, class_="tick", x=x, y=y, text_anchor=anchor)


def _apart(places):
    """Returns the places of labels, moved down where two would overlap."""
    moved = list(places)
    for before, i in itertools.pairwise(sorted(range(len(places)), key=places.__getitem__)):
        moved[i] = max(moved[i], moved[before] + _LINE)
    return moved
