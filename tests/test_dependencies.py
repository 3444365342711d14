"""What the package asks pip for: all that its code imports, ranges with the versions under test, the lock."""

import ast
import importlib.metadata
import re
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
NAMES = {
    "apache_beam": "apache-beam",
    "distributed": "distributed",
    "google": "protobuf",
    "py3langid": "py3langid",
}
OURS = {"convnlp", "edge_model"}  # the latter beside export/run_tflite.py, on a device
INDIRECT = {"importlib-resources", "tensorboard"}  # imported by others


def by_name(lines):
    found = map(Requirement, lines)
    return {canonicalize_name(each.name): each for each in found}


def pinned(name="requirements.txt"):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    lines = (line.partition("  #")[0] for line in lines if not line.startswith(("#", "-r")))
    return by_name(line for line in lines if line)


def locked():
    """The requirements of requirements.lock, name -> (requirement, list of hashes)."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        requirement, *hashes = line.split(" --hash=")
        requirement = Requirement(requirement.strip())
        assert canonicalize_name(requirement.name) not in found, line
        found[canonicalize_name(requirement.name)] = requirement, [each.strip() for each in hashes]
    return found


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


def version(requirement):
    """The one version that a requirement admits."""
    (pin,) = requirement.specifier
    assert pin.operator == "=="
    return pin.version


def test_the_lock_has_the_versions_under_test():
    lock = {name: version(requirement) for name, (requirement, _) in locked().items()}
    for name, pin in pinned().items():
        assert lock[name] == version(pin), name
    for name, pin in pinned("requirements-dev.txt").items():
        assert lock.get(name, version(pin)) == version(pin), name


def test_the_lock_is_enough_for_the_package():
    lock = locked()
    for name, requirement in by_name(PROJECT["dependencies"]).items():
        assert version(lock[name][0]) in requirement.specifier, name
        assert lock[name][0].marker is None, name


def test_everything_in_the_lock_is_held_to_hashes_and_comes_from_no_fixed_place():
    for name, (requirement, hashes) in locked().items():
        assert requirement.url is None, name
        assert hashes, name
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in hashes), name
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert not re.search(r"://|^-", text, re.M)


def test_the_lock_has_what_the_locked_packages_ask_for():
    """Each requirement that applies here stands in the lock, in its range."""
    lock, looked_at = locked(), 0
    for name, (locked_one, _) in lock.items():
        try:
            installed = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of another system
        if installed.version != version(locked_one):
            continue  # which may ask for other things
        looked_at += 1
        for requirement in map(Requirement, installed.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                other = version(lock[canonicalize_name(requirement.name)][0])
                assert requirement.specifier.contains(other, prereleases=True), (name, requirement.name)
    assert looked_at > len(pinned())
