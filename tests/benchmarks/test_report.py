import json

import pytest

from benchmarks import pages, performance_plots, report
from benchmarks.goals import goal
from benchmarks.rows import Row, write_json

MACHINE = {"cpu": "Some CPU", "threads": 2, "flags": ["avx2", "avx512f"]}


def encoder_row(length, ratio, dtype="float32"):
    name = "encoder forward vs own attention"
    setting = {"dtype": dtype, "length": length, "hidden_dim": 256, "seed": 0}
    return Row(name, setting, 10.0, 10.0 * ratio, "ms", "lower", goal(name, setting))


@pytest.fixture
def folder(tmp_path):
    step = {"dtype": "bfloat16", "length": 512}
    programs = {
        "encoder": [encoder_row(512, 2.5), encoder_row(1024, 3.0), encoder_row(512, 2.6, "bfloat16")],
        "train_step": [
            Row("training step vs own attention", step, 9000.0, 4000.0, "tokens/s", "higher", 2.0),
            Row("training memory of a_conv vs own attention", {"length": 2048}, 2e3, 3e3, "MB", "lower"),
            Row("training memory of a_conv vs own attention", {"length": 4096}, 4e3, 9e3, "MB", "lower"),
        ],
        "cost": [
            Row("fourier parameters", {"length": 512}, 0, 0, "parameters", "limit"),
            Row("fourier multiply-adds", {"length": 512}, 1000, 1010, "multiply-adds", "limit"),
            Row("fourier model parameters", {"size": "base"}, 5, 5, "parameters", "limit"),
        ],
    }
    for name, rows in programs.items():
        write_json(str(tmp_path / "json" / f"{name}.json"), {**MACHINE, "command": f"run {name}"}, rows)
    return tmp_path


def test_a_page_from_nothing(folder):
    results = report.read(folder / "json")
    assert list(results) == ["train_step", "encoder", "cost"]
    report.write(results, folder / "out")
    text = (folder / "out" / "performance.md").read_text()
    assert "**2 of 3 goals met.**" in text
    line = "encoder, 64 to 8,192 tokens | encoder forward vs own attention | float32 | 2.5 to 3 | 1 of 2"
    assert f"| {line} | at 1024: 3, 3.3 |" in text
    assert "| training step vs own attention | bfloat16 | 2.25 | 1 of 1 |  |" in text
    assert "| cpu | Some CPU |" in text
    assert "`run encoder`" in text
    for name in ("encoder", "memory"):
        plot = folder / "out" / f"performance_{name}.svg"
        assert plot.stat().st_size > 1000
        assert f"]({plot.name})" in text
    assert "performance_kernels" not in text
    written = json.loads((folder / "out" / "performance.json").read_text())
    assert set(written) == set(results)
    assert len(written["encoder"]["rows"]) == 3
    assert set(written["encoder"]["rows"][0]) == {
        "name", "setting", "ours", "peer", "unit", "ratio", "goal", "met",
    }  # fmt: skip


def test_only_the_generated_part_of_a_page_is_replaced(folder):
    page = folder / "performance.md"
    page.write_text(f"before\n\n{report.BEGIN}\n\nold\n\n{pages.END}\n\nafter\n")
    results = report.read(folder / "json")
    report.write(results, folder)
    once = page.read_text()
    assert once.startswith("before\n\n")
    assert once.endswith("\n\nafter\n")
    assert "old" not in once
    report.write(results, folder)
    assert page.read_text() == once


def test_a_page_without_marks_is_an_error(folder):
    (folder / "performance.md").write_text("no marks")
    with pytest.raises(ValueError, match="`--docs_dir` must lead to a page that holds"):
        report.write(report.read(folder / "json"), folder)
    assert (folder / "performance.md").read_text() == "no marks"
    assert not list(folder.glob("*.svg"))


def test_nothing_to_report_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no results"):
        report.write(report.read(tmp_path), tmp_path)


def test_lines_of_a_plot_have_names_and_do_not_share_a_color():
    def row(mixer, kernel_size, dtype, ratio):
        setting = {"kernel_size": kernel_size, "dtype": dtype}
        return {"name": f"{mixer} forward vs PyTorch", "setting": setting, "ratio": ratio, "unit": "ms"}

    found = [
        row(mixer, size, dtype, ratio)
        for mixer in ("lightweight_conv", "dynamic_conv")
        for size in (3, 7)
        for dtype in ("float32", "bfloat16")
        for ratio in (1.0, 2.0, 4.0)
    ]
    found += [{**each, "name": each["name"].replace("forward", "forward+backward")} for each in found]
    figure = performance_plots.kernels({"kernels": {"rows": found}})
    drawn = [axis for axis in figure.axes if axis.texts]
    assert len(drawn) == 4
    for axis in drawn:
        assert {text.get_text() for text in axis.texts} == {"forward", "with gradient"}
        lines = [line for line in axis.lines if line.get_marker() == "."]
        assert len({line.get_color() for line in lines}) == 2
        assert all(list(line.get_ydata()) == [2.0, 2.0] for line in lines)  # the median
    assert len({tuple(axis.get_ylim()) for axis in figure.axes}) == 1
    assert performance_plots.kernels({"kernels": {"rows": found[:1]}}) is None
