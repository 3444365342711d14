"""`benchmarks.scaling`: flags, rounds, what is kept, and that the page is that of its figures."""

import json
import types

import pytest

from benchmarks import scaling, tpu
from benchmarks.distributing import page, predictions, runs
from tests.benchmarks.distributing.test_predictions import MODELS
from tests.documentation import ROOT


def flags_of(tmp_path, **changed):
    values = {
        "workdir": str(tmp_path / "runs"),
        "docs_dir": str(tmp_path),
        "num_workers": ["2", "1"],
        "rows": 4,
        "calls": 1,
        "rounds": 2,
        "minutes": 7.0,
        "measure": True,
    }
    return types.SimpleNamespace(**values | changed)


@pytest.fixture
def docs(tmp_path):
    (tmp_path / scaling.PAGE).write_text(
        f"# Scaling\n\n{page.BEGIN}\n<!-- end of generated part -->\n\nEnd.\n"
    )
    (tmp_path / tpu.FIGURES).write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_workers": ["2", "3"]}, r"`num_workers` must be .*including 1. Received: 2,3"),
        ({"num_workers": ["1", "x"]}, r"`num_workers` must be .*Received: 1,x"),
        ({"num_workers": ["1", "2", "3"]}, r"`rows` must be a multiple of 6.* Received: rows=4"),
        ({"docs_dir": "nowhere"}, r"`--docs_dir` must lead to a page .* Received: nowhere/scaling.md"),
    ],
)
def test_a_wrong_flag_is_named(docs, changed, message):
    with pytest.raises(ValueError, match=message):
        scaling.checked(flags_of(docs, **changed))
    assert scaling.checked(flags_of(docs)) == ([1, 2], docs)


def sample(layout, rows):
    return {
        **{key: getattr(layout, key) for key in ("num_workers", "threads", "num_cores")},
        "rows": rows,
        "seconds": [0.5],
        "cpu_seconds": 0.5 * layout.num_workers,
        "tokens": 128.0 * layout.num_workers * rows,
        "others_share": 0.0,
    }


@pytest.fixture
def started(monkeypatch):
    """The layouts that were run, by a stand-in that takes no time."""
    found = []

    def measure(layout, folder, calls):
        assert folder.is_dir()
        found.append(layout)
        return [sample(layout, size // layout.num_workers) for size in layout.batch_sizes]

    monkeypatch.setattr(runs, "measure", measure)
    monkeypatch.setattr(scaling.processes, "cores", lambda: [0, 1])
    monkeypatch.setattr(predictions, "models", lambda: MODELS)
    monkeypatch.setattr(scaling.runner, "end_by_sigterm", lambda: None)  # of this process
    return found


def run(monkeypatch, args):
    monkeypatch.setattr(scaling, "flags", types.SimpleNamespace(FLAGS=args))
    scaling.main([])


def test_rounds_come_in_turns_and_end_in_time(docs, started, monkeypatch):
    run(monkeypatch, flags_of(docs))
    assert [(each.num_workers, each.threads) for each in started] == [(1, 1), (2, 1), (1, 2)] * 2
    started.clear()
    run(monkeypatch, flags_of(docs, minutes=0.0))
    assert len(started) == 3
    assert list((docs / "runs").iterdir()) == []


def test_what_was_measured_is_kept(docs, started, monkeypatch):
    run(monkeypatch, flags_of(docs))
    kept = json.loads((docs / scaling.FIGURES).read_text())
    assert len(kept["cells"]) == 2 + 2 + 2
    assert {cell["rounds"] for cell in kept["cells"]} == {2}
    text = (docs / scaling.PAGE).read_text()
    assert "| 2 | 1 | 4 | 500 |" in text
    assert text.endswith("\n\nEnd.\n")
    started.clear()
    run(monkeypatch, flags_of(docs, measure=False))
    assert started == []
    assert json.loads((docs / scaling.FIGURES).read_text()) == kept
    assert (docs / scaling.PAGE).read_text() == text


def test_the_page_is_that_of_its_figures():
    result = json.loads((ROOT / "docs" / scaling.FIGURES).read_text(encoding="utf-8"))
    generated = (ROOT / "docs" / scaling.PAGE).read_text(encoding="utf-8").partition(page.BEGIN)[2]
    found = generated.partition("<!-- end of generated part -->")[0].strip()
    assert found == page.text(result).strip()
