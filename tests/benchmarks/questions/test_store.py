import doctest
import json

import numpy as np

from benchmarks.comparison.cells import Cell
from benchmarks.questions import store
from benchmarks.questions.store import Store, packed, unpacked

CELL = Cell("finetune", {"mixer": "fourier", "start": "scratch", "seed": 1})
HITS = np.random.default_rng(0).integers(2, size=21).tolist()
RESULT = {"accuracy": 0.5, "lengths": [3] * 21, "hits": HITS, "curve": [[10, 0.25]]}


def finish(workdir, cell=CELL, result=RESULT):
    cell.directory(workdir).mkdir(parents=True)
    (cell.directory(workdir) / "result.json").write_text(json.dumps(result))


def test_examples():
    done = doctest.testmod(store)
    assert done.attempted
    assert not done.failed


def test_hits_survive_packing():
    for count in (0, 1, 7, 8, 9, 21):
        assert unpacked(packed({"hits": HITS[:count]})) == {"hits": HITS[:count]}


def test_f1s_survive_packing_to_the_hundredth():
    f1s = [0.0, 1.0, 2 / 3, 0.4] * 3000
    kept = packed({"f1": 0.516666, "f1s": f1s})
    assert len(json.dumps(kept)) < 500
    assert unpacked(json.loads(json.dumps(kept))) == {"f1": 0.516666, "f1s": [0.0, 1.0, 0.67, 0.4] * 3000}
    assert unpacked({"f1s": f1s}) == {"f1s": f1s}  # of a working directory


def test_a_finished_cell_is_known_where_its_directory_is_lost(tmp_path):
    finish(tmp_path / "first")
    path = tmp_path / "docs" / "paper.json"
    kept = Store(tmp_path / "first", path)
    kept.take([CELL, Cell("finetune", {**CELL.settings, "seed": 2})])
    assert len(kept.known) == 1
    kept.write({"cpu": "fast"})
    assert json.loads(path.read_text())["machine"] == {"cpu": "fast"}

    again = Store(tmp_path / "second", path)
    assert CELL.result(tmp_path / "second") is None
    again.restore()
    expected = {name: value for name, value in RESULT.items() if name != "lengths"}
    assert CELL.result(tmp_path / "second") == again.result(CELL) == expected
    settings = json.loads((CELL.directory(tmp_path / "second") / "settings.json").read_text())
    assert settings == CELL.settings


def test_what_a_directory_has_is_not_overwritten(tmp_path):
    path = tmp_path / "paper.json"
    finish(tmp_path / "first")
    kept = Store(tmp_path / "first", path)
    kept.take([CELL])
    kept.write({})
    finish(tmp_path / "second", result={**RESULT, "accuracy": 0.75})
    Store(tmp_path / "second", path).restore()
    assert CELL.result(tmp_path / "second")["accuracy"] == 0.75


def test_cells_that_another_command_has_added_are_kept(tmp_path):
    other = Cell("finetune", {**CELL.settings, "seed": 2})
    for workdir, cell in (("first", CELL), ("second", other)):
        finish(tmp_path / workdir, cell)
    stores = [Store(tmp_path / workdir, tmp_path / "paper.json") for workdir in ("first", "second")]
    for kept, cell in zip(stores, (CELL, other), strict=True):
        kept.take([cell])
        kept.write({})
    assert set(json.loads((tmp_path / "paper.json").read_text())["cells"]) == {CELL.name, other.name}


def test_each_cell_is_a_line(tmp_path):
    for seed in range(3):
        finish(tmp_path, Cell("finetune", {**CELL.settings, "seed": seed}))
    kept = Store(tmp_path, tmp_path / "paper.json")
    kept.take([Cell("finetune", {**CELL.settings, "seed": seed}) for seed in range(3)])
    kept.write({})
    assert len((tmp_path / "paper.json").read_text().splitlines()) == 2 + 3 + 1
