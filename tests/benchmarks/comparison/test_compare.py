"""The program as a user runs it; its parts are tested beside this file."""

import argparse
import json

import pytest

from benchmarks import compare
from benchmarks.comparison import worker
from convnlp import experiment
from tests import corpus
from tests.run_program import run_program


def arguments(**given):
    """Flags with their values."""
    defaults = {
        "mixers": [],
        "seeds": 1,
        "task": "",
        "data_dir": "DATA",
        "source": "jsonl:train.jsonl",
        "split": "train",
        "validation_split": "train",
        "test_source": "",
        "test_split": "test",
        "label_names": ["a", "b"],
        "text_field": "text",
        "label_field": "label",
        "length": None,
        "size": "tiny",
        "batch_size": 8,
        "budget": "steps",
        "amount": 10.0,
        "pretrain_source": "",
        "pretrain_amount": 20.0,
        "learning_rate": 1e-3,
        "pretrain_learning_rate": 1e-3,
    }
    return argparse.Namespace(**{**defaults, **given})


def test_a_plan_from_flags():
    plan = compare.plan_of(arguments(mixers=["dynamic_conv+self_attention", "c_c_t_t"]), "spm.model")
    assert plan.data.test_source == "jsonl:train.jsonl"
    assert plan.data.length == 64
    assert plan.starts == ("scratch",)
    assert len(compare.plan_of(arguments(), "spm.model").mixers) >= 15
    task = compare.plan_of(arguments(source="", task="trec6", length=48), "spm.model").data
    assert (task.length, len(task.label_names)) == (48, 6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mixers": ["dynamic"]}, r"--mixers must be of .*muse.*Received: 'dynamic'"),
        ({"mixers": ["muse+lstm"]}, r"--mixers must be of .*Received: 'lstm'"),
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
        ({"task": "trec6"}, r"either --task or --source .*Received: --task='trec6', --source='jsonl"),
        ({"source": ""}, r"either --task or --source"),
    ],
)
def test_bad_flags_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        compare.plan_of(arguments(**given), "spm.model")


ROWS = [
    "lightweight_conv",
    "lightweight_conv:num_heads=2",
    "synthesizer:modes=dense+attention:rank=4",
    "c_c_t_t:mb_conv.expansion=2",
]


def test_variants_are_rows_whose_models_have_their_options():
    comparison = compare.plan_of(arguments(mixers=ROWS), "spm.model")
    assert list(comparison.mixers) == ROWS
    options = []
    for row in comparison.mixers:
        for config in (worker.pretrain_config(comparison, row), worker.finetune_config(comparison, row)):
            experiment.check_mixer_options(config)
            options.append(config.model.to_dict()["mixer_options"])
            assert config.model.mixer == row.partition(":")[0]
        tuned = worker.finetune_config(comparison, row, preset="PRESET")
        experiment.check_mixer_options(tuned)  # which the preset has
    modes = {"modes": ["dense", "attention"], "rank": 4}
    assert options[::2] == options[1::2] == [{}, {"num_heads": 2}, modes, {"mb_conv": {"expansion": 2}}]
    mixer = experiment.backbone(worker.finetune_config(comparison, ROWS[2]), 50, "float32").encoder.layers[0]
    assert (mixer.mixer.modes, mixer.mixer.rank) == (["dense", "attention"], 4)


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
            "--mixers=lightweight_conv,external_attention",
            f"--source=jsonl:{tmp_path}/reviews.jsonl",
            "--split=train[40%:]",
            "--validation_split=train[:20%]",
            "--test_split=train[20%:40%]",
            f"--tokenizer={tmp_path}/spm.model",
            f"--pretrain_source=jsonl:{tmp_path}/texts.jsonl",
            "--size=tiny",
            "--length=24",
            "--batch_size=8",
            "--budget=flops",
            "--amount=1.3e10",
            "--pretrain_amount=6e10",
            "--threads=1",
            *options,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-2000:]
        times = {path.parent.name: path.stat().st_mtime_ns for path in workdir.glob("cells/*/result.json")}
        return done.stdout, times, json.loads((workdir / "comparison.json").read_text())

    printed, first, result = run("--seeds=1")
    assert len(first) == 2 * 4
    assert "| lightweight_conv |" in printed
    for row in result["rows"]:
        assert set(row["starts"]) == {"scratch", "pretrained"}
        for start in row["starts"].values():
            assert 0 <= start["mean"] <= 1
            assert sum(group["num_texts"] for group in start["by_length"]) == 16
        assert row["memory_bytes"] > 0
        assert row["train_tokens_per_second"] > 0
        assert row["pretraining"]["curve"][-1][1] < row["pretraining"]["curve"][0][1]
    # Equal operations: the cheaper mixer takes more steps.
    steps = {row["mixer"]: row["starts"]["scratch"]["steps"] for row in result["rows"]}
    costs = {row["mixer"]: row["multiply_adds"] for row in result["rows"]}
    for mixer, taken in steps.items():
        assert taken == max(1, int(1.3e10 / (6 * costs[mixer] * 8) / 10)) * 10
    assert (workdir / "comparison.html").read_text().count("<svg") == 3
    assert not list(workdir.glob("cells/*/checkpoints"))

    printed, second, result = run("--seeds=2")
    assert "lightweight_conv: 4 of 6 cells are there" in printed
    assert len(second) == 2 * 6
    assert {name: second[name] for name in first} == first
    assert result["rows"][0]["gain"]["num_seeds"] == 2

    printed, third, _ = run("--seeds=2")
    assert "external_attention: 6 of 6 cells are there" in printed
    assert third == second
