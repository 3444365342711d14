"""No step is compiled twice, a crash is an answer, and a process that somebody stopped is none."""

import json

import pytest

from benchmarks.compiling.cells import Cell, FailedError, compute

# Stand-ins for the programs `lower` and `worker`: they write down that they ran, then do as they are told.
_LOWER = """
import json, os, pathlib, signal, sys
*step, program, facts = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    calls.write("lower " + " ".join(step) + "\\n")
told = os.environ.get("LOWER", "")
if told == "refuse":
    refusal = {"stage": "lowering", "operation": "Where", "reason": "no form"}
    pathlib.Path(facts).write_text(json.dumps({"parameters": 7, "refusal": refusal}))
else:
    pathlib.Path(program).write_text("program of " + step[1])
    pathlib.Path(facts).write_text(json.dumps({"parameters": 7}))
"""
_WORKER = """
import json, os, pathlib, signal, sys
chip, program, answer, optimised = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    kind = os.environ["TPU_ACCELERATOR_TYPE"]
    calls.write(f"compile {chip}: {pathlib.Path(program).read_text()}, {kind}\\n")
told = os.environ.get("WORKER", "")
if told.startswith("SIG"):
    print("F1122 10:00:00 99 x.cc:1] Check failed: %a = f32[8]{0} sort(%b)", flush=True)
    os.kill(os.getpid(), getattr(signal, told))
if told == "fail":
    sys.exit(1)
pathlib.Path(optimised).write_text("HloModule")
pathlib.Path(answer).write_text(json.dumps({"flops": 5.0}))
"""
CELL = Cell("v5e", "mini", "muse", 8, 512)


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Computes cells with the stand-ins; `ask.calls()` is what has run."""
    package = tmp_path / "stand_in"
    package.mkdir()
    for name, text in (("__init__", ""), ("lower", _LOWER), ("worker", _WORKER)):
        (package / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    workdir = tmp_path / "cells"
    workdir.mkdir()

    def ask(cell=CELL, **told):
        for name in ("LOWER", "WORKER"):
            monkeypatch.setenv(name, told.get(name, ""))
        return compute(cell, workdir, "stand_in")

    ask.workdir = workdir
    ask.calls = lambda: (tmp_path / "calls").read_text().splitlines()
    return ask


def test_no_cell_is_compiled_twice(ask):
    first = ask()
    assert first["flops"] == 5.0
    assert first["parameters"] == 7
    assert first["cell"] == {
        "chip": "v5e",
        "size": "mini",
        "mixer": "muse",
        "batch_size": 8,
        "input_length": 512,
        "optimizer": "adafactor",
    }
    assert ask.calls() == ["lower mini muse 8 512 adafactor", "compile v5e: program of muse, v5litepod-4"]
    assert ask(WORKER="fail") == first
    assert len(ask.calls()) == 2
    assert CELL.result(ask.workdir) == first


def test_chips_share_what_tensorflow_has_lowered(ask):
    ask()
    ask(Cell("v4", "mini", "muse", 8, 512))
    assert ask.calls()[2:] == ["compile v4: program of muse, v4-8"]
    ask(Cell("v4", "mini", "muse", 16, 512))
    assert ask.calls()[3] == "lower mini muse 16 512 adafactor"
    ask(Cell("v4", "mini", "muse", 16, 512, "adamw"))
    assert ask.calls()[5:] == ["lower mini muse 16 512 adamw", "compile v4: program of muse, v4-8"]


def test_what_tensorflow_refuses_is_kept_and_never_given_to_the_compiler(ask):
    found = ask(LOWER="refuse")
    assert found["refusal"]["operation"] == "Where"
    assert found["parameters"] == 7
    assert ask() == found
    assert ask.calls() == ["lower mini muse 8 512 adafactor"]


def test_a_crash_of_the_compiler_is_its_answer(ask):
    found = ask(WORKER="SIGSEGV")
    assert found["refusal"]["stage"] == "compiling"
    assert found["refusal"]["operation"] == "sort"
    assert found["refusal"]["reason"].startswith("SIGSEGV")
    assert ask() == found


@pytest.mark.parametrize("told", ["SIGKILL", "SIGTERM", "fail"])
def test_a_process_that_was_stopped_or_failed_is_asked_again(ask, told):
    with pytest.raises(FailedError, match=r"stand_in.worker ended with .*\.log"):
        ask(WORKER=told)
    assert CELL.result(ask.workdir) is None
    assert ask()["flops"] == 5.0
    assert [call.split()[0] for call in ask.calls()] == ["lower", "compile", "compile"]


def test_all_files_but_the_locks_say_what_they_are_of(ask):
    ask()
    names = {path.name for path in ask.workdir.iterdir() if path.suffix != ".lock"}
    assert names == {
        "mini-muse-8x512.json",
        "mini-muse-8x512.log",
        "mini-muse-8x512.mlir",
        "v5e-mini-muse-8x512.hlo",
        "v5e-mini-muse-8x512.json",
        "v5e-mini-muse-8x512.log",
    }
    assert json.loads((ask.workdir / "mini-muse-8x512.json").read_text()) == {"parameters": 7}
