"""The documentation corpus, from a small tree that stands for the installed packages."""

import errno
import gzip
import json
import os
import time

import pytest

from convnlp.data import Label, Source, SourceError, pydocs, sources


def module(*docstrings):
    """Source of a module, a class with a method and functions with these docstrings."""
    body = f'"""{docstrings[0]}"""\nraise SystemExit("imported")\n'
    for i, text in enumerate(docstrings[1:]):
        body += (
            f'class C{i}:\n    def f(self):\n        """{text}"""\n'
            if i % 2
            else f'def f{i}():\n    """{text}"""\n'
        )
    return body


def text(package, number):
    return f"Function {number} of {package}. " + "It has a description of some length. " * 5


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Three packages with 30, 20 and 2 documents; the cache is empty."""
    for package, count in {"big": 30, "middle": 20, "little": 2}.items():
        folder = tmp_path / "site" / package / "sub"
        folder.mkdir(parents=True)
        (folder / "a.py").write_text(module(*(text(package, i) for i in range(count))))
        (folder / "tests").mkdir()
        (folder / "tests" / "test_a.py").write_text(module(text("tests", 0)))
    (tmp_path / "site" / "other").mkdir()
    (tmp_path / "site" / "other" / "a.py").write_text(
        module("short", text("big", 1))
    )  # known from another package
    (tmp_path / "site" / "broken.py").write_text('"""' + text("broken", 1))
    (tmp_path / "site" / "gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "site" / "deep.py").write_text(module(text("deep", 1)) + f"x = {'-' * 100_000}1\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "json.py").write_text(module(text("python", 1) + "\n\n    Indented.\n"))
    monkeypatch.setattr(
        pydocs.sysconfig, "get_path", {"stdlib": str(tmp_path / "lib"), "purelib": str(tmp_path / "site")}.get
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def rows(path):
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def test_docstrings_are_found_without_importing(installed):
    found = rows(pydocs.path())
    assert len(found) == 53
    by_label = {
        label: {row["text"] for row in found if row["label"] == label}
        for label in ("big", "middle", "python")
    }
    assert by_label["big"] == {text("big", i).strip() for i in range(30)}
    assert by_label["middle"] == {text("middle", i).strip() for i in range(20)}
    assert by_label["python"] == {text("python", 1).strip() + "\n\nIndented."}


def test_the_largest_packages_have_as_many_documents(installed):
    found = rows(pydocs.path("2"))
    labels = [row["label"] for row in found]
    assert (labels.count("big"), labels.count("middle")) == (20, 20)
    assert {"big", "middle"} == set(labels[:10]) == set(labels[-10:])  # each slice has all of them
    order = [row["text"] for row in rows(pydocs.path())]
    assert [row["text"] for row in found] == [
        text for text in order if text in {row["text"] for row in found}
    ]


def test_the_source_reads_them(installed):
    assert sources.label_names(Source("pydocs:2")) == ("big", "middle")
    label = Label(names=("big", "middle"))
    found = list(sources.read(Source("pydocs:2", "train[:50%]"), label=label).as_numpy_iterator())
    assert len(found) == 20
    assert all(
        example["text"].decode().split(".")[0].endswith(label.names[example["label"]]) for example in found
    )


def test_the_file_is_written_once_and_nothing_else_is_left(installed):
    path = pydocs.path()
    before = os.stat(path).st_mtime_ns
    time.sleep(0.01)
    assert pydocs.path() == path
    assert os.stat(path).st_mtime_ns == before
    assert os.listdir(installed / "cache" / "convnlp") == [os.path.basename(path)]


def test_a_full_disk_leaves_nothing(installed, monkeypatch):
    def full(path, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pydocs.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        pydocs.path()
    assert os.listdir(installed / "cache" / "convnlp") == []


def test_a_cache_that_cannot_be_written_is_replaced(installed, monkeypatch):
    (installed / "cache").write_text("a file, not a folder")
    monkeypatch.setattr(pydocs.tempfile, "gettempdir", lambda: str(installed))
    assert pydocs.path().startswith(str(installed / "convnlp-"))


@pytest.mark.parametrize("selection", ["1", "x", "-2"])
def test_a_wrong_selection(installed, selection):
    with pytest.raises(SourceError, match="`NUMBER` in pydocs:NUMBER must be an integer >= 2"):
        sources.read(Source(f"pydocs:{selection}"))


def test_too_few_packages(installed):
    with pytest.raises(SourceError, match="pydocs:9: only 4 packages with documentation are installed"):
        sources.read(Source("pydocs:9"))
