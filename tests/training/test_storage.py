"""Files on a disk and behind a URL, see `tests.remote`."""

import pathlib
import resource

import pytest
import tensorflow as tf

from convnlp import programs
from convnlp.training import storage
from tests import remote


@pytest.fixture(params=["disk", "url"])
def directory(request, tmp_path):
    directory = str(tmp_path) if request.param == "disk" else remote.url(f"storage/{request.node.name}")
    storage.gfile.makedirs(directory)
    return directory


def test_writes_whole_files(directory):
    path = storage.join(directory, "a.json")
    storage.write_json(path, {"b": [1, 2]})
    storage.write_json(path, {"b": [1]})
    assert storage.read_json(path) == {"b": [1]}
    assert storage.names(directory) == ["a.json"]
    assert storage.size(path) == len(storage.read(path))
    assert storage.size(storage.join(directory, "none")) == -1
    assert storage.names(storage.join(directory, "none")) == []


def test_appends_and_cuts(directory):
    path = storage.join(directory, "a.jsonl")
    file = storage.Appended(path)
    file.write("one\n")
    file.write("zwei €\n")
    file.close()
    assert file.position == len(storage.read(path)) == len("one\nzwei €\n".encode())
    file = storage.Appended(path, 4)
    file.write("two\n")
    file.flush()
    assert storage.read(path) == b"one\ntwo\n"
    file.close()
    short = storage.Appended(path, 100)  # no zeros where there is nothing
    assert short.position == 8
    short.close()
    assert storage.read(path) == b"one\ntwo\n"


def test_behind_a_url_only_what_is_new_is_written(monkeypatch):
    """What has been written already cannot fail again while another error is on its way."""
    path = remote.url("storage/appended.jsonl")
    file = storage.Appended(path)
    file.write("one\ntwo\n")
    file.flush()
    with monkeypatch.context() as patch:
        patch.setattr(storage, "write", None)
        file.close()
        storage.Appended(path).close()
        unwritten = storage.Appended(path)
        unwritten.write("three\n")
        unwritten.close(flush=False)
    assert storage.read(path) == b"one\ntwo\n"
    storage.Appended(path, 4).close()
    assert storage.read(path) == b"one\n"


def test_a_line_that_cannot_be_written_names_the_file(tmp_path):
    """As on a full disk; and closing the file does not try the rest of the line once more."""
    path = tmp_path / "a.jsonl"
    file = storage.Appended(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: .*a\.jsonl") as caught:
            file.write("longer\n")
        assert "a.jsonl" in programs.user_message(caught.value)
        file.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"longer"


def test_the_reason_is_one_line_without_the_operation():
    error = storage.tf.errors.ResourceExhaustedError(
        None,
        None,
        "{{function_node __wrapped__SaveV2_device_/job:localhost/task:0}} a/b; No space [Op:SaveV2]\nat",
    )
    assert storage.reason(error) == "a/b; No space"
    assert storage.reason(TimeoutError()) == "TimeoutError"
    assert storage.reason(OSError("\nthe disk\nis gone")) == "the disk"
    assert storage.reason(storage.tf.errors.AbortedError(None, None, " [Op:SaveV2]")) == "AbortedError"


def test_moves_and_copies_directories(directory):
    source = storage.join(directory, "source")
    storage.gfile.makedirs(storage.join(source, "inner"))
    storage.write(storage.join(source, "inner", "x"), b"1")
    storage.write(storage.join(source, "y"), b"22")
    storage.copy(source, storage.join(directory, "copy"), last="inner")
    storage.move(source, storage.join(directory, "moved"))
    assert storage.names(directory) == ["copy", "moved"]
    for name in ("copy", "moved"):
        assert storage.read(storage.join(directory, name, "inner", "x")) == b"1"
        assert storage.read(storage.join(directory, name, "y")) == b"22"


def test_removes_directories(directory):
    for number in range(12):  # gs:// in trouble, as in `tests.gcs`, does not find some of them at once
        removed = storage.join(directory, str(number))
        storage.gfile.makedirs(removed)
        storage.write(storage.join(removed, "x"), b"1")
        storage.remove_directory(removed)
    assert storage.names(directory) == []
    with pytest.raises(storage.ERRORS):
        storage.remove_directory(storage.join(directory, "none"))


def test_a_directory_that_is_not_found_though_it_exists_is_looked_for_again(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    answers = [tf.errors.NotFoundError(None, None, "not found")] * 2
    rmtree = storage.gfile.rmtree

    def unreliable(path):
        if answers:
            raise answers.pop()
        rmtree(path)

    monkeypatch.setattr(storage.gfile, "rmtree", unreliable)
    storage.remove_directory(str(tmp_path / "there"))
    assert list(tmp_path.iterdir()) == []
    answers.extend([tf.errors.NotFoundError(None, None, "not found")] * 100)
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError, match="exists, but cannot be found"):
        storage.remove_directory(str(tmp_path / "there"))


def test_fingerprints_by_content(directory):
    paths = [storage.join(directory, name) for name in "abc"]
    for path, content in zip(paths, (b"same", b"same", b"Same"), strict=True):
        storage.write(path, content)
    first, second, third = map(storage.fingerprint, paths)
    assert first == second
    assert first["bytes"] == third["bytes"] == 4
    assert first["sha256"] != third["sha256"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("runs/a", "runs/a"), ("ram://a/b", "ram://a/b"), ("file:///tmp/a", "/tmp/a"), (pathlib.Path("a"), "a")],
)
def test_paths(path, expected):
    assert storage.normal(path) == expected


@pytest.mark.parametrize("path", ["gs:/bucket/run", "s4://bucket/run", pathlib.Path("gs://bucket/run")])
def test_no_folder_is_called_gs(path):
    with pytest.raises(
        ValueError, match=r"`workdir` must be a local path or begin with one of .*gs://.*Received"
    ):
        storage.normal(path)
