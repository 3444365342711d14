"""The program, in this process. What needs Beam is marked, and skipped where that is missing."""

import importlib.util
import json
import os
import signal
import threading
import time

import pytest

from convnlp import prepare_corpus
from convnlp.data import Source, sources
from tests import corpus, dask_cluster
from tests.corpora.prose import changed, prose
from tests.dask_cluster import needs_dask
from tests.run_program import run_program

BEAM = importlib.util.find_spec("apache_beam") is not None
SOUND = [prose(number) for number in range(12)]
TEST_TEXT = " ".join(prose(99).split()[:20])


def needs_beam(test):
    """Marks a test of the pipeline."""
    return pytest.mark.beam(pytest.mark.skipif(not BEAM, reason="Apache Beam is not installed")(test))


@pytest.fixture
def folder(tmp_path):
    """Two files: 12 texts that stay, and what each rule removes."""
    rows = [{"text": text, "id": number} for number, text in enumerate(SOUND)]
    first = [
        *rows[:6],
        {"text": "too short", "id": 100},
        {"text": changed(SOUND[2], 1), "id": 101},  # nearly the same as an earlier one
        {"text": SOUND[7].upper(), "id": 102},  # the first of two in the order of files
    ]
    second = [
        *(row for row in rows[6:] if row["id"] != 7),
        {"text": f"{prose(50)}\n{TEST_TEXT}", "id": 103},
        {"text": SOUND[7], "id": 7},
        {"text": "\n".join([prose(51, 60)] * 3), "id": 104},
        {"title": "no text"},
    ]
    corpus.write_jsonl(tmp_path / "a.jsonl.gz", first)
    corpus.write_jsonl(tmp_path / "b.jsonl", second)
    corpus.write_jsonl(tmp_path / "test.json", [{"question": TEST_TEXT.title(), "label": 1}])
    return tmp_path


@pytest.fixture
def prepare(folder):
    """A function of changed arguments."""
    usual = {"input": f"jsonl:{folder}/*.jsonl*", "output": f"{folder}/out", "shard_size": 4}
    usual |= {"test_sources": [f"jsonl:{folder}/test.json"]}
    return lambda **changes: prepare_corpus.prepare(**usual | changes)


def contents(folder, output="out"):
    return {path.name: path.read_bytes() for path in (folder / output).iterdir() if path.name != "job.json"}


def ids(folder):
    return [row["id"] for row, _ in sources.records(Source(f"jsonl:{folder}/out/documents-*.jsonl"))]


REMOVED = {
    "duplicate": 1,
    "in_a_test_set": 1,
    "near_duplicate": 1,
    "num_words": 1,
    "repeated_lines": 1,
    "unreadable": 1,
}


@needs_beam
@pytest.mark.parametrize(
    "beam_flags", [(), ("--direct_num_workers=2", "--direct_running_mode=multi_processing")]
)
def test_what_breaks_a_rule_is_gone_and_all_else_is_there_once(folder, prepare, beam_flags, capsys):
    summary = prepare(beam_flags=beam_flags)
    kept = [*range(7), *range(8, 12), 102]
    assert sorted(ids(folder)) == kept
    assert summary == json.loads((folder / "out" / "summary.json").read_text())
    assert summary["documents"] == 18
    assert {rule: counts["documents"] for rule, counts in summary["removed"].items()} == REMOVED
    assert summary["kept"] == {"documents": 12, "characters": sum(map(len, SOUND))}
    assert summary["removed"]["num_words"]["characters"] == len("too short")
    place = f"{folder}/b.jsonl, line 9"
    assert summary["removed"]["unreadable"]["first"] == f"{place}: no field 'text' (available: 'title')"
    assert f" 1 unreadable, first {place}: no field" in prepare_corpus.table(summary)
    assert summary["shards"] == 5
    # Rows have all their fields, in the order of the input; a file without any is not there.
    assert sorted(name for name in contents(folder) if name != "summary.json") == [
        "documents-00000-000000.jsonl",
        "documents-00000-000001.jsonl",
        "documents-00000-000002.jsonl",
        "documents-00001-000000.jsonl",
        "documents-00001-000001.jsonl",
    ]
    whole = contents(folder)
    assert prepare() == summary
    assert "nothing is left to do" in capsys.readouterr().out
    (folder / "out" / "documents-00001-000000.jsonl").unlink()
    prepare()
    assert contents(folder) == whole


@needs_beam
def test_the_first_of_a_hundred_thousand_files_is_that_with_the_lowest_number():
    from convnlp.corpora import pipeline

    members = [("100000-000000", 1, b""), ("99999-000000", 1, b"")]
    assert list(pipeline._repeats((b"=", members), 0.8)) == [("100000-000000", (1, "duplicate"))]


@needs_dask
def test_a_dask_cluster_keeps_the_same_documents(folder, prepare):
    summary = prepare()
    whole = contents(folder)
    with dask_cluster.running() as cluster:
        flags = [f"--dask_client_address={cluster.scheduler_address}", "--dask_partition_size=2"]
        on_dask = {"runner": "DaskRunner", "beam_flags": flags, "output": f"{folder}/dask"}
        assert prepare(**on_dask) == summary
    assert contents(folder, "dask") == whole


@needs_dask
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_worker_killed_while_files_are_written_changes_none(folder, prepare):
    rows = [{"text": prose(number % 150), "id": number} for number in range(200)]
    corpus.write_jsonl(folder / "many.rows", rows)
    many = {"input": f"jsonl:{folder}/many.rows"}
    summary = prepare(**many)
    whole = contents(folder)
    assert len(whole) == 39  # 150 documents stay, four a file; and the summary
    there = []

    def kill_when_a_file_is_there(cluster):
        while not there:
            time.sleep(0.002)
            if files := list((folder / "dask").glob("documents-*.jsonl")):
                os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
                there.extend(files)

    with dask_cluster.running(num_workers=2) as cluster:
        thread = threading.Thread(target=kill_when_a_file_is_there, args=[cluster], daemon=True)
        thread.start()
        flags = [f"--dask_client_address={cluster.scheduler_address}"]
        assert prepare(**many, runner="DaskRunner", beam_flags=flags, output=f"{folder}/dask") == summary
        thread.join(60)
    assert 0 < len(there) < 38
    assert contents(folder, "dask") == whole


@needs_beam
def test_rules_may_be_left_out(folder, prepare):
    prepare(rules=[], test_sources=[], min_similarity=0.0)
    assert len(ids(folder)) == 17
    with pytest.raises(
        ValueError, match=r"`output` must be new or hold part of the same job.*min_words was 50"
    ):
        prepare(rules=[], test_sources=[], min_similarity=0.0, min_words=3)


@needs_beam
def test_a_test_set_with_other_texts_is_another_job(folder, prepare):
    prepare()
    other = {"question": prose(98, 20), "label": 1}  # with as many runs of words
    corpus.write_jsonl(folder / "test.json", [other])
    with pytest.raises(ValueError, match=r"holds another job: test_texts was '.*' and is now '"):
        prepare()
    with pytest.raises(ValueError, match="a test set must be one split"):
        prepare(test_sources=["jsonl:test.{split}.json"])


@needs_beam
@pytest.mark.skipif(not importlib.util.find_spec("py3langid"), reason="py3langid is not installed")
def test_languages(folder, prepare):
    texts = {
        "en": "The old river crosses the quiet valley, and the teacher of the village remembers the bridge.",
        "de": "Der alte Fluss durchquert das stille Tal, und die Lehrerin erinnert sich an die Brücke.",
        "fr": "La vieille rivière traverse la vallée tranquille, et le maître se souvient du pont.",
    }
    corpus.write_jsonl(folder / "c.rows", [{"text": text, "id": name} for name, text in texts.items()])
    summary = prepare(input=f"jsonl:{folder}/c.rows", rules=[], languages=["en", "fr"])
    assert sorted(ids(folder)) == ["en", "fr"]
    assert summary["removed"] == {"other_language": {"documents": 1, "characters": len(texts["de"])}}
    with pytest.raises(
        ValueError, match=r"`languages` must be codes that py3langid knows.*Received: 'english'"
    ):
        prepare(languages=["english"])


@pytest.mark.skipif(BEAM, reason="Apache Beam is installed")
def test_without_beam_one_line_says_what_to_install(folder, prepare):
    with pytest.raises(
        ValueError, match=r"prepare_corpus needs Apache Beam: pip install -r requirements-beam"
    ):
        prepare()
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rules": ["spelling"]},
            "`rules` must be one of num_words, word_length, .* Received: rules='spelling'",
        ),
        (
            {"min_similarity": 2.0},
            r"`min_similarity` must be a number in \[0, 1\]. Received: min_similarity=2.0",
        ),
        (
            {"test_sources": [], "test_text_fields": ["question", "text"]},
            "`test_text_fields` must only be given with `test_sources`. .*: test_text_fields=question,text$",
        ),
    ],
)
def test_a_mistake_is_one_line(prepare, folder, changes, message):
    with pytest.raises(ValueError, match=message):
        prepare(**changes)
    assert not (folder / "out").exists()


@pytest.mark.slow
@pytest.mark.multiprocess
def test_flags_are_the_arguments(folder):
    flags = [f"--input=jsonl:{folder}/a.jsonl.gz", f"--output={folder}/out", "--rules=num_words,spelling"]
    done = run_program("convnlp.prepare_corpus", *flags)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: `rules` must be one of num_words, word_length, ")


def test_the_table_of_a_summary():
    removed = {
        "num_words": {"documents": 3, "characters": 20},
        "near_duplicate": {"documents": 5, "characters": 900},
    }
    summary = {"documents": 1008, "kept": {"documents": 1000, "characters": 54321}, "removed": removed}
    assert [line.strip() for line in prepare_corpus.table(summary).splitlines()] == [
        "1,008 documents",
        "1,000 kept, 54,321 characters",
        "5 near duplicate, 900 characters",
        "3 num words, 20 characters",
    ]
