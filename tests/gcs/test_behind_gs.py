"""gs:// as TensorFlow speaks it, to a stand-in for Google's server that is in trouble now and then."""

import ast
import json
import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

import convnlp
from tests import corpus, test_startup
from tests.gcs import stand_in
from tests.launching import workers
from tests.run_program import ROOT, run_program
from tests.test_pretrain import TINY
from tests.training import test_resume

UNAVAILABLE = stand_in.unavailable()
pytestmark = [pytest.mark.multiprocess, pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)]
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


@pytest.mark.slow
def test_what_holds_behind_a_url_holds_there(store):
    flags = ["-q", "-p", "no:cacheprovider", *BEHIND_A_URL]
    done = ended_well(store.run("pytest", *flags, CONVNLP_TESTS_URL="gs://b/tests/"))
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
    written = {name.partition("/")[0] for name in store.names("b", "tests/")}
    assert written >= {"storage", "checkpoints", "loop", "bucket"}
    assert {"refused", "lost", "broken"} <= {request["fault"] for request in store.requests()}


def test_a_file_is_gone_though_the_answer_to_its_deletion_was_lost(tmp_path):
    """TensorFlow remembers for some seconds what it saw of a file, also of one that it has deleted so."""
    code = """
import collections
from convnlp.training import storage
folder, seen = "gs://b/folder", collections.Counter()
for index in range(12):
    storage.write(f"{folder}/file", b"written")
    assert storage.has(folder, "file")
    assert storage.size(f"{folder}/file") == 7
    storage.remove(f"{folder}/file")
    seen[storage.gfile.exists(f"{folder}/file"), storage.has(folder, "file")] += 1
print(dict(seen))
"""
    with stand_in.serving(tmp_path, "b", lose_every=3) as store:
        command = [*store.prefix, sys.executable, "-c", code]
        environment = {**os.environ, **store.environment}
        done = ended_well(
            subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        )
    seen = ast.literal_eval(done.stdout)
    assert set(seen) == {(False, False), (True, False)}


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


@pytest.mark.slow
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


def training(workdir, source, tokenizer):
    """`convnlp.pretrain` and its flags: 8 steps, a checkpoint every 2, an evaluation every 4."""
    flags = [f"--config.data.source={source}", f"--config.tokenizer={tokenizer}", f"--workdir={workdir}"]
    return ["convnlp.pretrain", *TINY, "--config.train.num_samples=0", *flags]


def wait_until(condition, program, log):
    """Waits for what must be before the program ends."""
    while not condition():
        assert program.poll() is None, log.read_text()[-3000:]
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_from_files_in_a_bucket_to_a_classifier_there(store, tmp_path):
    """A run that is killed in the middle of a checkpoint goes on, and its preset is fine-tuned."""
    remote, local = put_shards(store, tmp_path / "mine", 8, 60)
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    ended_well(run_program(*training(tmp_path / "whole", local, tmp_path / "spm.model"), timeout=3600))

    command = training("gs://b/run", remote, "gs://b/spm.model")
    log = tmp_path / "log"
    with store.holding("run/checkpoints/00000006/") as is_held, open(log, "w") as file:
        running = store.start(*command, stderr=file)
        try:
            wait_until(is_held, running, log)
            refused = store.run(*command)
            assert refused.returncode == 1
            expected = "`workdir` must be a directory that no other process is writing to"
            assert expected in refused.stderr.splitlines()[-1]
            assert running.poll() is None
        finally:
            running.kill()
        assert running.wait(timeout=600) == -signal.SIGKILL
    assert "run.lock" in store.names("b", "run/")
    assert "Resuming at step 4" in ended_well(store.run(*command)).stderr
    assert_the_same_run(tmp_path / "whole", store.fetch("b", "run/", tmp_path / "there"))
    assert "run.lock" not in store.names("b", "run/")

    corpus.write_jsonl(tmp_path / "train.jsonl", corpus.reviews(64))
    store.put("b", "data/train.jsonl", (tmp_path / "train.jsonl").read_bytes())
    flags = ["--config.data.source=jsonl:gs://b/data/train.jsonl", "--config.init_from=gs://b/run/preset"]
    flags += ["--config.train.batch_size=8", "--config.train.steps_per_call=2"]
    flags += ["--config.data.input_length=16", "--config.task.num_epochs=1.0"]
    ended_well(store.run("convnlp.finetune", *flags, "--workdir=gs://b/tuned"))
    results = json.loads(store.get("b", "tuned/results.json"))
    assert (results["step"], results["validation"]["num_examples"]) == (6, 13)
    tuned = store.fetch("b", "tuned/preset/", tmp_path / "tuned")
    assert "Started from: gs://b/run/preset\n" in (tuned / "README.md").read_text()
    assert convnlp.models.TextClassifier.from_preset(str(tuned)).labels == ["0", "1"]

    scores = []
    for preset in (tuned, "gs://b/tuned/preset"):
        flags = [f"--preset={preset}", "--source=jsonl:gs://b/data/train.jsonl"]
        scores.append(ended_well(store.run("convnlp", "evaluate", *flags)).stdout)
    assert "num_examples  64\n" in scores[0]
    assert scores[1] == scores[0]


def assert_the_same_run(workdir, other):
    """Metrics, every value of the last checkpoint, and the weights of the preset."""
    assert (workdir / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    ours, others = (test_resume.values(each / "checkpoints/00000008/model") for each in (workdir, other))
    assert len(ours) > 20
    assert ours == others
    ours, others = (weights(each / "preset") for each in (workdir, other))
    assert set(ours) == set(others) != set()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, others[name])


def weights(preset):
    """Those of a preset, name -> array."""
    found = {}
    with h5py.File(preset / "model.weights.h5") as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
        )
    return found


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_workers_share_a_bucket(store, tmp_path):
    """Two, one of which is killed: the launcher starts both again, which go on as if nothing had been."""
    remote, local = put_shards(store, tmp_path / "ours", 4, 60)
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())

    def launch(workdir, source, tokenizer):
        own = ["--num_workers=2", "--threads_per_worker=1", "--restarts=1"]
        return ["convnlp", "launch", *own, "--", "pretrain", *training(workdir, source, tokenizer)[1:]]

    ended_well(run_program(*launch(tmp_path / "whole", local, tmp_path / "spm.model"), timeout=3600))
    log = tmp_path / "log"
    with open(log, "w") as file:
        launcher = store.start(*launch("gs://b/shared", remote, "gs://b/spm.model"), stderr=file)
        try:
            with store.holding("shared/checkpoints/00000006/") as is_held:
                wait_until(is_held, launcher, log)
                workers.kill(launcher.pid, 1)
            assert launcher.wait(timeout=3600) == 0, log.read_text()[-3000:]
        finally:
            launcher.kill()
    said = log.read_text()
    assert "launch: worker 1 of 2 was ended by SIGKILL (at step " in said
    assert "[0] Resuming at step 4" in said
    assert_the_same_run(tmp_path / "whole", store.fetch("b", "shared/", tmp_path / "there"))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_tfds_data_set_in_a_bucket(store, tmp_path):
    """Trained on there as on a disk."""
    corpus.write_jsonl(tmp_path / "docs.jsonl", [{"text": text} for text in corpus.documents(100)])
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    flags = [f"--source=jsonl:{tmp_path}/docs.jsonl", "--name=c4/en:3.1.0", f"--data_dir={tmp_path}/tfds"]
    ended_well(run_program("convnlp.prepare_tfds", *flags))
    store.put_folder(tmp_path / "tfds", "b", "tfds")
    for folder, data_dir in ((tmp_path, f"{tmp_path}/tfds"), ("gs://b", "gs://b/tfds")):
        command = training(f"{folder}/c4", "tfds:c4/en:3.1.0", f"{folder}/spm.model")
        ended_well(store.run(*command, f"--config.data.data_dir={data_dir}"))
    assert_the_same_run(tmp_path / "c4", store.fetch("b", "c4/", tmp_path / "there"))


@pytest.mark.slow
@pytest.mark.timeout(7200)
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
