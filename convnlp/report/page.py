"""Renders the report as one HTML file without external parts."""

import pathlib

from convnlp.report import charts
from convnlp.report.markup import Markup, element, join

_STYLE = pathlib.Path(__file__).with_name("page.css")
_SHOWN_CLASSES = 50
_SHOWN_WEIGHT = 0.2  # share of the largest in a text; words below it are not marked
_COST = {
    "parameters": "Parameters",
    "step": "Steps",
    "best_step": "Step whose weights were kept",
    "tokens": "Tokens read",
    "seconds": "Seconds of training",
    "cpu_hours": "CPU hours of training",
    "kilowatt_hours": "Energy, estimated, in kWh",
    "hardware": "Hardware",
}
_DATA = {
    "num_examples": "examples",
    "length": "tokens read of a text",
    "cut": "texts that fill this length",
    "empty": "empty texts",
    "equal_texts": "texts that occurred before, as far as they are read",
    "unknown": "unknown pieces",
}
_INTERVAL = "The interval covers other examples of the same kind; another training run would also differ."
_CHOSEN = (
    "The validation examples also chose the step that was kept, so their scores are a little too good. "
    "Use data.test_source for examples that have chosen nothing."
)
_LEARNED = (
    "The scores of validation are of the model as it was before its n-grams learned from these examples too. "
    "The model that is kept has, and a score of it on them would say nothing."
)
_LEFT_OUT = (
    "No examples were held out for validation. Instead, each training example, or each of a fifth of them if "
    "there are many, was answered by a model that was fitted without it. The validation scores are those of "
    "these answers. The model that is kept was fitted to all examples."
)


def render(report):
    """Renders the page of a report.

    Args:
        report: dict, what `convnlp.report.write` writes as report.json.

    Returns:
        str, HTML.
    """
    sections = [
        _scores(report["scores"], report["left_out"], report["learned"], "best_step" in report["cost"]),
        _warnings(report["warnings"]),
        *(_SECTIONS[section["kind"]](section) for section in report["sections"]),
        _curves(report["curves"]),
        _data(report["data"]),
        _cost(report["cost"], report["command"]),
    ]
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", report["title"]),
        element("style", Markup(_STYLE.read_text(encoding="utf-8"))),
    )
    main = element("main", element("h1", report["title"]), *filter(None, sections))
    return f"<!DOCTYPE html>\n{element('html', head, element('body', main), lang='en')}\n"


def _scores(scores, left_out, learned, has_steps):
    """Makes the table of scores.

    `left_out` says whether the validation scores come from models that had not seen the example, `learned`
    whether the model that is kept has learned from the held-out examples, and `has_steps` whether these chose
    one of its steps; they choose nothing in a head that is fitted at once.
    """
    rows = []
    for split, found in scores.items():
        for name, score in found["values"].items():
            between = "" if score["interval"] is None else "{:.3f} to {:.3f}".format(*score["interval"])
            rows.append([split, name.replace("_", " "), score["value"], between, found["num_examples"]])
    table = _table("Scores", ("data", "score", "value", "95% interval", "examples"), rows)
    notes = [_LEFT_OUT] if left_out else [_CHOSEN] if has_steps and "test" not in scores else []
    notes += [_LEARNED] * learned
    return _section("Scores", table, notes=[_INTERVAL, *notes])


def _warnings(sentences):
    if not sentences:
        return ""
    items = [element("li", sentence) for sentence in sentences]
    return _section("Before you trust it", element("ul", *items, class_="warnings"))


def _of_table(section):
    table = _table(section["title"], section["columns"], section["rows"])
    return _section(section["title"], table, notes=[section["note"]])


def _confusion(section):
    labels = section["labels"]
    head = [element("th", "class ↓ taken for →", scope="col")]
    head += [element("th", label, scope="col") for label in labels]
    rows = []
    for i, (label, counts) in enumerate(zip(labels, section["counts"], strict=True)):
        cells = [
            element(
                "td",
                count or "",
                class_="right" if i == j else "wrong",
                style=f"--share:{count / max(sum(counts), 1):.2f}",
            )
            for j, count in enumerate(counts)
        ]
        rows.append(element("tr", element("th", label, scope="row"), *cells))
    return _section(section["title"], _framed(section["title"], head, rows, class_="confusion"))


def _calibration(section):
    sentence = f"Its probabilities are {section['error']:.1%} away from the share that is right, on average."
    how = "On the diagonal a probability of 0.8 is right 80% of the time; below it the model is too sure."
    chart = charts.calibration(section["bins"], f"Share that is right over probability. {sentence}")
    table = _table(section["title"], ("probability", "right", "examples"), section["bins"])
    return _section(section["title"], element("div", chart, table, class_="charts"), notes=[sentence, how])


def _mistakes(section):
    items = []
    for row in section["rows"]:
        text = row["text"] if row["words"] is None else _weighed(row["words"])
        answer = [f"answered “{row['found']}” ({row['probability']:.0%} sure), labelled “{row['wanted']}”"]
        items.append(element("li", element("p", text), element("p", *answer, class_="answer")))
    return _section(section["title"], element("ol", *items, class_="mistakes"), notes=[section["note"]])


def _weighed(words):
    """Returns the words of a text, marked if they matter."""
    largest = max((abs(weight) for _, weight in words), default=0) or 1
    parts = []
    for word, weight in words:
        share = abs(weight) / largest
        side = "for" if weight > 0 else "against"
        title = f"speaks {side} the answer ({weight:+.2f})"
        marked = element("mark", word, class_=side, style=f"--share:{share:.2f}", title=title)
        parts.append(marked if share >= _SHOWN_WEIGHT else word)
    return join(parts, " ")


def _curves(curves):
    known = {"loss": "training", "valid/loss": "validation"}
    losses = [(label, curves[name]) for name, label in known.items() if name in curves]
    figures = []
    if losses:
        ends = ", ".join(f"{name} ends at {charts.short(points[-1][1])}" for name, points in losses)
        figures.append(_figure("Loss", charts.lines(losses, "step", f"Loss over steps: {ends}.")))
    for name in [name for name in curves if name not in known]:
        label, points = name.removeprefix("valid/"), curves[name]
        best = charts.short(max(value for _, value in points))
        chart = charts.lines([(label, points)], "step", f"{label} on validation over steps: at most {best}.")
        figures.append(_figure(f"Validation {label}", chart))
    return _section("Learning curves", element("div", *figures, class_="charts")) if figures else ""


def _figure(title, chart):
    return element("figure", element("figcaption", title), chart)


def _data(facts):
    rows = [[label, *(each[key] for each in facts.values())] for key, label in _DATA.items()]
    for row in rows[-1:]:
        row[1:] = [f"{share:.2%}" for share in row[1:]]
    for key in facts["train"]["tokens"]:
        rows.append([f"tokens of a text, {key}", *(each["tokens"][key] for each in facts.values())])
    parts = [_table("Texts", ("what", *facts), rows)]
    if classes := facts["train"].get("classes"):
        names = sorted(classes, key=lambda name: -classes[name])[:_SHOWN_CLASSES]
        rows = [[name, *(each["classes"][name] for each in facts.values())] for name in names]
        whose = "each class" if len(names) == len(classes) else f"the {len(names)} most frequent classes"
        parts.append(_table(f"Examples of {whose}", ("class", *facts), rows))
    return _section("The data", *parts)


def _cost(cost, command):
    rows = [[label, cost[name]] for name, label in _COST.items() if name in cost]
    made = element("pre", command)
    return _section("What it took", _table("Cost", ("what", "value"), rows), element("p", "Made by"), made)


def _section(title, *parts, notes=()):
    return element("section", element("h2", title), *(element("p", note) for note in notes if note), *parts)


def _table(caption, columns, rows):
    kinds = [_kind(column) for column in zip(*rows, strict=True)] or ["text"] * len(columns)
    head = [element("th", name, scope="col", class_=kind) for name, kind in zip(columns, kinds, strict=True)]
    body = []
    for first, *others in rows:
        cells = [
            element("td", _cell(cell), class_=kind) for cell, kind in zip(others, kinds[1:], strict=True)
        ]
        body.append(element("tr", element("th", _cell(first), scope="row"), *cells))
    return _framed(caption, head, body)


def _framed(caption, head, body, **attributes):
    """Makes a table that scrolls by itself if it is too wide, also by keyboard; the page does not scroll."""
    parts = [element("caption", caption), element("thead", element("tr", *head)), element("tbody", *body)]
    table = element("table", *parts, **attributes)
    return element("div", table, class_="scrolled", role="region", tabindex=0, aria_label=caption)


def _kind(values):
    return "number" if any(isinstance(value, int | float) for value in values) else "text"


def _cell(value):
    if value is None:
        return "-"
    if isinstance(value, float) and 0.001 <= abs(value) <= 1:
        return f"{value:.3f}"  # most often shares in a column
    return charts.short(value) if isinstance(value, int | float) else value


_SECTIONS = {
    "table": _of_table,
    "confusion": _confusion,
    "calibration": _calibration,
    "mistakes": _mistakes,
}
