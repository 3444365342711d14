"""Runs the examples of the docstrings: `>>>` lines with their outputs, and ```python blocks as programs."""

import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.layers import MIXERS

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ["convnlp.kernels", "convnlp.layers", "convnlp.models"]
# Theirs need a source or a tokenizer: tests/data/test_docstrings.py, tests/corpora/test_duplicates.py.
ELSEWHERE = ("convnlp.corpora.", "convnlp.data.", "convnlp.objectives.", "convnlp.tasks.")


def _modules():
    for name in PACKAGES:
        package = importlib.import_module(name)
        yield package
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            yield importlib.import_module(module.name)


def _docstrings(module):
    """The docstrings of a module's own classes, their methods, and functions."""
    yield module.__doc__ or ""
    for thing in vars(module).values():
        if getattr(thing, "__module__", None) != module.__name__:
            continue
        yield inspect.getdoc(thing) or ""
        if inspect.isclass(thing):
            yield from (
                inspect.getdoc(method) or "" for method in vars(thing).values() if inspect.isfunction(method)
            )


def _others():
    """The names of all other modules with an interactive example."""
    for folder, package in ((ROOT / "convnlp", "convnlp"), (ROOT / "export", "convnlp.export")):
        for path in sorted(folder.rglob("*.py")):
            name = ".".join([package, *path.relative_to(folder).with_suffix("").parts])
            if ">>> " in path.read_text(encoding="utf-8") and not name.startswith((*PACKAGES, *ELSEWHERE)):
                yield name


MODULES = {module.__name__: module for module in _modules()}
BLOCKS = [
    pytest.param(block, id=f"{name}-{number}")
    for name, module in MODULES.items()
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", "\n".join(_docstrings(module)), re.DOTALL)
    )
]


@pytest.mark.parametrize("name", MODULES)
def test_interactive_examples(name):
    results = doctest.testmod(MODULES[name], extraglobs={"tf": tf, "np": np, "keras": keras})
    assert results.failed == 0


@pytest.mark.parametrize("name", _others())
def test_interactive_examples_of_other_modules(name):
    found = doctest.testmod(importlib.import_module(name), extraglobs={"np": np})
    assert found.attempted > found.failed == 0


@pytest.mark.parametrize("block", BLOCKS)
def test_program_examples(block):
    exec(compile(textwrap.dedent(block), "<docstring>", "exec"), {})


@pytest.mark.parametrize("cls", MIXERS.values())
def test_every_mixer_documents_the_contract(cls):
    text = inspect.getdoc(cls)  # without the indentation, which Python 3.13 takes away by itself
    for part in (
        "Source:",
        "Departs from it:",
        "Masking:",
        "Causality:",
        "Packing:",
        "Cost:",
        "Args:",
        "Raises:",
        ">>>",
    ):
        assert part in text, part
    missing = [name for name in inspect.signature(cls).parameters if f"\n    {name}: " not in text]
    assert missing in ([], ["kwargs"])
