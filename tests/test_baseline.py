"""`convnlp baseline`, as a user runs it."""

import json

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from tests import corpus
from tests.run_program import run_program

pytestmark = pytest.mark.multiprocess
LABELS = ("bad", "good")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with train.jsonl and test.jsonl, of obvious fields, and their rows."""
    folder = tmp_path_factory.mktemp("reviews")
    rows = [{"review": row["text"], "stars": LABELS[row["label"]]} for row in corpus.reviews(300)]
    split = {"train": rows[:200], "test": rows[200:]}
    for name, each in split.items():
        corpus.write_jsonl(folder / f"{name}.jsonl", each)
    in_order = [{"review": f"the river {i}", "stars": "abcd"[i // 10]} for i in range(40)]
    corpus.write_jsonl(folder / "sorted.jsonl", in_order)
    corpus.write_jsonl(folder / "few.jsonl", in_order[:1] * 5 + in_order[-3:])
    corpus.write_jsonl(folder / "empty.jsonl", [{"review": " ", "stars": label} for label in LABELS])
    return folder, split


def test_it_scores_as_scikit_learn(files):
    folder, split = files
    flags = [f"--source=jsonl:{folder}/train.jsonl", f"--test_source=jsonl:{folder}/test.jsonl"]
    done = run_program("convnlp.baseline", *flags, "--c=3", f"--output={folder}/scores.json")
    assert done.returncode == 0, done.stderr
    assert "using 'review' as text_field and 'stars' as label_field" in done.stderr
    found = json.loads((folder / "scores.json").read_text())["scores"]

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    texts, labels = zip(*map(dict.values, split["train"]), strict=True)
    test_texts, test_labels = zip(*map(dict.values, split["test"]), strict=True)
    model = LogisticRegression(C=3.0, max_iter=1000)
    model.fit(vectorizer.fit_transform(texts), labels)
    expected = np.mean(model.predict(vectorizer.transform(test_texts)) == np.array(test_labels))
    assert found["accuracy"] == expected
    assert found["accuracy"] > 0.9
    assert f"accuracy {found['accuracy']:.4f} (" in done.stdout


def test_without_test_data_each_part_is_scored_by_the_others(files, tmp_path):
    done = run_program(
        "convnlp.baseline", f"--source=jsonl:{files[0]}/train.jsonl", f"--output={tmp_path}/s.json"
    )
    assert done.returncode == 0, done.stderr
    assert " on 200 examples, each fifth by a model of the other 4" in done.stdout
    report = json.loads((tmp_path / "s.json").read_text())
    assert report["test_source"] is None
    assert report["scores"]["accuracy"] > 0.9

    # Nothing can be learned of these texts but what their copies say, and one class has a single text.
    rng = np.random.default_rng(0)
    rows = [{"review": f"w{i} x{i} y{i}", "stars": LABELS[rng.integers(2)]} for i in range(100)] * 3
    rows.append({"review": "alone", "stars": "other"})
    corpus.write_jsonl(tmp_path / "copies.jsonl", rows)
    done = run_program("convnlp.baseline", f"--source=jsonl:{tmp_path}/copies.jsonl")
    assert done.returncode == 0, done.stderr
    assert 0.3 < float(done.stdout.split()[1]) < 0.7
    assert "Warning" not in done.stderr


def test_classes_with_fewer_texts_than_there_are_parts(tmp_path):
    # A mark at the end of a word does not make it another word.
    rows = [{"text": f"topic{i}{mark}", "label": f"c{i}"} for i in range(30) for mark in ".?"]
    corpus.write_jsonl(tmp_path / "many.jsonl", rows)
    done = run_program("convnlp.baseline", f"--source=jsonl:{tmp_path}/many.jsonl")
    assert done.returncode == 0, done.stderr
    assert " on 60 examples, each fifth" in done.stdout
    assert float(done.stdout.split()[1]) > 0.5


def test_texts_that_are_trained_on_and_tested_are_counted(files):
    done = run_program(
        "convnlp.baseline", f"--source=jsonl:{files[0]}/train.jsonl", "--test_split=train[:50]"
    )
    assert done.returncode == 0, done.stderr
    assert "50 of the 50 test texts are among those trained on" in done.stderr


def test_a_class_that_is_only_tested(files, tmp_path):
    rows = [*files[1]["train"][:100], {"review": "the river", "stars": "other"}]
    corpus.write_jsonl(tmp_path / "all.jsonl", rows)
    source = f"jsonl:{tmp_path}/all.jsonl"
    flags = [f"--source={source}", "--split=train[:100]", "--test_split=train[90:]"]
    done = run_program("convnlp.baseline", *flags)
    assert done.returncode == 0, done.stderr
    assert "on 11 examples" in done.stdout


def test_integers_need_the_names_in_their_order(files, tmp_path):
    numbered = [{**row, "stars": LABELS.index(row["stars"])} for row in files[1]["test"]]
    corpus.write_jsonl(tmp_path / "test.jsonl", numbered)
    flags = [f"--source=jsonl:{files[0]}/train.jsonl", f"--test_source=jsonl:{tmp_path}/test.jsonl"]
    done = run_program("convnlp.baseline", *flags)
    assert done.returncode == 1
    assert "if integers stand for them, list them in label_names" in done.stderr.splitlines()[-1]
    accuracy = {}
    for names in (LABELS, LABELS[::-1]):
        output = tmp_path / f"{names[0]}.json"
        done = run_program(
            "convnlp.baseline", *flags, f"--label_names={','.join(names)}", f"--output={output}"
        )
        assert done.returncode == 0, done.stderr
        accuracy[names] = json.loads(output.read_text())["scores"]["accuracy"]
    assert accuracy[LABELS] > 0.9
    assert accuracy[LABELS[::-1]] == pytest.approx(1 - accuracy[LABELS])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--source=jsonl:{}/train.jsonl", "--test_split=train"], "not scored on what it was trained on"),
        (
            ["--source=jsonl:{}/sorted.jsonl", "--test_split=train[75%:]", "--split=train[:75%]"],
            "`test_split` must have classes that `split` has; sorted rows are not to be sliced",
        ),
        (["--source=jsonl:{}/few.jsonl"], "`source` must have at least 5 different texts"),
        (["--source=jsonl:{}/none.jsonl", "--test_split=train[:5%]"], "no such file"),
        (
            ["--source=jsonl:{}/empty.jsonl", "--test_source=jsonl:{}/test.jsonl"],
            "`source` must contain words. Received: only empty texts in",
        ),
        (["--source=jsonl:{}/train.jsonl", "--output="], "`output` must not be empty"),
        (["--source=jsonl:{}/train.jsonl", "--output={}"], "must be a file"),
    ],
)
def test_one_clear_line(files, flags, message):
    done = run_program("convnlp.baseline", *[flag.format(files[0]) for flag in flags])
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert message in done.stderr.splitlines()[-1]
