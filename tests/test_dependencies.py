"""What the package asks pip for: all that its code imports, and ranges that hold the versions under test."""

import ast
import importlib.metadata
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = PROJECT["optional-dependencies"]
EXTRAS = [line for lines in OPTIONAL.values() for line in lines]
# Packages whose distributions are called otherwise, where they need not be installed for the tests.
NAMES = {"apache_beam": "apache-beam", "google": "protobuf"}
OURS = {"convnlp", "edge_model"}  # the latter beside export/run_tflite.py, on a device
INDIRECT = {"importlib-resources", "tensorboard"}  # imported by others


def by_name(lines):
    found = map(Requirement, lines)
    return {canonicalize_name(each.name): each for each in found}


def pinned():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return by_name(line for line in lines if line and not line.startswith("#"))


def imported():
    """The packages that the installed code imports, anywhere in a file."""
    for folder in ("convnlp", "configs", "export", "serving"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module]
                yield from (name.partition(".")[0] for name in names)


def test_every_import_is_declared_and_nothing_else_is():
    of_package = importlib.metadata.packages_distributions()
    needed = set()
    for package in {*imported()} - {*sys.stdlib_module_names} - OURS:
        names = [NAMES[package]] if package in NAMES else of_package[package]
        needed |= {canonicalize_name(name) for name in names}
    assert needed == {*by_name(PROJECT["dependencies"] + EXTRAS)} - INDIRECT


def test_the_versions_under_test_are_in_the_ranges():
    ranges = by_name(PROJECT["dependencies"])
    assert {*pinned()} <= {*ranges}
    for name, pin in pinned().items():
        (version,) = [each.version for each in pin.specifier]
        assert version in ranges[name].specifier, name


@pytest.mark.parametrize("line", PROJECT["dependencies"] + OPTIONAL["parquet"])
def test_what_is_installed_is_in_the_ranges(line):
    requirement = Requirement(line)
    assert importlib.metadata.version(requirement.name) in requirement.specifier
