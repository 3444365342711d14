"""Runs the `>>>` examples of data, objectives and tasks, in an empty folder with a small tokenizer."""

import doctest
import importlib
import json
import pkgutil

import numpy as np
import pytest
import tensorflow as tf

from convnlp import data, objectives, tasks

MODULES = [
    module.name
    for package in (data, objectives, tasks)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, tokenizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    globs = {
        "json": json,
        "np": np,
        "tf": tf,
        "tokenizer": tokenizer,
        "Label": data.Label,
        "Number": data.Number,
        "Source": data.Source,
        "build_objectives": objectives.build_objectives,
    }
    assert doctest.testmod(importlib.import_module(name), extraglobs=globs).failed == 0


def test_every_public_function_of_data_has_an_example():
    for name in (name for name in MODULES if name.startswith("convnlp.data.")):
        for thing in vars(importlib.import_module(name)).values():
            documented = getattr(thing, "__doc__", None) or ""
            if (
                getattr(thing, "__module__", None) == name
                and "Returns:" in documented
                and "Raises:" in documented
            ):
                assert ">>>" in documented or thing.__name__ in ("load", "read_blocks", "label_names"), thing
