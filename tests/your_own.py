"""What the tests of the pages docs/your_own_*.md share: their code, saved where a user would, and run."""

import contextlib
import re
import sys

import keras

from tests.documentation import ROOT
from tests.run_program import run_program

# A model that is built, traced and exported as quickly as can be.
SMALL = tuple(
    f"--config.model.{field}"
    for field in ("num_layers=1", "hidden_dim=16", "intermediate_dim=32", "num_heads=2", "kernel_size=(3,)")
)


def python_blocks(page):
    """The code of a page of docs/, a str per block."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@contextlib.contextmanager
def modules(folder, monkeypatch, files, table):
    """Saves modules in a folder that is on the path of this process and of its children.

    Args:
        folder: pathlib.Path.
        monkeypatch: pytest's.
        files: dict, name of a module -> its code.
        table: dict that the modules register something in, which is taken away in the end, as is what they
            register with Keras.
    """
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    tables = [table, keras.saving.get_custom_objects()]
    ours = [dict(each) for each in tables]
    try:
        yield folder
    finally:
        for each, before in zip(tables, ours, strict=True):
            each.clear()
            each.update(before)
        for name in files:
            sys.modules.pop(name, None)


def run_suite(code, test, suite):
    """Runs a page's parametrized test, of which every check of a suite must be a case."""
    names = {}
    exec(compile(code, "docs", "exec"), names)
    name, checks = names[test].pytestmark[0].args
    assert name == "check"
    assert {check.function for check in checks} == set(suite)
    for check in checks:
        check()


def run_programs(*commands):
    """Runs programs, (module, flags...) each, one after the other, all of which must succeed."""
    for program, *flags in commands:
        done = run_program(program, *flags)
        assert done.returncode == 0, done.stderr[-2000:]
