"""gs:// as TensorFlow speaks it, to a stand-in for Google's server that is in trouble now and then."""

import os
import signal
import subprocess
import sys

import pytest

from tests import corpus, test_startup
from tests.gcs import stand_in
from tests.run_program import ROOT
from tests.training import test_resume

pytestmark = [
    pytest.mark.multiprocess,
    pytest.mark.skipif(bool(stand_in.unavailable()), reason=stand_in.unavailable()),
]
FAULTS = {
    "page_size": 7,
    "refuse_every": 11,
    "lose_every": 17,
    "break_every": 3,
    "delay_every": 19,
    "delay_seconds": 0.1,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A bucket "b" with a tokenizer and some files of documents, and a server that is often in trouble."""
    with stand_in.serving(tmp_path_factory.mktemp("gcs"), "b", **FAULTS) as store:
        store.put("b", "spm.model", corpus.tiny_proto())
        yield store
        # The client has asked for nothing that the stand-in does not know.
        assert [request for request in store.requests() if request["code"] in (400, 501)] == []


def ended_well(done):
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return done


def put_shards(store, folder, number, documents):
    """So many files of so many documents, behind gs:// and in a folder; the source of each."""
    folder.mkdir()
    texts = corpus.documents(documents * number)
    for index in range(number):
        path = folder / f"part-{index:04d}.jsonl.gz"
        corpus.write_jsonl(path, [{"text": text} for text in texts[index::number]])
        store.put("b", f"{folder.name}/{path.name}", path.read_bytes())
    return f"jsonl:gs://b/{folder.name}/*.jsonl.gz", f"jsonl:{folder}/*.jsonl.gz"


def arrays(cache):
    return {path.name: path.read_bytes() for path in cache.glob("*.npy")}


# Those that pass in memory, behind ram://.
BEHIND_A_URL = (
    "tests/training/test_storage.py",
    "tests/training/test_checkpoints.py::test_behind_a_url_a_directory_without_a_manifest_is_none",
    "tests/training/test_loop.py::test_behind_a_url_a_run_is_the_same_run",
    "tests/training/test_run_lock.py::test_a_lease_that_was_taken_over_stops_the_run_before_it_writes",
    "tests/data/test_token_cache.py::test_files_of_a_bucket_are_read_through_tensorflow",
)


def test_what_holds_behind_a_url_holds_there(store):
    flags = ["-q", "-p", "no:cacheprovider", *BEHIND_A_URL]
    done = ended_well(store.run("pytest", *flags, CONVNLP_TESTS_URL="gs://b/tests/"))
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
    written = {name.partition("/")[0] for name in store.names("b", "tests/")}
    assert written >= {"storage", "checkpoints", "loop", "bucket"}
    assert {"refused", "lost", "broken"} <= {request["fault"] for request in store.requests()}


def test_a_token_cache_of_many_files(store, tmp_path):
    """Listed in pages; the same bytes as of local files."""
    remote, local = put_shards(store, tmp_path / "web", 30, 3)
    before = len(store.requests())
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    for name, source, tokenizer in (
        ("remote", remote, "gs://b/spm.model"),
        ("local", local, tmp_path / "spm.model"),
    ):
        flags = [f"--source={source}", f"--tokenizer={tokenizer}", f"--output={tmp_path}/{name}"]
        done = ended_well(store.run("convnlp.prepare_tokens", *flags))
        assert done.stdout.startswith(f"{tmp_path}/{name}: 90 documents, ")
    assert arrays(tmp_path / "remote") == arrays(tmp_path / "local") != {}
    pages = [request for request in store.requests()[before:] if "pageToken" in request["path"]]
    assert len(pages) >= 4


def test_a_killed_run_goes_on_as_the_one_left_alone(store, tmp_path):
    """A toy's, whose lease the test takes away."""
    test_resume.run_whole("one_device", tmp_path / "whole")
    toy = ["one_device", "gs://b/toy", 0.1]
    for moment in test_resume.MOMENTS[:2]:
        killed = store.run("tests.training.toy", *toy, moment, "")
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
        store.remove("b", "toy/run.lock")
    ended_well(store.run("tests.training.toy", *toy, "", ""))
    test_resume.assert_same_state(tmp_path / "whole", store.fetch("b", "toy/", tmp_path / "killed"))


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_many_open_files_take_little_memory(store):
    """In a Python of its own: TensorFlow reads what `convnlp.startup` sets when it is imported."""
    for index in range(64):
        store.put("b", f"open/{index}", bytes(10_000))
    code = """
startup.begin()
import resource, tensorflow as tf
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
files = [tf.io.gfile.GFile(path, "rb") for path in tf.io.gfile.glob("gs://b/open/*")]
assert sum(len(file.read(100)) for file in files) == 6400
print(peak() - before)
"""
    command = [*store.prefix, sys.executable, "-c", test_startup.LOAD + code]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GCS_")}
    command.remove("GCS_READ_CACHE_BLOCK_SIZE_MB=4")
    done = subprocess.run(
        command, env=inherited | store.environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 600_000  # kB; with TensorFlow's own pieces 4,171,328
