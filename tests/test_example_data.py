"""`convnlp example-data`: a CSV that every program can read."""

import csv

import pytest

from convnlp.data import Source, sources
from tests.run_program import run_program


@pytest.mark.multiprocess
def test_it_writes_the_files_of_the_package(tmp_path):
    done = run_program("convnlp.example_data", f"--output={tmp_path}/data")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{tmp_path}/data/train.csv  10,003 rows",
        f"{tmp_path}/data/test.csv  3,080 rows",
    ]
    with open(tmp_path / "data" / "train.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {"text": "I am still waiting on my card?", "category": "card_arrival"}
    names = sources.label_names(Source(f"csv:{tmp_path}/data/test.csv"), "category")
    assert len(names) == 77
    assert {row["category"] for row in rows} == set(names)
    assert "Creative Commons Attribution 4.0" in (tmp_path / "data" / "README.md").read_text()

    (tmp_path / "data" / "README.md").write_text("mine")
    (tmp_path / "data" / "train.csv").unlink()
    done = run_program("convnlp.example_data", f"--output={tmp_path}/data")
    assert done.stderr.startswith("error: `output` must not hold another README.md. Received: output=")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["README.md", "test.csv"]
    assert (tmp_path / "data" / "README.md").read_text() == "mine"
