"""The table and the plots of a comparison, and a self-contained HTML page with both."""

import html
import io
import json

from benchmarks import pages
from benchmarks.comparison import rank_plot, summary_page
from benchmarks.comparison.cells import file_name
from benchmarks.comparison.intervals import Interval
from benchmarks.comparison.plots import STARTS, plots
from benchmarks.comparison.task_kinds import KINDS
from benchmarks.figures import save_figure

_STYLE = """\
body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; }
table { border-collapse: collapse; font-size: 14px; } td, th { padding: .3em .7em; text-align: right; }
td:first-child, th:first-child { text-align: left; } tr { border-bottom: 1px solid #ddd; }
svg { max-width: 100%; height: auto; } pre { background: #f5f5f5; padding: .7em; overflow-x: auto; }"""


def table_cells(rows):
    """Returns the table as (header, lines), all of str.

    Args:
        rows: list of dicts, see `benchmarks.comparison.results.collect`.
    """
    starts = [start for start in STARTS if any(start in row["starts"] for row in rows)]
    header = ["mixer", *(STARTS[start] for start in starts), *(["gain"] if len(starts) > 1 else [])]
    header += ["seeds", "steps", "parameters", "multiply-adds", "training tokens/s", "prediction tokens/s"]
    header += ["memory, MB"]
    return header, [_line(row, starts) for row in rows]


def _line(row, starts):
    scores = [row["starts"].get(start) for start in starts]
    cells = [row["mixer"], *(_interval(score).percent() if score else "" for score in scores)]
    if len(starts) > 1:
        cells.append(Interval(**row["gain"]).percent() if row["gain"] else "")
    done, mark = [score for score in scores if score], " †" if row.get("busy") else ""
    cells += [
        "/".join(dict.fromkeys(str(len(score["seeds"])) for score in done)),
        "/".join(dict.fromkeys(f"{score['steps']:,}" for score in done)),
        f"{row['parameters'] / 1e6:.2f}M",
        f"{row['multiply_adds'] / 1e6:.1f}M",
    ]
    if "memory_bytes" not in row:  # not measured yet
        return [*cells, "", "", ""]
    return [
        *cells,
        f"{row['train_tokens_per_second']:,.0f}{mark}",
        f"{row['predict_tokens_per_second']:,.0f}{mark}",
        f"{row['memory_bytes'] / 2**20:,.0f}",
    ]


def _interval(score):
    return Interval(score["mean"], score["half_width"], len(score["seeds"]))


def notes(plan):
    """Returns what a reader must know about the figures, a list of sentences."""
    amount = f"{plan['amount']:,g} {plan['budget']}"
    pretraining, found = "no pre-training", plan["pretraining"]
    if found:
        pretraining = (
            f"{found['amount']:,g} {found['budget']} of masked LM on {found['source']}, "
            "one pre-training per mixer"
        )
    rates = [("fine-tuning", plan["learning_rates"], "validation score, for each start")]
    if found:
        rates.append(("pre-training", found["learning_rates"], "held-out loss of a short run"))
    chosen = "; ".join(
        f"the learning rate of {what} is {' or '.join(f'{rate:g}' for rate in grid)}"
        + (f", by the {judge}" if len(grid) > 1 else "")
        for what, grid, judge in rates
    )
    kind = KINDS[plan["data"]["kind"]]
    return [
        f"Every mixer has the same skeleton (size {plan['size']}, {kind.model_words}, "
        f"{plan['data']['length']} tokens), data, seeds and budget: {amount} of {plan['batch_size']} "
        f"texts for each fine-tuning, and {pretraining}. The step of the best {kind.best_words} counts; "
        f"{chosen}.",
        f"Scores are {kind.score_words} in per cent: the mean over seeds ± the half-width of its 95% "
        "interval by Student's t. It shows what another seed of fine-tuning would change, not another test "
        "set or another pre-training. The gain is paired by seed.",
        "Multiply-adds are those of one text of full length by `cost()`, without the head; tokens/s and "
        "memory (above that of the imported libraries) are measured in a fresh process on rows without pads. "
        "† marks speeds measured while other programs kept the machine busy: too low.",
        f"Trained on {plan['data']['source']} [{plan['data']['split']}], tested on "
        f"{plan['data']['test_source']} [{plan['data']['test_split']}].",
    ]


def write_html(path, title, result):
    """Writes the page of one comparison.

    Args:
        path: pathlib.Path.
        title: str.
        result: dict, {"machine", "plan", "rows", "failed"}, which is also written as JSON.
    """
    rows = result["rows"]
    parts = [_html_table(*table_cells(rows))]
    parts += [f"<p>{html.escape(note)}</p>" for note in notes(result["plan"])]
    if result["failed"]:
        parts.append(f"<p><b>Failed: {html.escape(', '.join(result['failed']))}</b></p>")
    for name, figure in plots(rows).items() if rows else ():
        parts += [f"<h2>{name}</h2>", _svg(figure)]
    machine = json.dumps({"machine": result["machine"], "plan": result["plan"]}, indent=1)
    parts.append(f"<h2>Settings and machine</h2><pre>{html.escape(machine)}</pre>")
    _write_page(path, title, parts)


def write_tasks(path, title, summary):
    """Writes the page of several tasks together.

    Args:
        path: pathlib.Path.
        title: str.
        summary: dict, see `benchmarks.comparison.summary.collect`.
    """
    parts = [_html_table(*summary_page.table_cells(summary))]
    header, lines = summary_page.paired_cells(summary)
    parts += [_html_table(header, lines)] * bool(lines)
    parts += [f"<p>{html.escape(note)}</p>" for note in summary_page.notes(summary)]
    if summary["ranking"]:
        parts.append(_svg(rank_plot.plot(summary["ranking"])))
    _write_page(path, title, parts)


def _write_page(path, title, parts):
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *parts])
    path.write_text(
        f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n<body>\n{body}\n</body>\n</html>\n",
        encoding="utf-8",
    )


def _html_table(header, lines):
    def line(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "\n".join(["<table>", line(header, "th"), *(line(cells, "td") for cells in lines), "</table>"])


def _svg(figure):
    """Returns the figure as an HTML element."""
    text = io.StringIO()
    save_figure(figure, text, format="svg", bbox_inches="tight")
    return text.getvalue()[text.getvalue().index("<svg") :]  # without the XML declaration


def write_docs(page, name, result):
    """Writes the table, notes and plots into a page of docs/, between this task's marks.

    Args:
        page: pathlib.Path, with the mark `<!-- generated by benchmarks.compare: NAME -->`.
        name: str, of the task. The plots become PAGE_NAME_*.svg beside the page.
        result: dict, as in `write_html`.
    """
    header, lines = table_cells(result["rows"])
    parts = [pages.table(header, lines), *notes(result["plan"])]
    for title, figure in plots(result["rows"]).items():
        path = page.with_name(f"{page.stem}_{file_name(name)}_{title.rpartition(' ')[2]}.svg")
        save_figure(figure, path, bbox_inches="tight")
        parts.append(f"![{title}]({path.name})")
    pages.replace_generated(page, _mark(name), "\n\n".join(parts))


def require_marks(page, name):
    """Raises ValueError unless `write_docs` can write a task's part into a page; takes its arguments."""
    pages.require_marks("docs_page", page, _mark(name))


def _mark(name):
    return f"<!-- generated by benchmarks.compare: {name} -->"
