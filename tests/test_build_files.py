"""The BUILD files, read without Bazel: they are Python, called with stand-ins for the rules.

Where a Bazel is installed, it builds all targets and runs a test.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("benchmarks", "configs", "convnlp", "export", "serving", "tests")
BAZEL = shutil.which("bazel")


def targets(folder):
    """Returns the targets of a folder's BUILD file as (rule, name, sources, labels it depends on)."""
    found = []

    def glob(patterns, exclude=()):
        paths = sorted(path for pattern in patterns for path in folder.glob(pattern))
        names = [str(path.relative_to(folder)) for path in paths if "__pycache__" not in path.parts]
        # As in Bazel, a folder with a BUILD file of its own belongs to another package.
        packages = [f"{path.parent.relative_to(folder)}/" for path in folder.glob("*/**/BUILD")]
        return [name for name in names if name not in exclude and not name.startswith(tuple(packages))]

    def rule(kind):
        return lambda name, srcs=(), deps=(), **_: found.append((kind, name, srcs, list(deps)))

    def pytest_tests(deps=(), test_deps=(), shared=(), binaries=(), data=()):
        tests = glob(["test_*.py"])
        assert set(shared) <= set(tests)
        files = [f"{name}.py" for name in binaries]
        rule("py_library")("support", glob(["*.py"], exclude=tests + files), [*deps, *test_deps])
        for name, file in zip(binaries, files, strict=True):
            rule("py_binary")(name, [file])
        for test in tests:
            rule("py_test")(test.removesuffix(".py"), [test])

    def programs(names, deps):
        for name in names:
            rule("py_binary")(name, [f"{name}.py"], deps)
        rule("py_library")("programs", deps=[f":{name}" for name in names])

    rules = {name: rule(name) for name in ("py_library", "py_binary")}
    ignored = dict.fromkeys(("exports_files", "load", "package"), lambda *_, **__: None)
    scope = {"glob": glob, "programs": programs, "pytest_tests": pytest_tests, **ignored, **rules}
    exec((folder / "BUILD").read_text(), scope)
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
    scripts = {path for package in PACKAGES[:-1] for path in (ROOT / package).rglob("*.py")}
    main = re.compile('^if __name__ == "__main__":', re.M)
    programs = {path for path in scripts if main.search(path.read_text())}
    in_tests = (
        "benchmarks/soak_of_fakes.py",
        "fuzz/run.py",
        "launching/fake_worker.py",
        "launching/run_fakes.py",
        "mutation/mutate.py",
        "mutation/mutate_files.py",
    )
    assert binaries == programs | {ROOT / "tests" / name for name in in_tests}


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


@pytest.mark.multiprocess
@pytest.mark.skipif(not BAZEL, reason="Bazel is not installed")
@pytest.mark.skipif("TEST_SRCDIR" in os.environ, reason="run by Bazel, which would wait for itself")
def test_bazel_builds_everything_and_runs_a_test(tmp_path):
    """Seconds with what an earlier run left; Bazel keeps that in its own folder in the user's home."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"

    def bazel(*arguments):
        done = subprocess.run(
            [BAZEL, "--max_idle_secs=20", *arguments],
            cwd=ROOT,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout + done.stderr

    assert "Build completed successfully" in bazel("build", "//...")
    assert re.search("//tests/bulk:test_outputs .*PASSED", bazel("test", "//tests/bulk:test_outputs"))
