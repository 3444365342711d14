import json
import re

import keras
import pytest

from convnlp.models import (
    PrefixLM,
    PrefixLMPreprocessor,
    Seq2SeqBackbone,
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
)
from tests import corpus
from tests.run_program import run_code, run_program

pytestmark = pytest.mark.multiprocess
ROWS = corpus.reviews(7)
NAMES = ["bad", "good"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    keras.utils.set_random_seed(0)  # else what ran before decides, and all or none may be right
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), 1, 2, 8, 16, dropout=0.0)
    classifier = TextClassifier(backbone, 2, TextClassifierPreprocessor(tokenizer, 12), labels=NAMES)
    classifier.save_to_preset(str(folder / "classifier"))
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 12, 8))
    lm.save_to_preset(str(folder / "lm"))
    corpus.write_jsonl(folder / "numbers.jsonl", ROWS)
    texts = [row["text"] for row in ROWS]
    named = [{"text": row["text"], "label": NAMES[row["label"]]} for row in ROWS]
    corpus.write_jsonl(folder / "names.jsonl", named)
    written = [{"text": t, "target": answer} for t, answer in zip(texts, lm.generate(texts), strict=True)]
    corpus.write_jsonl(folder / "written.jsonl", [*written, {"text": "a", "target": "none of this"}])
    predicted = classifier.predict(texts, verbose=0).argmax(-1)
    kinds = [
        {**row, "is_right": bool(row["label"] == answer)} for row, answer in zip(ROWS, predicted, strict=True)
    ]
    corpus.write_jsonl(folder / "kinds.jsonl", kinds)
    ranked = lm.rank_labels(texts, NAMES).argmax(-1)
    labels = [row["label"] for row in ROWS]
    return folder, sum(predicted == labels) / 7, sum(ranked == labels) / 7


def evaluate(folder, preset, source, *flags):
    output = folder / "out" / "scores.json"
    done = run_program(
        "convnlp.evaluate",
        f"--preset={folder}/{preset}",
        f"--source=jsonl:{folder}/{source}",
        f"--output={output}",
        "--batch_size=4",
        *flags,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text())["scores"], done.stdout


def test_a_classifier(folder):
    folder, accuracy, _ = folder
    scores, table = evaluate(folder, "classifier", "names.jsonl", "--metrics=accuracy,f1")
    assert set(scores) == {"accuracy", "f1", "num_examples"}
    assert scores["accuracy"] == pytest.approx(accuracy)
    assert scores["num_examples"] == 7
    assert f"accuracy      {accuracy:.4f}" in table


def test_text_to_text_by_exact_match(folder):
    scores, _ = evaluate(folder[0], "lm", "written.jsonl", "--target_field=target")
    assert set(scores) == {"exact_match", "num_examples", "word_f1", "squad_exact_match", "squad_f1"}
    assert scores["exact_match"] == pytest.approx(7 / 8)


def test_text_to_text_classes_by_ranking(folder):
    folder, _, ranked = folder
    scores, _ = evaluate(folder, "lm", "numbers.jsonl", f"--label_names={','.join(NAMES)}")
    assert scores["ranked_accuracy"] == pytest.approx(ranked)
    assert set(scores) == {"exact_match", "num_examples", "ranked_accuracy", "ranked_f1", "ranked_f1_macro"}


IN_ONE_PROCESS = """
import json, sys
from absl.flags import FLAGS
from absl.testing import flagsaver
from convnlp import evaluate, tasks
for task in tasks.TASKS.values():
    task.read = None  # whoever reads fails otherwise than expected
FLAGS.mark_as_parsed()
messages = []
for flags in json.load(sys.stdin):
    with flagsaver.flagsaver(**flags):
        try:
            evaluate.main([])
        except ValueError as error:
            messages.append(str(error))
print(json.dumps(messages))
"""


def test_what_cannot_be_answered_costs_nothing(folder):
    folder = folder[0]
    cases = [
        (
            {"preset": "classifier", "metrics": ["exact_match"]},
            "--metrics must be among accuracy, f1, f1_macro, loss here",
        ),
        (
            {"preset": "lm", "metrics": ["ranked_f1"], "target_field": "t"},
            "--metrics must be among exact_match, word_f1, squad_exact_match, squad_f1 here",
        ),
        (
            {"preset": "lm", "text_fields": ["a", "b", "c"], "target_field": "t"},
            "`text_fields` must be one or two fields. Received: .'a', 'b', 'c'.",
        ),
        ({"preset": "classifier", "by_field": "sort"}, ".*numbers.jsonl, line 1: no field 'sort' "),
        ({"preset": "lm", "output": f"{folder}"}, "`output` must be a file, not a directory"),
        ({"preset": "lm", "output": ""}, "`output` must not be empty"),
        (
            {"preset": "lm", "output": f"{folder}/numbers.jsonl"},
            "`output` must not overwrite the input .*numbers.jsonl",
        ),
        (
            {"preset": "lm", "output": f"{folder}/lm/scores.json"},
            "`output` must not overwrite the input .*lm",
        ),
    ]
    source = f"jsonl:{folder}/numbers.jsonl"
    flags = [{**given, "preset": f"{folder}/{given['preset']}", "source": source} for given, _ in cases]
    done = run_code(IN_ONE_PROCESS, stdin=json.dumps(flags))
    assert done.returncode == 0, done.stderr
    messages = json.loads(done.stdout.splitlines()[-1])
    for message, (_, expected) in zip(messages, cases, strict=True):
        assert re.match(expected, message), message


def test_a_row_without_label_is_one_line(folder):
    path = corpus.write_jsonl(folder[0] / "verdicts.jsonl", [{"text": "A lost day.", "verdict": "bad"}])
    flags = [f"--preset={folder[0]}/classifier", f"--source=jsonl:{path}"]
    done = run_program("convnlp.evaluate", *flags)
    assert done.returncode == 1
    assert "verdicts.jsonl, line 1: no field 'label'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_group_of_right_answers_and_one_of_wrong_ones(folder):
    folder, accuracy, _ = folder
    assert 0 < accuracy < 1
    whole, printed = evaluate(
        folder, "classifier", "kinds.jsonl", "--by_field=is_right", "--metrics=accuracy"
    )
    assert whole == {"accuracy": pytest.approx(accuracy), "num_examples": 7}
    report = json.loads((folder / "out" / "scores.json").read_text())
    count = round(7 * accuracy)
    assert report["by_field"] == "is_right"
    assert report["groups"] == {
        "False": {"accuracy": 0, "num_examples": 7 - count},
        "True": {"accuracy": 1, "num_examples": count},
    }
    assert [line.split() for line in printed.splitlines()] == [
        ["examples", "accuracy"],
        ["False", str(7 - count), "0.0000"],
        ["True", str(count), "1.0000"],
        ["all", "7", f"{accuracy:.4f}"],
    ]


def test_a_group_without_scores_does_not_hide_the_others(folder):
    folder = folder[0]
    backbone = Seq2SeqBackbone(200, 1, 2, 8, 16, num_decoder_layers=0)
    lm = PrefixLM(backbone, PrefixLMPreprocessor(Tokenizer(corpus.tiny_proto()), 12))
    lm.save_to_preset(str(folder / "prefix_lm"))
    rows = [
        {"text": "", "sort": "empty"},
        {"text": "the river", "sort": "full"},
        {"text": "", "sort": "full"},
    ]
    corpus.write_jsonl(folder / "sorts.jsonl", rows)
    whole, printed = evaluate(folder, "prefix_lm", "sorts.jsonl", "--by_field=sort")
    groups = json.loads((folder / "out" / "scores.json").read_text())["groups"]
    assert groups["empty"] == {"num_examples": 1}
    assert {*groups["full"]} == {"loss", "perplexity", "token_accuracy", "num_examples"}
    assert whole == {"num_examples": 2}
    head, empty, full, _ = (line.split() for line in printed.splitlines())
    assert (head, empty) == (["examples", "loss", "perplexity", "token_accuracy"], ["empty", "1"])
    assert len(full) == 5


@pytest.mark.slow
def test_each_value_of_a_field_is_scored_apart(folder):
    folder = folder[0]
    labels = [2, 1, 2, 2, 1, 2, 1]
    rows = [{**row, "kind": kind} for row, kind in zip(ROWS, labels, strict=True)]
    corpus.write_jsonl(folder / "kinds.jsonl", rows)
    whole, _ = evaluate(folder, "classifier", "numbers.jsonl")
    report, printed = evaluate(folder, "classifier", "kinds.jsonl", "--by_field=kind")
    assert report == {"accuracy": pytest.approx(whole["accuracy"]), "num_examples": 7}
    groups = json.loads((folder / "out" / "scores.json").read_text())["groups"]
    assert [*groups] == ["1", "2"]
    for kind in groups:
        of_kind = [row for row in rows if str(row["kind"]) == kind]
        corpus.write_jsonl(folder / "one_kind.jsonl", of_kind)
        alone, _ = evaluate(folder, "classifier", "one_kind.jsonl")
        assert groups[kind] == pytest.approx(alone)
    assert printed.splitlines()[0].split()[:2] == ["examples", "accuracy"]
    assert printed.splitlines()[1].split()[:2] == ["1", "3"]
    assert (
        "no field 'sort'"
        in run_program(
            "convnlp.evaluate",
            f"--preset={folder}/classifier",
            f"--source=jsonl:{folder}/kinds.jsonl",
            "--by_field=sort",
        ).stderr
    )
    assert printed.splitlines()[-1].split() == ["all", "7", f"{whole['accuracy']:.4f}"]
