"""`benchmarks.scoring.other_sets`: clones of repositories become files that `OTHER_SETS` read."""

import collections
import json

import pytest

from benchmarks.scoring import other_sets
from benchmarks.scoring.sets import OTHER_SETS
from tests.run_program import run_program

NUM_LINES = 20


def numbered(line):
    return "\n".join(line.format(i, i % 2) for i in range(NUM_LINES)) + "\n"


@pytest.fixture(scope="module")
def clones(tmp_path_factory):
    """Every file that is read, of 20 rows with two classes."""
    root = tmp_path_factory.mktemp("clones")

    def add(name, content):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="latin-1")

    for name in ("custrev", "mpqa", "rt-polarity", "subj"):
        add(f"sent-conv-torch/data/{name}.all", numbered("{1} caf\xe9 {0} . \x85 yes"))
    rows = [[f"question {i}", f"intent {i % 2}"] for i in range(NUM_LINES)]
    found = {"train": rows, "val": rows[:4], "test": rows[:2], "oos_train": [["nothing", "oos"]]}
    add("oos-eval/data/data_full.json", json.dumps(found))
    for name in ("emotion", "hate", "irony", "offensive"):
        for part in ("train", "val", "test"):
            add(f"tweeteval/datasets/{name}/{part}_text.txt", numbered("tweet {0} "))
            add(f"tweeteval/datasets/{name}/{part}_labels.txt", numbered("{1}"))
    tweets = ",count,hate_speech,offensive_language,neither,class,tweet\n"
    add(
        "hate-speech-and-offensive-language/data/labeled_data.csv",
        tweets + numbered('{0},3,0,0,3,{1},"two\nlines, {0}"'),
    )
    for part in ("train", "test"):
        add(f"text_gcn/data/R8/{part}.txt", numbered("topic{1}\tnews {0}"))
        for i in range(NUM_LINES):
            folder = f"text_gcn/data/20ng/20news-bydate-{part}/group.{i % 2}"
            add(f"{folder}/{i}", f"Subject: group.{i % 2}\nLines: 2\n\nbody {i}\n\nmore\n")
        add(f"text_gcn/data/20ng/20news-bydate-{part}/group.0/empty", "Subject: nothing\n\n \n")
    add("pycon-2016-tutorial/data/sms.tsv", numbered("class{1}\tmessage {0}"))
    return root


@pytest.fixture(scope="module")
def data_dir(clones, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    done = run_program(
        "benchmarks.scoring.other_sets",
        f"--repositories={clones}",
        f"--output_dir={folder / 'classification'}",
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", OTHER_SETS)
def test_every_set_is_there_whole_and_with_its_classes(name, data_dir):
    text_set = OTHER_SETS[name]
    found = {part: text_set.read(data_dir, part) for part in ("train", "test")}
    each = collections.Counter(text for rows, _ in found.values() for text in rows)
    assert len(each) == NUM_LINES
    for rows, labels in found.values():
        for text, label in zip(rows, labels, strict=True):
            number = next(int(word) for word in text.replace(",", " ").split() if word.isdigit())
            assert label == number % 2, text
    if not text_set.has_validation and set(found["train"][0]).isdisjoint(found["test"][0]):
        assert (len(found["train"][0]), len(found["test"][0])) == (18, 2)  # a tenth was drawn


def test_the_body_of_a_message_has_no_header(data_dir):
    rows, _ = OTHER_SETS["newsgroups"].read(data_dir, "train")
    assert len(rows) == NUM_LINES  # the empty one is left out
    assert all(row.startswith("body ") and row.endswith("\n\nmore") for row in rows)


def test_a_question_without_an_intent_is_left_out(data_dir):
    assert "nothing" not in OTHER_SETS["clinc150"].read(data_dir, "train")[0]


def test_the_draw_is_the_same_every_time():
    rows = [(str(i), "0") for i in range(30)]
    assert other_sets.split(rows) == other_sets.split(rows)
    assert other_sets.split(rows)["train"] != rows[3:]


def test_a_clone_that_is_missing_is_named_before_anything_is_written(clones, tmp_path):
    (tmp_path / "tweeteval").mkdir()
    done = run_program(
        "benchmarks.scoring.other_sets", f"--repositories={tmp_path}", f"--output_dir={tmp_path / 'out'}"
    )
    assert done.returncode == 1
    assert "error: `repositories` must hold a clone of github.com/harvardnlp/" in done.stderr
    assert not (tmp_path / "out").exists()
