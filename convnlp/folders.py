"""The folders beside convnlp/ in a checkout, found under their names in the wheel: convnlp.export is export/.

The wheel has them inside convnlp/, where nothing of this is needed.
"""

import importlib.abc
import importlib.util
import pathlib
import sys

NAMES = ("configs", "export", "serving")
_APART = (*NAMES, "launching")  # what needs none of the rest
_HERE = pathlib.Path(__file__).resolve().parent


class _Finder(importlib.abc.MetaPathFinder):
    """Finds these packages only; what is in them is found as ever."""

    def find_spec(self, name, path=None, target=None):
        package, _, folder = name.rpartition(".")
        if package != "convnlp" or folder not in NAMES:
            return None
        path = _HERE.parent / folder
        return importlib.util.spec_from_file_location(
            name, path / "__init__.py", submodule_search_locations=[str(path)]
        )


def make_importable():
    """Makes them importable; does nothing in an installed wheel."""
    if not (_HERE / NAMES[0]).is_dir():
        sys.meta_path.append(_Finder())


def is_asked_for():
    """Whether convnlp is being imported for one of these folders, which choose themselves what they need.

    Importing `convnlp.serving.client` has Python import convnlp first, and the client shall neither need
    TensorFlow nor wait for it; neither shall the launcher.
    """
    name, frame = "", sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            name = frame.f_locals.get("name", name)
        elif name:  # the import statement; `name` is what it imports, and not a package on the way
            break
        frame = frame.f_back
    return str(name).startswith(tuple(f"convnlp.{folder}" for folder in _APART))
