import json

import pytest

pytest.importorskip("matplotlib", reason="draws the plots of the benchmarks, in requirements-bench.txt")

from benchmarks import pages, report
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
            Row("training memory", {"length": 2048}, 2000.0, 3000.0, "MB", "lower"),
            Row("training memory", {"length": 4096}, 4000.0, 9000.0, "MB", "lower"),
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
    assert list(results) == ["encoder", "train_step", "cost"]
    report.write(results, folder / "out")
    text = (folder / "out" / "performance.md").read_text()
    assert "**2 of 3 goals met.**" in text
    # Met and missed, with what the rows do not share.
    assert "| float32, length=512 | 10 | 25 | ms | 2.5 | ≥ 2.2 | yes |" in text
    assert "| float32, length=1024 | 10 | 30 | ms | 3 | ≥ 3.3 | **no** |" in text
    assert "All rows: hidden_dim=256." in text
    assert "| cpu | Some CPU |" in text
    assert "`run encoder`" in text
    assert "| fourier | 512 | 0 | 1,000 (1,010) |" in text
    assert "| fourier | base | 5 |" in text
    for name in ("ratio", "rate", "memory"):
        plot = folder / "out" / f"performance_{name}.svg"
        assert plot.stat().st_size > 1000
        assert f"]({plot.name})" in text
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
    with pytest.raises(ValueError, match="must hold"):
        report.write(report.read(folder / "json"), folder)
    assert (folder / "performance.md").read_text() == "no marks"


def test_nothing_to_report_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no results"):
        report.write(report.read(tmp_path), tmp_path)


def test_kernels_are_shown_in_part():
    rows = [{"setting": {"padding": padding, "length": 512}} for padding in ("same", "causal")]
    assert report._shown("kernels", rows) == rows[:1]
    assert report._shown("kernels", rows[1:]) == rows[1:]  # rather all than none


def test_ranges_are_over_all_else_that_was_varied():
    def row(name, kernel_size, ratio):
        return {"name": name, "setting": {"kernel_size": kernel_size}, "ratio": ratio}

    found = [row("a vs b", 31, 12.34), row("a vs b", 31, 2), row("a vs b", 7, 0.5), row("a vs c", 7, 1)]
    text = report.ranges_table(found)
    assert "of all 4 rows" in text
    assert "| what | K = 7 | K = 31 |" in text
    assert "| a vs b | 0.5 | 2 to 12.3 |" in text
    assert "| a vs c | 1 |  |" in text
