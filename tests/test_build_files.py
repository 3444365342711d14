"""The BUILD files, read without Bazel: they are Python, called with stand-ins for the rules."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("configs", "convnlp", "export", "serving")


def targets(folder):
    """Returns the targets of a folder's BUILD file as (rule, name, sources, labels it depends on)."""
    found = []

    def glob(patterns, exclude=()):
        paths = sorted(path for pattern in patterns for path in folder.glob(pattern))
        names = [str(path.relative_to(folder)) for path in paths if "__pycache__" not in path.parts]
        # As in Bazel, a folder with a BUILD file of its own belongs to another package.
        packages = [str(path.parent.relative_to(folder)) for path in folder.glob("*/**/BUILD")]
        return [name for name in names if name not in exclude and not name.startswith(tuple(packages))]

    def rule(kind):
        return lambda name, srcs, deps=(), **_: found.append((kind, name, srcs, list(deps)))

    rules = {"py_library": rule("py_library"), "py_binary": rule("py_binary")}
    exec((folder / "BUILD").read_text(), {"glob": glob, "package": lambda **_: None, **rules})
    return found


def folders():
    return sorted(path.parent for package in PACKAGES for path in (ROOT / package).rglob("BUILD"))


def test_every_python_file_is_in_one_target():
    listed = [
        folder / source for folder in folders() for _, _, sources, _ in targets(folder) for source in sources
    ]
    on_disk = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    assert sorted(listed) == on_disk


def test_every_program_is_a_binary():
    binaries = {
        folder / f"{name}.py"
        for folder in folders()
        for kind, name, _, _ in targets(folder)
        if kind == "py_binary"
    }
    scripts = {path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert binaries == {path for path in scripts if '__name__ == "__main__"' in path.read_text()}


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(ROOT)))
def test_dependencies_exist(folder):
    for _, _, _, labels in targets(folder):
        for label in labels:
            package, _, name = label.removeprefix("//").partition(":")
            other = ROOT / package if label.startswith("//") else folder
            assert (name or other.name) in {target[1] for target in targets(other)}, label


def test_workspace_and_version():
    assert (ROOT / ".bazelversion").read_text().strip() == "7.4.1"
    assert 'workspace(name = "convnlp")' in (ROOT / "WORKSPACE").read_text()
