"""gs:// as TensorFlow speaks it, to a stand-in for Google's server that is in trouble now and then."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests import corpus, test_startup
from tests.gcs import stand_in
from tests.run_program import ROOT, run_program
from tests.test_pretrain import TINY
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


# A run as a user starts it, with the time that a lease takes.


def training(workdir, source, tokenizer, *flags):
    flags = [*TINY, f"--config.data.source={source}", f"--config.tokenizer={tokenizer}", *flags]
    return ["convnlp.pretrain", *flags, f"--workdir={workdir}"]


def wait_for_step(store, workdir, step, program):
    """Until a run has written the metrics of that step."""
    name = f"{workdir}/metrics.jsonl"
    while program.poll() is None:
        if name in store.names("b") and f'"step": {step},' in store.get("b", name).decode():
            return
        time.sleep(0.1)
    raise AssertionError("it has ended too soon")


def killed_at(store, step, command):
    """Kills a run when it has written the metrics of that step."""
    program = store.start(*command)
    try:
        wait_for_step(store, command[-1].partition("gs://b/")[2], step, program)
    finally:
        program.kill()
    assert program.wait(timeout=60) == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_from_files_in_a_bucket_to_a_classifier_there(store, tmp_path):
    remote, local = put_shards(store, tmp_path / "mine", 12, 60)
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    longer = ("--config.train.num_steps=60",)
    ended_well(
        run_program(*training(tmp_path / "whole", local, tmp_path / "spm.model", *longer), timeout=2000)
    )

    command = training("gs://b/run", remote, "gs://b/spm.model", *longer)
    killed_at(store, 4, command)
    assert "run.lock" in store.names("b", "run/")
    killed_at(store, 12, command)  # after the lease of the first one has run out
    running = store.start(*command)
    wait_for_step(store, "run", 14, running)  # it has the lease
    refused = store.run(*command)
    assert refused.returncode == 1
    assert "must be a directory that no other process is writing to" in refused.stderr.splitlines()[-1]
    assert running.wait(timeout=2000) == 0
    there = store.fetch("b", "run/", tmp_path / "there")
    assert_the_same_run(tmp_path / "whole", there)
    assert not (there / "run.lock").exists()

    rows = [{"text": row["text"], "label": row["label"]} for row in corpus.reviews(200)]
    corpus.write_jsonl(tmp_path / "train.jsonl", rows)
    store.put("b", "data/train.jsonl", (tmp_path / "train.jsonl").read_bytes())
    flags = ["--config.data.source=jsonl:gs://b/data/train.jsonl", "--config.init_from=gs://b/run/preset"]
    flags += ["--config.train.batch_size=8", "--config.data.input_length=16", "--config.task.num_epochs=1.0"]
    ended_well(store.run("convnlp.finetune", *flags, "--workdir=gs://b/tuned"))
    assert "valid/accuracy" in json.dumps(json.loads(store.get("b", "tuned/results.json")))
    assert "preset/config.json" in store.names("b", "tuned/")


def assert_the_same_run(workdir, other):
    """Metrics, every value of the last checkpoint, and the weights of the preset."""
    assert (workdir / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    last = max(path.name for path in (workdir / "checkpoints").iterdir())
    values, others = (test_resume.values(each / "checkpoints" / last / "model") for each in (workdir, other))
    assert len(values) > 20
    assert values == others
    assert_the_same_weights(workdir / "preset", other / "preset")


def assert_the_same_weights(preset, other):
    import h5py

    def weights(folder):
        found = {}
        with h5py.File(folder / "model.weights.h5") as file:
            file.visititems(
                lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        return found

    ours, others = weights(preset), weights(other)
    assert set(ours) == set(others) != set()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, others[name])


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_workers_share_a_bucket(store, tmp_path):
    """Two, one of which is killed: the launcher starts both again, which go on as if nothing had been."""
    remote, local = put_shards(store, tmp_path / "ours", 4, 60)
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())

    def launch(workdir, source, tokenizer):
        command = training(workdir, source, tokenizer, "--config.train.num_steps=40")
        return ["convnlp", "launch", "--num_workers=2", "--restarts=2", "--", "pretrain", *command[1:]]

    ended_well(run_program(*launch(tmp_path / "whole", local, tmp_path / "spm.model"), timeout=2000))
    with open(tmp_path / "log", "w+") as log:
        launcher = store.start(*launch("gs://b/shared", remote, "gs://b/spm.model"), stdout=log, stderr=log)
        wait_for_step(store, "shared", 8, launcher)
        command = ["pgrep", "--parent", str(launcher.pid), "--full", "pretrain"]
        workers = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert len(workers) == 2
        os.kill(int(workers[1]), signal.SIGKILL)
        assert launcher.wait(timeout=2000) == 0, pathlib.Path(log.name).read_text()[-3000:]
    assert "was ended by SIGKILL" in pathlib.Path(log.name).read_text()
    assert_the_same_run(tmp_path / "whole", store.fetch("b", "shared/", tmp_path / "there"))


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_tfds_data_set_in_a_bucket(store, tmp_path):
    corpus.write_jsonl(tmp_path / "docs.jsonl", [{"text": text} for text in corpus.documents(100)])
    flags = [f"--source=jsonl:{tmp_path}/docs.jsonl", "--name=c4/en:3.1.0", f"--data_dir={tmp_path}/tfds"]
    ended_well(run_program("convnlp.prepare_tfds", *flags))
    store.put_folder(tmp_path / "tfds", "b", "tfds")
    command = training(
        "gs://b/c4", "tfds:c4/en:3.1.0", "gs://b/spm.model", "--config.data.data_dir=gs://b/tfds"
    )
    ended_well(store.run(*command))
    assert "preset/model.weights.h5" in store.names("b", "c4/")


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
