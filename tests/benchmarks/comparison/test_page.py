import dataclasses
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks import figures
from benchmarks.comparison import page, results
from tests.benchmarks.comparison.test_plan import PLAN

MODEL = {"parameters": 1_500_000, "multiply_adds": 25_000_000}
MEASURED = {
    **MODEL,
    "train_tokens_per_second": 1234.5,
    "predict_tokens_per_second": 4321.0,
    "memory_bytes": 200 * 2**20,
    "busy": True,
}


def fill(workdir, plan=PLAN, leave_out=()):
    """Results in which pre-training is worth 20 points, and long texts are always wrong."""
    for mixer, base in (("dynamic_conv", 0.6), ("fourier", 0.5)):
        for cell in plan.cells(mixer):
            settings = cell.settings
            if (settings.get("start"), settings.get("seed")) in leave_out:
                continue
            result = MEASURED if cell.kind == "measure" else {"steps": 50, "curve": [[25, 5.0], [50, 4.0]]}
            if cell.kind == "finetune":
                accuracy = base + 0.2 * (settings["start"] == "pretrained") + 0.02 * settings["seed"]
                result = {
                    **MODEL,
                    "learning_rate": 1e-3,
                    "steps": 100,
                    "cpu_seconds": 7.0,
                    "accuracy": accuracy,
                    "curve": [[50, accuracy - 0.1], [100, accuracy]],
                    "lengths": [3, 4, 5, 6, 7, 8, 9, 10],
                    "hits": [1, 1, 1, 1, 1, 1, 0, 0],
                }
            cell.directory(workdir).mkdir(parents=True)
            (cell.directory(workdir) / "result.json").write_text(json.dumps(result))


@pytest.fixture
def rows(tmp_path):
    fill(tmp_path)
    return results.collect(PLAN, tmp_path)


def test_every_row_has_a_panel_with_its_name_and_its_own_lines(rows):
    many = [{**rows[rank % 2], "mixer": f"synthesizer:rank={rank}"} for rank in range(1, 42)]
    figure = page.plots(many)["Learning curves"]
    panels = [axis for axis in figure.axes if axis.lines]
    assert [axis.get_title(loc="left") for axis in panels] == [row["mixer"] for row in many]
    for axis, row in zip(panels, many, strict=True):
        others, *own = axis.lines
        assert len(others.get_xdata()) == 41 * 2 * (2 + 1)  # rows, starts, points and a gap
        for line, score in zip(own, row["starts"].values(), strict=True):
            assert line.get_xydata().tolist() == [[step, 100 * value] for step, value in score["curve"]]
        assert len({line.get_color() for line in axis.lines}) == 3
    # Of 4 columns and 11 rows, whose last has one panel: the lowest panel of each column has its numbers.
    assert [axis.xaxis.get_tick_params()["labelbottom"] for axis in panels] == [False] * 37 + [True] * 4
    figures.plt.close("all")


def test_the_best_row_stands_on_top_with_its_name(rows):
    left, right = page.plots(rows)["Scores and speeds"].axes
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names == ["fourier", "dynamic_conv"]  # from below
    assert sorted(text.get_text() for text in left.texts) == ["from scratch", "pre-trained"]
    assert [bar.get_width() for bar in right.patches] == [MEASURED["train_tokens_per_second"] / 1e3] * 2
    figures.plt.close("all")


def test_rows_are_the_means_over_seeds_best_first(rows):
    assert [row["mixer"] for row in rows] == ["dynamic_conv", "fourier"]
    scratch = rows[0]["starts"]["scratch"]
    assert scratch["accuracies"] == [0.6, 0.62]
    assert scratch["mean"] == pytest.approx(0.61)
    assert scratch["cpu_seconds"] == 7.0
    assert scratch["curve"] == [[50, pytest.approx(0.51)], [100, pytest.approx(0.61)]]
    assert [group["accuracy"] for group in scratch["by_length"]] == [1, 1, 1, 0]
    assert sum(group["num_texts"] for group in scratch["by_length"]) == 8
    assert rows[0]["gain"]["mean"] == pytest.approx(0.2)
    assert rows[0]["gain"]["half_width"] == pytest.approx(0, abs=1e-9)  # both seeds gain the same


def test_a_row_has_the_speed_at_the_length_of_its_task(tmp_path):
    plan = dataclasses.replace(PLAN, pretraining=dataclasses.replace(PLAN.pretraining, budget="seconds"))
    fill(tmp_path, plan)
    _, of_pretraining = (cell for cell in plan.cells("fourier") if cell.kind == "measure")
    other = {**MEASURED, "train_tokens_per_second": 1.0}
    (of_pretraining.directory(tmp_path) / "result.json").write_text(json.dumps(other))
    assert [row["train_tokens_per_second"] for row in results.collect(plan, tmp_path)] == [1234.5] * 2


def test_what_is_not_finished_is_left_out(tmp_path):
    fill(tmp_path, leave_out=[("pretrained", 1)])
    row = results.collect(PLAN, tmp_path)[0]
    assert row["starts"]["pretrained"]["seeds"] == [0]
    assert row["starts"]["pretrained"]["half_width"] is None
    assert row["gain"]["num_seeds"] == 1
    measurement = PLAN.cells("fourier")[0]
    (measurement.directory(tmp_path) / "result.json").unlink()
    rows = results.collect(PLAN, tmp_path)
    header, lines = page.table_cells(rows)
    cells = dict(zip(header, lines[1], strict=True))
    assert (cells["mixer"], cells["parameters"], cells["training tokens/s"]) == ("fourier", "1.50M", "")
    page.plots(rows)
    figures.plt.close("all")
    other = dataclasses.replace(PLAN, amount=7)
    assert results.collect(other, tmp_path) == []


def test_the_table(rows):
    header, lines = page.table_cells(rows)
    first = dict(zip(header, lines[0], strict=True))
    assert first["mixer"] == "dynamic_conv"
    assert first["from scratch"] == "61.0 ± 12.7"  # t(0.975, 1) = 12.706 times 1 / sqrt(2) times sqrt(2)
    assert first["gain"] == "20.0 ± 0.0"
    assert first["parameters"] == "1.50M"
    assert first["memory, MB"] == "200"
    assert first["training tokens/s"] == "1,234 †"
    assert first["steps"] == "100"


def test_the_page_needs_nothing_else(rows, tmp_path):
    result = {"machine": {"cpu": "<fast>"}, "plan": PLAN.as_dict(), "rows": rows, "failed": ["muse"]}
    page.write_html(tmp_path / "page.html", "Token mixers on a & b", result)
    text = (tmp_path / "page.html").read_text()
    assert text.count("<svg") == text.count("</svg>") == 3
    assert "Token mixers on a &amp; b" in text
    assert "&lt;fast&gt;" in text
    assert "Failed: muse" in text
    assert not re.search(r"<(script|link|img|iframe)", text)
    for svg in re.findall(r"<svg.*?</svg>", text, re.S):
        ElementTree.fromstring(svg)


def test_a_page_without_results_is_written_too(tmp_path):
    result = {"machine": {}, "plan": PLAN.as_dict(), "rows": [], "failed": ["muse"]}
    page.write_html(tmp_path / "page.html", "None", result)
    assert "Failed: muse" in (tmp_path / "page.html").read_text()


def test_the_docs_get_table_notes_and_plots(rows, tmp_path):
    docs = tmp_path / "comparison.md"
    docs.write_text(
        "Before\n<!-- generated by benchmarks.compare: trec6 -->\n<!-- end of generated part -->\nAfter"
    )
    result = {"plan": PLAN.as_dict(), "rows": rows}
    page.write_docs(docs, "trec6", result)
    text = docs.read_text()
    assert text.startswith("Before")
    assert text.endswith("After")
    assert "| dynamic_conv | 61.0 ± 12.7 |" in text
    for name in re.findall(r"\]\((.*?\.svg)\)", text):
        assert (tmp_path / name).read_text().startswith("<?xml")
    assert len(list(tmp_path.glob("*.svg"))) == 3
