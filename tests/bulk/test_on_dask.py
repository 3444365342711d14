"""The pipeline on a cluster of worker processes, with what Beam's DaskRunner does and does not do."""

import json
import os
import sys
import types

import pytest
from absl import flags
from absl.testing import flagsaver

from convnlp import batch_predict, programs
from convnlp.bulk import outputs, runners
from convnlp.data import SourceError
from tests import corpus, dask_cluster
from tests.dask_cluster import needs_dask
from tests.run_program import run_program

ROWS = corpus.reviews(60)


@pytest.fixture(scope="module")
def address():
    with dask_cluster.running() as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def folder(tmp_path):
    """A plain file, of which each shard is a task, and a packed one of several shards; a bad line in each."""
    corpus.write_jsonl(tmp_path / "a.jsonl", [*ROWS[:40], {"title": "no text"}])
    corpus.write_jsonl(tmp_path / "b.jsonl.gz", [{"title": "no text"}, *ROWS[40:]])
    return tmp_path


@pytest.fixture
def predict(folder, model, address, capsys):
    """A function of changed flags, and of Beam's own, that runs the program and returns its last line."""
    flags.FLAGS.mark_as_parsed()
    usual = {"model": model, "input": f"jsonl:{folder}/*.jsonl*", "output": f"{folder}/out"}
    usual |= {"shard_size": 8, "batch_size": 4, "runner": "DaskRunner"}

    def run(*beam_flags, **changes):
        with flagsaver.flagsaver(**usual | changes):
            batch_predict.main(["batch_predict", f"--dask_client_address={address}", *beam_flags])
        return capsys.readouterr().out.splitlines()[-1]

    return run


def read(folder, kind="predictions"):
    """Rows of all files of a kind, in order."""
    files = sorted((folder / "out").glob(f"{kind}-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


@needs_dask
@pytest.mark.parametrize("beam_flags", [(), ("--dask_partition_size=4",)])
def test_each_line_has_one_answer_or_one_reason(folder, predict, beam_flags):
    """Of tasks of a part each, and of several parts."""
    assert predict(*beam_flags).startswith("62 examples: 60 predictions, 2 bad; 9 shards in ")
    assert [(row["input"], row["label"]) for row in read(folder)] == [
        (row, row["text"].upper()) for row in ROWS
    ]
    assert [(row["file"], row["line"]) for row in read(folder, "bad")] == [
        (f"{folder}/a.jsonl", 41),
        (f"{folder}/b.jsonl.gz", 1),
    ]


@needs_dask
def test_a_restart_keeps_what_is_done(folder, predict):
    predict()
    whole = read(folder)
    (folder / "out" / "summary.json").unlink()
    (folder / "out" / "predictions-00001-000001.jsonl").unlink()
    kept = folder / "out" / "predictions-00000-000001.jsonl"
    kept.write_text('{"kept": 1}\n')
    assert predict().startswith("62 examples: 60 predictions, 2 bad; 9 shards in ")
    assert read(folder) == [*whole[:8], {"kept": 1}, *whole[16:]]
    assert not [name for name in os.listdir(folder / "out") if outputs.PARTIAL in name]


@needs_dask
def test_what_a_worker_raises_is_one_line_here(folder, predict):
    with pytest.raises(
        ValueError, match="the model's output 'count' must have one entry per example"
    ) as raised:
        predict(signature="total")
    assert programs.user_message(raised.value).startswith("the model's output 'count' must have one entry")
    data = (folder / "b.jsonl.gz").read_bytes()
    (folder / "b.jsonl.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError, match=r"b\.jsonl\.gz, line \d+: cannot be read: Compressed"):
        predict(output=f"{folder}/other")
    assert not (folder / "other" / "summary.json").exists()


@needs_dask
def test_no_parts_are_a_summary_too(folder, predict):
    (folder / "empty.lines").write_text("")
    assert predict(input=f"lines:{folder}/empty.lines").startswith(
        "0 examples: 0 predictions, 0 bad; 0 shards"
    )


@needs_dask
@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--dask_client_adress=x", r"Beam has no such flag\. Received: '--dask_client_adress=x'"),
        ("--dask_client_address=inproc://1", "Dask's workers must be separate processes"),
    ],
)
def test_flags_that_cannot_be(flag, message):
    from convnlp.bulk import engine

    with pytest.raises(ValueError, match=message):
        engine.options("DaskRunner", [flag])


@needs_dask
def test_without_dask_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"program needs Dask: pip install -r requirements-beam\.txt"):
        runners.load_pipeline("convnlp.bulk.pipeline", "program", "DaskRunner")
    assert runners.load_pipeline("convnlp.bulk.pipeline", "program", "DirectRunner")


@needs_dask
@pytest.mark.parametrize(
    ("num_parts", "flags", "size"),
    [(0, (), 1), (256, (), 1), (257, (), 2), (1000, (), 4), (1000, ("--dask_npartitions=9",), None)],
)
def test_many_parts_share_tasks(num_parts, flags, size):
    import apache_beam as beam
    from apache_beam.runners.dask.dask_runner import DaskOptions

    from convnlp.bulk import engine

    source = types.SimpleNamespace(paths=["a"], parts=lambda file: [file] * num_parts)
    options = engine.options("DaskRunner", list(flags))
    pipeline = beam.Pipeline(options=options)
    engine.parts(pipeline, source)
    assert pipeline.options.view_as(DaskOptions).partition_size == size


@needs_dask
def test_work_that_kills_its_workers_ends_in_one_line():
    import apache_beam as beam
    import dask

    from convnlp.bulk import engine

    with dask.config.set({"distributed.scheduler.allowed-failures": 1}), dask_cluster.running() as cluster:
        options = engine.options("DaskRunner", [f"--dask_client_address={cluster.scheduler_address}"])
        with (
            pytest.raises(ValueError, match="2 workers died, one after the other, on the same part"),
            engine.open_pipeline(options) as pipeline,
        ):
            pipeline | beam.Create([9]) | beam.Map(lambda signum: os.kill(os.getpid(), signum))


@needs_dask
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_line_is_lost_or_doubled_when_a_worker_is_killed(tmp_path):
    """The program of docs/bulk.md with fewer lines, which fails if one is not there once and right."""
    arguments = [f"--workdir={tmp_path}/run", f"--json={tmp_path}/outcome.json"]
    arguments += ["--num_lines=2000", "--shard_size=20"]
    done = run_program("benchmarks.cluster", *arguments, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert outcome["found"]["once"] == outcome["lines"] == 2000
    assert outcome["new_processes"] == 1
    (killed,) = outcome["killed"]
    assert 0 < killed["shards_there"] < outcome["shards"] == 100
    assert killed["tasks_given_to_it"] >= 1
    assert sum(n for name, n in outcome["begun_again"].items() if name.startswith("apply_dofn_to_bundle"))
