"""`benchmarks.run_once`: a program runs until it has finished once, and says why it failed."""

import pytest

from benchmarks.run_once import run_once


def test_what_is_done_is_not_done_again(tmp_path, capsys):
    (tmp_path / "done").touch()
    run_once("no.such.program", tmp_path / "run", {"config.seed": 1}, tmp_path / "done")
    shown = f"$ python -m no.such.program --config.seed=1 --workdir={tmp_path / 'run'}\n"
    assert capsys.readouterr().out == shown
    assert not (tmp_path / "run").exists()


def test_a_program_that_fails_is_named_with_its_last_line(tmp_path):
    with pytest.raises(ValueError, match=r"^json.tool has ended with exit code 2: .*--config.seed=1"):
        run_once("json.tool", tmp_path, {"config.seed": 1}, tmp_path / "done")
    assert (tmp_path / "log.txt").read_text().startswith("usage:")
