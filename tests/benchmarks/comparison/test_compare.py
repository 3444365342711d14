"""The program as a user runs it; its parts are tested beside this file."""

import argparse
import json

import pytest

from benchmarks import compare
from benchmarks.comparison import cells, configs
from convnlp.data import SourceError
from convnlp.runs import components
from tests import corpus
from tests.run_program import run_program


def arguments(**given):
    """Flags with their values."""
    defaults = {
        "mixers": [],
        "seeds": ["0"],
        "tasks": [],
        "data_dir": "DATA",
        "source": "jsonl:train.jsonl",
        "split": "train",
        "validation_split": "train",
        "test_source": "",
        "test_split": "test",
        "label_names": ["a", "b"],
        "text_field": "text",
        "label_field": "label",
        "second_text_field": "",
        "length": None,
        "size": "tiny",
        "batch_size": 8,
        "budget": "steps",
        "amount": 10.0,
        "pretrain_source": "",
        "pretrain_budget": None,
        "pretrain_amount": 20.0,
        "pretrain_trial_amount": None,
        "pretrain_length": 24,
        "learning_rates": ["1e-3"],
        "pretrain_learning_rates": ["1e-3", "2e-3"],
    }
    return argparse.Namespace(**{**defaults, **given})


def plan_of(**given):
    """The only plan."""
    (found,) = compare.plans_of(arguments(**given), "spm.model").values()
    return found


def test_a_plan_from_flags():
    plan = plan_of(mixers=["dynamic_conv+self_attention", "c_c_t_t"])
    assert plan.data.test_source == "jsonl:train.jsonl"
    assert plan.data.length == 64
    assert plan.starts == ("scratch",)
    assert len(plan_of().mixers) >= 15
    assert plan_of(seeds=["3", "7"]).seeds == (3, 7)


def test_several_tasks_have_a_plan_each_and_one_pretraining():
    given = {"source": "", "tasks": ["trec6", "snli:1000"], "pretrain_source": "raw", "mixers": ["fourier"]}
    plans = compare.plans_of(arguments(**given), "spm.model")
    assert list(plans) == ["trec6", "snli:1000"]
    assert [plan.data.length for plan in plans.values()] == [32, 48]
    assert {plan.longest for plan in plans.values()} == {48}
    assert plans["trec6"].path(plans["trec6"].data.source).startswith("jsonl:DATA/classification/trec6.")
    pretraining = plans["trec6"].pretraining
    assert (pretraining.budget, pretraining.amount, pretraining.trial_amount) == ("steps", 20, 4)
    shared = [
        {cell.name for cell in plan.cells("fourier") if "pretrain" in cell.kind} for plan in plans.values()
    ]
    assert shared[0] == shared[1]
    assert len(shared[0]) == 3
    given |= {"length": 40, "pretrain_budget": "tokens", "pretrain_trial_amount": 3.0}
    plan = compare.plans_of(arguments(**given), "spm.model")["trec6"]
    assert (plan.data.length, plan.pretraining.budget, plan.pretraining.trial_amount) == (40, "tokens", 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mixers": ["dynamic"]}, r"--mixers must be among .*muse.*Received: 'dynamic'"),
        ({"mixers": ["muse+lstm"]}, r"--mixers must be among .*Received: 'lstm'"),
        (
            {"mixers": ["synthesizer:mode=dense"]},
            r"`mixer_options.mode` must be an option of the mixer: synthesizer has .*modes.*mode='dense'",
        ),
        ({"mixers": ["spatial_gating:toeplitz=4"]}, r"`mixer_options.toeplitz` must be true or false.*4"),
        (
            {"mixers": ["muse+fourier:mb_conv.expansion=4"]},
            r"`mixer_options.mb_conv` must be .*muse, fourier",
        ),
        ({"mixers": ["muse:dropout"]}, r"--mixers must have options as NAME:OPTION=VALUE.*'muse:dropout'"),
        (
            {"mixers": ["synthesizer:rank=4:modes=dense", "synthesizer:modes=dense:rank=4"]},
            r"--mixers must name each row once. Received: 'synthesizer:modes=dense:rank=4' 2 times",
        ),
        (
            {"mixers": ["muse:model.dropout=0"]},
            r"--mixers must set fields of model.kernel_size.*'muse:model.dropout=0'",
        ),
        ({"tasks": ["trec6"]}, r"either --tasks or --source .*Received: --tasks='trec6', --source='jsonl"),
        ({"source": ""}, r"either --tasks or --source"),
        ({"learning_rates": ["fast"]}, r"`--learning_rates` must be numbers. Received: 'fast'"),
    ],
)
def test_bad_flags_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        plan_of(**given)


@pytest.mark.parametrize("kinds", [["finetune", "speed"], []])
def test_a_kind_that_is_none_is_refused_before_the_data_are_looked_for(kinds):
    last = kinds[-1] if kinds else ""
    with pytest.raises(ValueError, match=rf"^`--kinds` must be among measure, .*\. Received: '{last}'$"):
        compare.checked_plans(arguments(kinds=kinds, tokenizer="nowhere"))


def test_a_missing_tokenizer_is_refused():
    with pytest.raises(ValueError, match=r"`--tokenizer` must be an existing file\. Received: 'nowhere'"):
        compare.tokenizer_of(arguments(tokenizer="nowhere"))


def test_a_finished_comparison_needs_no_data(tmp_path):
    given = arguments(
        mixers=["fourier"],
        pretrain_source="jsonl:nowhere",
        tokenizer="",
        vocabulary_size=100,
        workdir=tmp_path,
        docs_page=None,
        kinds=cells.KINDS,
    )
    with pytest.raises(SourceError):
        compare.checked_plans(given)
    path = tmp_path / compare.tokenizer_of(given)
    path.parent.mkdir(parents=True)
    path.touch()
    compare.train_tokenizer(given)  # which is done
    (plan,) = compare.plans_of(given, str(path)).values()
    for cell in plan.cells("fourier"):
        cell.directory(tmp_path).mkdir()
        (cell.directory(tmp_path) / "result.json").write_text("{}")
    assert compare.checked_plans(given) == {"": plan}


ROWS = [
    "lightweight_conv",
    "lightweight_conv:num_heads=2",
    "synthesizer:modes=dense+attention:rank=4",
    "c_c_t_t:mb_conv.expansion=2",
    "dynamic_conv:kernel_size=5:model.dilation_rate=1+4:model.kernel_size=3+9:model.residual_form=post:task.pooling=pair",
]


def test_variants_are_rows_whose_models_have_their_options():
    comparison = plan_of(mixers=ROWS, pretrain_source="raw")
    assert list(comparison.mixers) == ROWS
    options = []
    for row in comparison.mixers:
        tuned = configs.finetune_config(comparison, row, comparison.data, 1e-3)
        for config in (configs.pretrain_config(comparison, row, 1e-3), tuned):
            components.check_mixer_options(config)
            options.append(config.model.to_dict()["mixer_options"])
            assert config.model.mixer == row.partition(":")[0]
        again = configs.finetune_config(comparison, row, comparison.data, 1e-3, preset="PRESET")
        components.check_mixer_options(again)  # which the preset has
    modes = {"modes": ["dense", "attention"], "rank": 4}
    expected = [{}, {"num_heads": 2}, modes, {"mb_conv": {"expansion": 2}}, {"kernel_size": 5}]
    assert options[::2] == options[1::2] == expected
    assert (tuned.model.kernel_size, tuned.model.dilation_rate) == ((3, 9), (1, 4))
    assert (tuned.model.residual_form, tuned.task.pooling) == ("post", "pair")
    config = configs.finetune_config(comparison, ROWS[2], comparison.data, 1e-3)
    mixer = components.backbone(config, 50, "float32").encoder.layers[0]
    assert (mixer.mixer.modes, mixer.mixer.rank) == (["dense", "attention"], 4)


@pytest.mark.parametrize(("text", "sizes"), [("[]", []), ("[3]", [3]), ("3+15", [3, 15])])
def test_a_list_of_any_length_stays_one(text, sizes):
    """Without convolutions, muse is MUSE-simple."""
    row = f"muse:kernel_sizes={text}"
    comparison = plan_of(mixers=[row])
    assert comparison.mixers == (row,)
    config = configs.finetune_config(comparison, row, comparison.data, 1e-3)
    assert config.model.mixer_options.kernel_sizes == sizes


@pytest.mark.slow
@pytest.mark.multiprocess
def test_a_comparison_is_computed_once_and_continued(tmp_path):
    """A mixer that can decode, one that cannot, and a budget in operations."""
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    corpus.write_jsonl(tmp_path / "reviews.jsonl", corpus.reviews(80))
    corpus.write_jsonl(tmp_path / "texts.jsonl", [{"text": text} for text in corpus.documents(200)])
    workdir = tmp_path / "compare"

    def run(*options):
        done = run_program(
            "benchmarks.compare",
            f"--workdir={workdir}",
            f"--source=jsonl:{tmp_path}/reviews.jsonl",
            "--split=train[40%:]",
            "--validation_split=train[:20%]",
            "--test_split=train[20%:40%]",
            f"--tokenizer={tmp_path}/spm.model",
            "--size=tiny",
            "--length=24",
            "--batch_size=8",
            "--budget=flops",
            "--amount=1.3e10",
            "--pretrain_budget=tokens",
            "--pretrain_amount=9600",
            "--pretrain_trial_amount=1920",
            "--pretrain_length=24",
            "--pretrain_learning_rates=1e-3,1e10",
            "--threads=1",
            *options,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-2000:]
        times = {path.parent.name: path.stat().st_mtime_ns for path in workdir.glob("cells/*/result.json")}
        return done.stdout, times, json.loads((workdir / "comparison.json").read_text())

    raw, rate = f"--pretrain_source=jsonl:{tmp_path}/texts.jsonl", "--learning_rates=1e-3"
    printed, first, result = run("--mixers=lightweight_conv", raw, rate, "--seeds=0")
    assert len(first) == 6
    assert "| lightweight_conv |" in printed
    (row,) = result["rows"]
    assert set(row["starts"]) == {"scratch", "pretrained"}
    for start in row["starts"].values():
        assert 0 <= start["mean"] <= 1
        assert start["cpu_seconds"] > 0
        assert sum(group["num_texts"] for group in start["by_length"]) == 16
    assert row["memory_bytes"] > 0
    assert row["train_tokens_per_second"] > 0
    assert row["pretraining"]["curve"][-1][1] < row["pretraining"]["curve"][0][1]
    assert row["pretraining"]["learning_rate"] == 1e-3  # the other rate diverges
    assert (row["pretraining"]["steps"], row["pretraining"]["tokens"]) == (50, 9600)
    assert (workdir / "comparison.html").read_text().count("<svg") == 3
    assert not list(workdir.glob("cells/*/checkpoints"))

    # Of what is there nothing is computed again.
    printed, second, result = run("--mixers=lightweight_conv", raw, rate, "--seeds=0,1")
    assert "lightweight_conv: 6 of 8 cells are done" in printed
    assert len(second) == 8
    assert {name: second[name] for name in first} == first
    assert result["rows"][0]["gain"]["num_seeds"] == 2

    # Equal operations: the cheaper mixer takes more steps.
    printed, third, result = run("--mixers=lightweight_conv,external_attention", rate, "--seeds=0")
    assert "lightweight_conv: 2 of 2 cells are done" in printed
    assert len(third) == 8 + 2
    for row in result["rows"]:
        taken = row["starts"]["scratch"]["steps"]
        assert taken == max(1, int(1.3e10 / (6 * row["multiply_adds"] * 8) / 10)) * 10

    # A rate is chosen on validation data, and no test data are read for it.
    rates = "--learning_rates=1e-9,1e-3"
    printed, _, result = run("--mixers=lightweight_conv", rates, "--seeds=0")
    assert "lightweight_conv: 1 of 4 cells are done" in printed
    trials = [json.loads(path.read_text()) for path in workdir.glob("cells/finetune_trial-*/result.json")]
    assert sorted(trial["learning_rate"] for trial in trials) == [1e-9, 1e-3]
    assert all("accuracy" not in trial for trial in trials)
    best = max(trials, key=lambda trial: trial["score"])
    assert result["rows"][0]["starts"]["scratch"]["learning_rate"] == best["learning_rate"]
