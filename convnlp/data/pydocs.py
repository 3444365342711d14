"""The documentation of the installed Python as a corpus, available on any machine without a network.

The docstrings of the standard library (package "python") and of every installed package are found by parsing
their source; nothing is imported. They are dedented, deduplicated, put into an order that depends only on
their text (so that the same slice of two selections holds much the same documents), and written to a cache
file.
"""

import ast
import gzip
import hashlib
import importlib.metadata
import inspect
import json
import os
import pathlib
import sys
import sysconfig
import tempfile
import warnings

from absl import logging

from convnlp.data.errors import SourceError

MIN_CHARACTERS = 120
MAX_SOURCE_BYTES = 1 << 20  # larger files are generated tables
MAX_EXAMPLES_PER_LABEL = 2000
SKIPPED_FOLDERS = (
    "site-packages",
    "test",
    "tests",
    "testing",
    "__pycache__",
    "_vendor",
    "idlelib",
    "lib2to3",
)
_FORMAT = 2  # increased when a change of this module changes its files


def path(selection=""):
    """Returns the path of the JSON-lines file, writing the file first (half a minute) if it does not exist.

    Args:
        selection: string, "" for all documents, or the number of packages to choose, as in `pydocs:8`. Raises
            `SourceError` if it is not a number >= 2, or if fewer packages have documentation.

    Returns:
        string, path of a .jsonl.gz file with the fields "text" and "label", the package's name.
    """
    if selection and not (selection.isdecimal() and int(selection) >= 2):
        raise SourceError(f"`NUMBER` in pydocs:NUMBER must be an integer >= 2. Received: {selection!r}")
    roots = {"python": sysconfig.get_path("stdlib"), "": sysconfig.get_path("purelib")}
    file = _cache_folder() / f"pydocs-{_fingerprint(roots)}{selection and '-' + selection}.jsonl.gz"
    if not file.exists():
        if selection:
            documents = _largest(_read(pathlib.Path(path())), int(selection))
        else:
            logging.info("Collecting the documentation of the installed Python in %s", file)
            documents = collect(roots)
        _write(file, documents)
    return str(file)


def collect(roots):
    """Collects the distinct docstrings below some folders.

    Args:
        roots: dict, package name -> folder; for the name "", each entry of the folder is a package.

    Returns:
        A list of (text, package), ordered by a hash of the text.
    """
    found = {}
    for package, root in roots.items():
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
            for file in (pathlib.Path(folder, name) for name in sorted(names) if name.endswith(".py")):
                label = package or file.relative_to(root).parts[0].removesuffix(".py")
                for text in _docstrings(file):
                    found.setdefault(text, label)
    return sorted(found.items(), key=lambda item: hashlib.sha256(item[0].encode()).digest())


def _docstrings(file):
    """Yields the cleaned docstrings of a source file's module, classes and functions, if it can be parsed."""
    try:
        if file.stat().st_size > MAX_SOURCE_BYTES:
            return
        source = file.read_bytes()
    except OSError:  # a link that leads nowhere, or no permission
        return
    if b'"""' not in source:  # parsing takes most of the time
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in other people's code
            nodes = [ast.parse(source)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested too deeply
        return
    while nodes:
        node = nodes.pop()
        nodes.extend(child for child in node.body if isinstance(child, ast.ClassDef | ast.FunctionDef))
        text = ast.get_docstring(node, clean=False) or ""
        text = "\n".join(line.rstrip() for line in inspect.cleandoc(text).splitlines())
        if len(text) >= MIN_CHARACTERS and _is_unicode(text):
            yield text


def _is_unicode(text):
    return not any(0xD800 <= ord(character) < 0xE000 for character in text)


def _largest(documents, count):
    """Returns equally many documents from each of the `count` packages that have the most."""
    packages = {}
    for text, label in documents:
        packages.setdefault(label, []).append(text)
    largest = sorted(packages, key=lambda label: (-len(packages[label]), label))[:count]
    if len(largest) < count:
        raise SourceError(f"pydocs:{count}: only {len(largest)} packages with documentation are installed")
    size = min(MAX_EXAMPLES_PER_LABEL, len(packages[largest[-1]]))
    # Evenly spread, so that every slice of the result holds all packages.
    kept = {packages[label][i * len(packages[label]) // size] for label in largest for i in range(size)}
    return [(text, label) for text, label in documents if text in kept]


def _fingerprint(roots):
    packages = sorted(f"{d.metadata['Name']}=={d.version}" for d in importlib.metadata.distributions())
    key = json.dumps(
        [_FORMAT, MIN_CHARACTERS, MAX_EXAMPLES_PER_LABEL, sys.version, sorted(roots.items()), packages]
    )
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _cache_folder():
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "convnlp")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # the home directory is not writable
        folder = pathlib.Path(tempfile.gettempdir(), f"convnlp-{os.getuid()}")
        folder.mkdir(exist_ok=True)
    return folder


def _write(file, documents):
    """Writes a file under a temporary name, so that a half-written one is never read."""
    lines = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in documents)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:  # which goes, whatever happens
        whole = pathlib.Path(folder, file.name)
        whole.write_bytes(gzip.compress(lines.encode("utf-8"), compresslevel=6, mtime=0))
        os.replace(whole, file)


def _read(file):
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [(row["text"], row["label"]) for row in map(json.loads, lines)]
