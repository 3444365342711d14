"""The folder of a bulk prediction: taken up by the same job, refused to another."""

import contextlib
import os

import pytest
import tensorflow as tf

from convnlp.bulk import inputs, job
from tests import corpus


@pytest.fixture
def made(tmp_path):
    """A function of changed arguments that gives the description of a job on two files."""
    for name in ("a", "b"):
        corpus.write_jsonl(tmp_path / f"{name}.jsonl", corpus.reviews(3))

    def description(**changes):
        source = inputs.open_input(f"jsonl:{tmp_path}/*.jsonl")
        usual = {"format": "jsonl", "signature": "serving_default", "fields": ["text"], "shard_size": 10}
        return {**usual, "input": "jsonl:x", "model": "abc", "files": source.description(), **changes}

    return description


def test_the_same_job_is_taken_up(tmp_path, made):
    folder = tmp_path / "out"
    assert job.open_folder(str(folder), made()) is None
    (folder / "predictions-00000-000000.jsonl").touch()
    (folder / "predictions-00000-000001.jsonl.partial-12").touch()
    assert job.open_folder(str(folder), made()) is None
    assert sorted(os.listdir(folder)) == ["job.json", "predictions-00000-000000.jsonl"]
    assert job.num_done(str(folder)) == 1
    summary = {"examples": 6, "predictions": 5, "bad": 1, "shards": 1}
    job.write_summary(str(folder), summary)
    (folder / "predictions-00000-000000.jsonl.partial-34").touch()  # of a worker that was killed
    assert job.finish(str(folder)) == summary
    assert sorted(os.listdir(folder)) == ["job.json", "predictions-00000-000000.jsonl", "summary.json"]
    assert job.open_folder(str(folder), made()) == summary


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "xyz"}, "model was 'abc' and is now 'xyz'"),
        ({"signature": "pair", "shard_size": 5}, r"signature .*; shard_size was 10 and is now 5"),
        ({"fields": ["title"]}, r"fields was \['text'\] and is now \['title'\]"),
        ({"format": "tfrecord"}, "format was 'jsonl' and is now 'tfrecord'"),
    ],
)
def test_another_job_is_refused_with_the_difference(tmp_path, made, change, message):
    folder = str(tmp_path / "out")
    job.open_folder(folder, made())
    with pytest.raises(ValueError, match=f"holds another job: {message}"):
        job.open_folder(folder, made(**change))
    assert os.listdir(folder) == ["job.json"]


def test_a_changed_input_is_refused(tmp_path, made):
    folder = str(tmp_path / "out")
    job.open_folder(folder, made())
    corpus.write_jsonl(tmp_path / "b.jsonl", corpus.reviews(4))
    with pytest.raises(ValueError, match=r"1 input files changed, such as .*b\.jsonl"):
        job.open_folder(folder, made())


def test_of_a_changed_input_the_shards_alone_are_dropped(tmp_path, made):
    folder, before = str(tmp_path / "out"), made()
    job.open_folder(folder, before)
    names = [
        f"{kind}-0000{file}-00000{shard}.jsonl"
        for kind in ("bad", "predictions")
        for file in (0, 1)
        for shard in (0, 1)
    ]
    for name in names:
        (tmp_path / "out" / name).touch()
    assert job.drop_changed(folder, before) == []
    corpus.write_jsonl(tmp_path / "b.jsonl", corpus.reviews(4))
    for other in ({"model": "xyz"}, {"files": made()["files"][1:]}, {"files": made()["files"][::-1]}):
        assert job.drop_changed(folder, made(**other)) == []
    assert len(os.listdir(folder)) == 9
    assert job.drop_changed(folder, made()) == [str(tmp_path / "b.jsonl")]
    assert sorted(os.listdir(folder)) == [
        "bad-00000-000000.jsonl",
        "bad-00000-000001.jsonl",
        "job.json",
        "predictions-00000-000000.jsonl",
        "predictions-00000-000001.jsonl",
    ]
    assert job.open_folder(folder, made()) is None


def test_a_run_killed_while_shards_are_dropped_drops_the_rest(tmp_path, made, monkeypatch):
    folder = tmp_path / "out"
    job.open_folder(str(folder), made())
    for shard in range(3):
        (folder / f"predictions-00001-00000{shard}.jsonl").touch()
    (folder / "bad-00001-000000.jsonl").touch()
    corpus.write_jsonl(tmp_path / "b.jsonl", corpus.reviews(4))
    remove, removed = tf.io.gfile.remove, []

    def dying(path):
        if len(removed) == 2:
            raise KeyboardInterrupt
        removed.append(path)
        remove(path)

    with monkeypatch.context() as patch:
        patch.setattr(tf.io.gfile, "remove", dying)
        with pytest.raises(KeyboardInterrupt):
            job.drop_changed(str(folder), made())
    assert all("predictions" in path for path in removed)
    assert job.drop_changed(str(folder), made()) == [str(tmp_path / "b.jsonl")]
    assert os.listdir(folder) == ["job.json"]


def test_a_complete_job_of_which_files_are_missing_is_continued(tmp_path, made):
    folder = tmp_path / "out"
    job.open_folder(str(folder), made())
    for shard in range(2):
        (folder / f"predictions-00000-00000{shard}.jsonl").touch()
    summary = {"examples": 6, "predictions": 6, "bad": 0, "shards": 2}
    job.write_summary(str(folder), summary)
    (folder / "predictions-00000-000000 (copy).jsonl").touch()
    assert job.open_folder(str(folder), made()) == summary
    (folder / "predictions-00000-000001.jsonl").unlink()
    assert job.open_folder(str(folder), made()) is None
    assert not (folder / "summary.json").exists()


def test_what_is_no_job(tmp_path, made):
    (tmp_path / "notes").write_text("x")
    with pytest.raises(ValueError, match=r"must be a new or empty directory.* holds a.jsonl"):
        job.open_folder(str(tmp_path), made())
    (tmp_path / "out").mkdir()
    for text in ("{", "[]"):
        (tmp_path / "out" / "job.json").write_text(text)
        with pytest.raises(ValueError, match=r"job.json is damaged"):
            job.open_folder(str(tmp_path / "out"), made())
    with pytest.raises(ValueError, match="`output` must be a directory, not a file"):
        job.open_folder(str(tmp_path / "notes"), made())


@pytest.mark.parametrize(
    ("folder", "is_in"),
    [
        ("m/1", True),
        ("m/1/out", True),
        ("m/1/../1/out/a", True),
        ("link/out", True),
        ("m/out", False),
        ("m/10", False),
        ("m/1/../out", False),
    ],
)
def test_a_folder_in_the_directory_of_the_model_is_refused(tmp_path, folder, is_in):
    os.makedirs(tmp_path / "m" / "1")
    os.symlink(tmp_path / "m" / "1", tmp_path / "link")
    with contextlib.ExitStack() as stack:
        if is_in:
            message = "`output` must not be in the directory of `model`, .*/m/1/. Received: output="
            stack.enter_context(pytest.raises(ValueError, match=message))
        job.check_outside(f"{tmp_path}/{folder}", f"{tmp_path}/m/1/")


def test_a_url_in_the_directory_of_the_model_is_refused():
    job.check_outside("gs://bucket/m/10", "gs://bucket/m/1")
    job.check_outside("out", "gs://bucket/m/1")
    with pytest.raises(ValueError, match=r"Received: output=gs://bucket/m/1/out$"):
        job.check_outside("gs://bucket/m/1/out", "gs://bucket/m/1")
