"""The mixture of texts for the shipped presets: weights, shuffle, and what it refuses."""

import gzip
import json

import numpy as np
import pytest

from benchmarks.pretraining import mixture
from tests.run_program import run_program


def _write(path, texts):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)


def _texts(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in mixture.WEIGHTS:
        for split in ("train", "valid"):
            _write(folder / f"{name}.{split}.jsonl.gz", [f"{name} {split} {i} é" for i in range(10)])
    return folder


def test_each_set_is_there_as_often_as_its_weight_says(data, tmp_path):
    command = ["benchmarks.pretraining.mixture", f"--data_dir={data}"]
    for name in ("a", "b"):
        assert run_program(*command, f"--output_dir={tmp_path / name}").returncode == 0
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(files) == mixture.NUM_SHARDS + 1
    assert all((tmp_path / "a" / n).read_bytes() == (tmp_path / "b" / n).read_bytes() for n in files)

    train = [text for name in files if ".train." in name for text in _texts(tmp_path / "a" / name)]
    for name, weight in mixture.WEIGHTS.items():
        own = [text for text in train if text.startswith(f"{name} train")]
        assert len(own) == round(10 * weight)
        assert max(own.count(text) for text in own) == int(np.ceil(weight))
    assert train != sorted(train)
    held_out = _texts(tmp_path / "a" / "mixture.valid.jsonl.gz")
    assert len(set(held_out)) == 10 * len(mixture.WEIGHTS)
    assert all(" valid " in text for text in held_out)


def test_a_missing_set_is_named(data, tmp_path):
    (data / "chat.valid.jsonl.gz").unlink()
    command = ["benchmarks.pretraining.mixture", f"--data_dir={data}"]
    failed = run_program(*command, f"--output_dir={tmp_path / 'out'}")
    assert failed.returncode != 0
    assert "`--data_dir` must hold all sets. Received: without " in failed.stderr
    assert "chat.valid.jsonl.gz" in failed.stderr
    assert not (tmp_path / "out").exists()
