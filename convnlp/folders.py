"""Finds the folders beside convnlp/ in a checkout under their names in the wheel: export/ is convnlp.export.

The wheel has them inside convnlp/ and does not need this module.
"""

import importlib.abc
import importlib.util
import pathlib
import sys

NAMES = ("configs", "export", "serving")
_APART = (*NAMES, "launching")  # packages that import what they need of convnlp themselves
_HERE = pathlib.Path(__file__).resolve().parent


class _Finder(importlib.abc.MetaPathFinder):
    """Finds only these packages; Python finds their contents as usual."""

    def find_spec(self, name, path=None, target=None):
        package, _, folder = name.rpartition(".")
        if package != "convnlp" or folder not in NAMES:
            return None
        path = _HERE.parent / folder
        return importlib.util.spec_from_file_location(
            name, path / "__init__.py", submodule_search_locations=[str(path)]
        )


def make_importable():
    """Makes the folders importable; does nothing in an installed wheel."""
    if not (_HERE / NAMES[0]).is_dir():
        sys.meta_path.append(_Finder())


def is_asked_for():
    """Returns whether convnlp is being imported for one of these folders, which import what they need.

    To import `convnlp.serving.client`, Python imports convnlp first; but neither the client nor the launcher
    may need TensorFlow or wait for it.
    """
    name, frame = "", sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            name = frame.f_locals.get("name", name)
        elif name:  # the import statement; `name` is what it imports, not a package on the way
            break
        frame = frame.f_back
    return str(name).startswith(tuple(f"convnlp.{folder}" for folder in _APART))
