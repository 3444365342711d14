"""`benchmarks.pretraining.kept_memory`: real runs of a tiny encoder, and which of them keep memory."""

import doctest

import pytest

from benchmarks.pretraining import kept_memory

TINY = {
    "model.num_layers": 1,
    "model.hidden_dim": 16,
    "model.intermediate_dim": 32,
    "model.num_heads": 2,
    "model.kernel_size": "3,",
    "data.input_length": 32,
    "train.batch_size": 4,
    "train.steps_per_call": 1,
}


def test_examples():
    done = doctest.testmod(kept_memory)
    assert done.attempted
    assert not done.failed


def test_only_one_kind_of_run_has_settings_of_malloc(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")
    kept, default = kept_memory.environment(True), kept_memory.environment(False)
    assert not {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"} & set(kept)
    assert default == {**kept, "GLIBC_TUNABLES": ""}


@pytest.mark.slow
def test_rows_of_runs():
    settings = kept_memory.Settings(("lightweight_conv",), num_steps=2, repeats=1, changes=TINY)
    rows = list(kept_memory.rows(settings))
    assert [row.name.removesuffix(" vs glibc's defaults") for row in rows] == list(kept_memory._FIGURES)
    assert all(value > 0 for row in rows for value in (row.ours, row.peer))
    assert all(row.setting["mixer"] == "lightweight_conv" for row in rows)


def test_a_run_that_fails_says_why(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no space left; exit 3\n")
    program.chmod(0o700)
    monkeypatch.setattr(kept_memory.sys, "executable", str(program))
    with pytest.raises(RuntimeError, match="has ended with 3: no space left"):
        kept_memory.measured(tmp_path, "dynamic_conv", True, kept_memory.Settings())
