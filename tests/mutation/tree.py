"""The tree and its copies, in which files are changed."""

import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]


def copy(folder):
    """Copies what tests need into a folder (pathlib.Path), and returns it."""
    for part in ("benchmarks", "configs", "convnlp", "export", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder
