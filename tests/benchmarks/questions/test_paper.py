"""The program; its parts are tested beside this file."""

import argparse

import pytest

from benchmarks import paper
from tests.benchmarks.questions.test_table import FOLDERS
from tests.documentation import ROOT


def checked(**given):
    defaults = {"questions": ["rq1"], "tokens": ["10e6"], "seeds": ["1", "2"], "docs_dir": ROOT / "docs"}
    chosen = {"tasks": [], "mixers": [], "kinds": ["finetune"]}
    return paper.checked(argparse.Namespace(**{**defaults, **chosen, **given}))


def test_flags_are_read():
    assert checked() == ((10e6,), (1, 2), ("rq1",))
    assert checked(tokens=["10e6", "3e7"])[0] == (10e6, 30e6)
    checked(questions=["rq1", "lra"], tasks=["sst2", "imdb, 1,024 bytes"], mixers=[paper.table.BASELINE])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"questions": ["rq9"]}, r"`--questions` must be among rq1, .*Received: 'rq9'"),
        ({"tasks": ["snli"]}, r"`--tasks` must be among trec6, .*Received: 'snli'"),
        ({"mixers": ["muse"]}, r"`--mixers` must be among dynamic_conv, .*Received: 'muse'"),
        ({"kinds": ["finetune", "speed"]}, r"`--kinds` must be among measure, .*Received: 'speed'"),
        ({"kinds": []}, r"`--kinds` must be among measure, .*Received: ''"),
        (
            {"tasks": ["sst2"], "kinds": ["measure"]},
            r"must not be given with --kinds=measure, .*--tasks=sst2 ",
        ),
        ({"tokens": ["many"]}, r"`--tokens` must be numbers of 1 or more. Received: 'many'"),
        ({"tokens": []}, r"`--tokens` must be numbers of 1 or more. Received: ''"),
        ({"docs_dir": "nowhere"}, r"`--docs_dir` must lead to a page .* Received: nowhere/paper.md"),
        ({"seeds": ["-1"]}, r"`--seeds` must be numbers of 0 or more. Received: '-1'"),
        ({"seeds": ["1", "1"]}, r"`--seeds` must be different numbers. Received: '1,1'"),
    ],
)
def test_bad_flags_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        checked(**given)


def test_speeds_are_measured_length_by_length_and_failures_named(tmp_path, monkeypatch):
    asked = []

    def compute(plan, workdir, name):
        asked.append((plan.data.length, workdir, name))
        return plan.data.length != 512

    monkeypatch.setattr(paper.speeds, "compute", compute)
    assert paper.measure(tmp_path, FOLDERS) == ["rq3, speeds, 512 tokens", "rq3, operators, 512 tokens"]
    assert asked == [
        (length, tmp_path, f"{name}-{length}")
        for name in ("speeds", "operators")
        for length in paper.table.SPEED_LENGTHS
    ]


def test_all_questions_are_asked_with_a_seed_before_the_next():
    found = [(text, plan.seeds) for text, plan in paper.work(("rq4", "lra"), (10e6,), (1, 2), FOLDERS)]
    half = len(found) // 2
    assert half == len(paper.table.PAIRS) + 2
    assert [seeds for _, seeds in found] == [(1,)] * half + [(1, 2)] * half
    assert found[half - 1][0] == "lra, 16,000,000 tokens, imdb, 4,096 bytes, seed 1"
    assert found[-1][0].endswith("seed 2")


def test_tasks_and_mixers_restrict_what_is_computed():
    whole = dict(paper.work(("rq1", "rq4"), (10e6,), (1,), FOLDERS))
    found = dict(paper.work(("rq1", "rq4"), (10e6,), (1,), FOLDERS, ["sst2", "snli"], ["dilated_conv"]))
    (text,) = found  # RQ4, which has the other task, does not have this mixer
    assert text == "rq1, 10,000,000 tokens, sst2, seed 1"
    assert found[text].mixers == ("dilated_conv",)
    assert found[text].cells("dilated_conv") == whole[text].cells("dilated_conv")


def test_it_ships_with_its_tokenizer():
    path = paper.table.TOKENIZER.replace("{presets_dir}", str(paper.PRESETS))
    assert paper.pathlib.Path(path).is_file()
