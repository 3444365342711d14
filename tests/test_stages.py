"""Stages of pretrain and finetune: what a config says of them, what each of them reads, and runs with two."""

import json
import os
import re
import signal

import numpy as np
import pytest

from convnlp import finetune, pretrain
from convnlp.configs import finetune_classification, pretrain_mini
from convnlp.finetuning import steps
from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, TextClassifier
from convnlp.runs import config_rules, experiment, stages
from convnlp.training import metrics, stopping
from tests import corpus
from tests.test_experiment import config_of, config_of_flags

TWO = {
    "train.stage_steps": (6, 2),
    "train.stage_batch_sizes": (8, 4),
    "train.stage_input_lengths": (8, 16),
    "train.num_steps": 8,
    "data.input_length": 16,
    "data.target_length": 8,
    "train.num_samples": 0,
}
OTHERS = {"train.accumulate_steps": 2, "optimizer.ema_momentum": 0.9, "optimizer.layer_decay": 0.8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tokenizer, and a source for both programs."""
    folder = tmp_path_factory.mktemp("stages")
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    corpus.write_jsonl(folder / "reviews.jsonl", corpus.reviews(200))
    return folder


def pretraining(folder, mixer="lightweight_conv", **fields):
    return config_of(pretrain_mini.get_config(mixer), folder, **{**TWO, **fields})


def test_without_stages_there_is_one(folder):
    config = config_of(pretrain_mini.get_config("lightweight_conv"), folder, seed=3)
    assert stages.of(config) == (stages.Stage(0, 8, 4, 16, 3),)
    assert (stages.examples_until(config, 6), stages.tokens_until(config, 6)) == (24, 24 * 16)


def test_stages_of_a_config(folder):
    config = pretraining(folder, seed=3)
    first, second = stages.of(config)
    assert first == stages.Stage(0, 6, 8, 8, 3)
    assert second[:4] == (6, 2, 4, 16)
    assert second.seed not in (3, stages.of(pretraining(folder, seed=4))[1].seed)
    assert [stages.examples_until(config, step) for step in (0, 6, 8)] == [0, 48, 56]
    assert stages.tokens_until(config, 7) == 6 * 8 * 8 + 4 * 16
    own = stages.config_of(config, first)
    assert (own.data.input_length, config.data.input_length) == (8, 16)


def test_stages_are_flags():
    config = config_of_flags(
        "dynamic_conv",
        "--config.train.stage_steps=(8000,2000)",
        "--config.train.stage_input_lengths=(64,128)",
        "--config.train.stage_batch_sizes=64,32",
        "--config.train.num_steps=10000",
        "--config.objective.options.masked_lm.noise_density=0.2",
    )
    config_rules.check(config)
    first, second = stages.of(config)
    assert (first[:4], second[:4]) == ((0, 8000, 64, 64), (8000, 2000, 32, 128))
    assert stages.config_of(config, first).objective.options.masked_lm.noise_density == 0.2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"train.stage_steps": (5, 3)}, "`train.stage_steps` must be multiples of `train.steps_per_call`"),
        (
            {"train.stage_steps": (6, 4)},
            r"must sum to `train.num_steps`. Received: .*\(6, 4\), which sum to 10",
        ),
        ({"train.stage_steps": (6, 0)}, "`train.stage_steps` must be empty, or a sequence whose every entry"),
        ({"train.stage_steps": (8,)}, "`train.stage_batch_sizes` must be empty or have one entry per stage"),
        (
            {"train.stage_steps": (), "train.stage_batch_sizes": ()},
            "`train.stage_input_lengths` must be empty or",
        ),
        ({"train.stage_input_lengths": (8, 12)}, "must have data.input_length as its maximum.*=16"),
        ({"train.stage_input_lengths": (1, 16)}, "`train.stage_input_lengths` must be .* an integer >= 2"),
        ({"task.num_epochs": 1.0}, "`train.stage_steps` must be empty if task.num_epochs"),
        (
            {"objective.options": {"masked_lm": {"input_length": 8}}},
            r"must be empty if an objective .*objective.options.masked_lm.input_length=8",
        ),
    ],
)
def test_stages_that_do_not_fit(folder, fields, message):
    config = pretraining(folder)
    options = fields.pop("objective.options", {})
    config.update_from_flattened_dict(fields)
    config.objective.options.update(options)
    with pytest.raises(ValueError, match=message) as caught:
        config_rules.check(config)
    assert "\n" not in str(caught.value)
    assert re.search(r"Received: (train|task)", str(caught.value))


class Two:
    """All that `_check_config` asks of a strategy of two replicas."""

    num_replicas_in_sync = 2


def test_batches_of_a_stage_are_for_all_replicas(folder, tmp_path):
    config = pretraining(folder, **{"train.stage_batch_sizes": (8, 3)})
    with pytest.raises(
        ValueError, match=r"`train.stage_batch_sizes` must be a multiple of .* Received: .*=3, 2"
    ):
        experiment._check_config(config, str(tmp_path), "mirrored", Two(), (), False, True)


def test_parts_divide_the_batch_of_each_replica(folder, tmp_path):
    config = pretraining(folder, **{"train.accumulate_steps": 4})
    with pytest.raises(
        ValueError,
        match=r"`train.stage_batch_sizes` must be a multiple of train.accumulate_steps for each replica. "
        r"Received: train.stage_batch_sizes=4, 2 replicas, train.accumulate_steps=4",
    ):
        experiment._check_config(config, str(tmp_path), "mirrored", Two(), (), False, True)


def rows(workdir, name="loss"):
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if name in row]


def run(program, config, workdir):
    program.run(config, str(workdir), experiment.prepare(config, str(workdir)))


@pytest.mark.slow
def test_a_stopped_run_with_all_extras_is_the_run_left_alone(folder, tmp_path, monkeypatch):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run(pretrain, pretraining(folder, **OTHERS), whole)
    assert [row["tokens"] for row in rows(whole)] == [
        # Span corruption's input, its target, and the masked rows.
        *(count * 2 * 8 * (8 + 3 + 8) for count in (1, 2, 3)),
        3 * 2 * 8 * (8 + 3 + 8) + 2 * 4 * (16 + 5 + 16),
    ]
    card = (whole / "preset" / "README.md").read_text()
    assert "56" in card

    write = metrics.Metrics.write
    for step in (4, 6):

        def write_and_stop(self, at, values, *args, step=step):
            write(self, at, values, *args)
            if at == step and "loss" in values:
                os.kill(os.getpid(), signal.SIGTERM)

        with monkeypatch.context() as patch:
            patch.setattr(metrics.Metrics, "write", write_and_stop)
            with pytest.raises(stopping.StoppedError):
                run(pretrain, pretraining(folder, **OTHERS), stopped)
        experiment.finish(str(stopped))
    run(pretrain, pretraining(folder, **OTHERS), stopped)
    assert (whole / "metrics.jsonl").read_bytes() == (stopped / "metrics.jsonl").read_bytes()
    ids = np.array([[5, 6, 7, 1]])
    outputs = [Seq2SeqLM.from_preset(f"{each}/preset").backbone.encode(ids) for each in (whole, stopped)]
    np.testing.assert_array_equal(*outputs)


def test_weights_for_each_position_are_those_of_the_longest_stage(folder, tmp_path):
    config = pretraining(folder, "mlp_mixer", **{"train.stage_input_lengths": (16, 8)})
    run(pretrain, config, tmp_path)
    backbone = Seq2SeqBackbone.from_preset(str(tmp_path / "preset"))
    assert backbone.max_sequence_length == 16


@pytest.mark.slow
def test_fine_tuning_has_stages_too(folder, tmp_path):
    # The classifier's backbone is a copy without the decoder: its layers are asked for their depth.
    fields = {**TWO, **OTHERS, "task.num_epochs": 0.0, "model.num_decoder_layers": 1}
    config = config_of(finetune_classification.get_config(), folder, **fields)
    config.data.update({"split": "train[20%:]", "validation_split": "train[:20%]"})
    open_fields = steps.open_fields(config)
    strategy = experiment.prepare(config, str(tmp_path), open_fields=open_fields)
    finetune.run(config, str(tmp_path), strategy)
    tokens = [row["tokens"] for row in rows(tmp_path)]
    assert tokens[:3] == [count * 2 * 8 * 8 for count in (1, 2, 3)]  # every review is longer than 8 tokens
    assert 0.5 * 2 * 4 * 16 < tokens[3] - tokens[2] <= 2 * 4 * 16
    assert TextClassifier.from_preset(str(tmp_path / "preset")).preprocessor.sequence_length == 16
