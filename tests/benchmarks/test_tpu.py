"""`benchmarks.tpu`: which cells are asked, what is kept, what the page gets."""

import json
import types

import pytest

from benchmarks import tpu
from benchmarks.compiling import cells, compiler, page
from tests.benchmarks.compiling.test_page import compiled
from tests.documentation import ROOT


def flags_of(tmp_path, **changed):
    values = {
        "workdir": str(tmp_path / "cells"),
        "mixers": ["muse", "fourier"],
        "sizes": ["mini"],
        "chips": ["v5e"],
        "batch_sizes": ["8"],
        "optimizers": ["adafactor"],
        "input_length": 512,
        "short": False,
        "report_only": False,
        "docs_dir": "",
    }
    return types.SimpleNamespace(**values | changed)


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(compiler, "missing", list)


@pytest.mark.usefixtures("installed")
def test_the_grid_is_asked_in_its_order(tmp_path):
    found = tpu.checked(flags_of(tmp_path, chips=["v4", "v5e"], batch_sizes=["8", "64"]))
    assert [cell.name for cell in found][:3] == [
        "v4-mini-muse-8x512",
        "v4-mini-muse-64x512",
        "v4-mini-fourier-8x512",
    ]
    assert len(found) == 8
    found = tpu.checked(flags_of(tmp_path, optimizers=["adafactor", "adamw"]))
    assert [cell.name for cell in found][:2] == ["v5e-mini-muse-8x512", "v5e-mini-muse-8x512-adamw"]
    short = tpu.checked(flags_of(tmp_path, short=True))
    assert [(cell.size, cell.optimizer) for cell in short] == [("tiny", "adafactor"), ("tiny", "adamw")]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("mixers", ["muse", "nothing"]),
        ("sizes", ["huge"]),
        ("chips", ["v9"]),
        ("batch_sizes", ["8", "0"]),
        ("optimizers", ["sgd"]),
        ("docs_dir", "nowhere"),
    ],
)
def test_a_wrong_flag_is_named(tmp_path, flag, value):
    with pytest.raises(ValueError, match=rf"`--{flag}` must .*Received: "):
        tpu.checked(flags_of(tmp_path, **{flag: value}))


def test_a_missing_compiler_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(compiler, "missing", lambda: ["libtpu"])
    with pytest.raises(ValueError, match=r"requirements-tpu.txt must be installed.*Received: no libtpu"):
        tpu.checked(flags_of(tmp_path))
    assert tpu.checked(flags_of(tmp_path, report_only=True))


@pytest.mark.usefixtures("installed")
def test_one_failure_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    def compute(cell, workdir):
        if cell.mixer == "muse":
            raise cells.FailedError(f"{cell.name} ended with exit code 1")
        return compiled(cell.mixer, size="mini")

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / tpu.PAGE).write_text(
        f"# TPUs\n\n{page.BEGIN}\n<!-- end of generated part -->\n\nBehind.\n"
    )
    arguments = flags_of(tmp_path, docs_dir=str(tmp_path / "docs"))
    monkeypatch.setattr(cells, "compute", compute)
    monkeypatch.setattr(tpu.runner, "end_by_sigterm", lambda: None)  # of this process
    monkeypatch.setattr(tpu, "flags", types.SimpleNamespace(FLAGS=arguments))
    with pytest.raises(ValueError, match="1 of 2 cells failed"):
        tpu.main([])
    assert "v5e-mini-fourier-8x512: 197 GFLOP, 3.00 GB, at least 2.00 ms (memory)" in capsys.readouterr().out
    kept = json.loads((tmp_path / "docs" / tpu.FIGURES).read_text())
    assert list(kept) == ["v5e-mini-fourier-8x512"]
    text = (tmp_path / "docs" / tpu.PAGE).read_text()
    assert text.startswith("# TPUs\n")
    assert text.endswith("\n\nBehind.\n")
    assert "**1 of 1 steps compiled.**" in text


def test_cells_are_added_to_those_of_the_page(tmp_path):
    (tmp_path / tpu.PAGE).write_text(f"{page.BEGIN}\n<!-- end of generated part -->\n")
    tpu.keep({"a": compiled("muse")}, tmp_path)
    tpu.keep({"b": compiled("fourier")}, tmp_path)
    assert set(json.loads((tmp_path / tpu.FIGURES).read_text())) == {"a", "b"}
    assert "**2 of 2 steps compiled.**" in (tmp_path / tpu.PAGE).read_text()


def test_the_page_is_that_of_its_figures():
    docs = ROOT / "docs"
    kept = json.loads((docs / tpu.FIGURES).read_text(encoding="utf-8"))
    generated = (docs / tpu.PAGE).read_text(encoding="utf-8").partition(page.BEGIN)[2]
    assert generated.partition("<!-- end of generated part -->")[0].strip() == page.text(kept).strip()
