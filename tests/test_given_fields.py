"""Fields that a command gives in vain are refused, or named where they do no harm."""

import dataclasses
import doctest

import pytest

from convnlp.configs import (
    finetune_classification,
    finetune_cogs,
    finetune_squad,
    finetune_text_to_text,
    pretrain_encoder,
)
from convnlp.runs import given_fields
from convnlp.tasks import TASKS, Classification, option
from tests import corpus
from tests.run_program import run_program


def test_examples():
    done = doctest.testmod(given_fields)
    assert done.attempted
    assert not done.failed


@pytest.mark.parametrize("name", ["model.size", "model.mixer", "model.mixer_options.bias_initializer"])
def test_a_preset_has_its_own_model(name):
    config = finetune_classification.get_config()
    with pytest.raises(
        ValueError, match=f"`{name}` must not be given when `init_from` .*dynamic_conv_mini_en"
    ):
        given_fields.check_model(config, {"seed": 1, name: "large"})
    config.init_from = ""
    given_fields.check_model(config, {name: "large"})


def test_a_preset_takes_another_dropout_and_a_decoder(tmp_path):
    config = finetune_classification.get_config()
    (tmp_path / "config.json").write_text('{"config": {"num_decoder_layers": 0}}')
    config.init_from = str(tmp_path)
    taken = {"model.dropout": 0.2, "model.num_decoder_layers": 2, "model.decoder_kernel_size": (7,)}
    given_fields.check_model(config, taken)


@pytest.mark.parametrize("name", ["train.num_steps", "train.eval_every", "train.checkpoint_every"])
def test_epochs_determine_the_steps(name):
    config = finetune_classification.get_config()
    for epochs in (None, 2.0):
        config.task.num_epochs = epochs
        with pytest.raises(ValueError, match=f"`{name}` must not be given unless .*num_epochs={epochs}"):
            given_fields.check_counts(config, {name: 100})
        given_fields.check_counts(config, {"train.batch_size": 8})
    given_fields.check_counts(finetune_cogs.get_config(), {name: 100})  # its length is in steps


def test_a_preset_with_a_decoder_keeps_it():
    config = finetune_text_to_text.get_config()
    with pytest.raises(ValueError, match=r"`model.decoder_mixer` must not be given .* has its own decoder;"):
        given_fields.check_model(config, {"model.dropout": 0.2, "model.decoder_mixer": "self_attention"})


def test_a_split_to_test_on_needs_a_source():
    config = finetune_classification.get_config()
    with pytest.raises(ValueError, match=r"^`data.test_split` must be given with `data.test_source`"):
        given_fields.check_test_split(config, {"data.test_split": "test"})
    config.data.test_source = "tfds:trec"
    given_fields.check_test_split(config, {"data.test_split": "test"})


SHARED = ("objective.noise_density", "objective.mean_span_length")
PRETRAINING = ("objective.noise_density", "train.num_samples", "data.shuffle_buffer")


@pytest.mark.parametrize(
    ("config", "program", "read", "unread"),
    [
        (
            pretrain_encoder.get_config("lightweight_conv"),
            "pretrain",
            (*PRETRAINING, "task.text_field", "model.kernel_size", "objective.options.masked_lm.weight"),
            ("data.test_source", "data.test_split", "task.label_field"),
        ),
        (
            finetune_classification.get_config(),
            "finetune",
            (
                "task.pooling",
                "task.label_threshold",
                "task.options.r_drop",
                "optimizer.beta_2",
                "model.dropout",
            ),
            (*PRETRAINING, "task.input_field", "data.target_length", "optimizer.decay_steps"),
        ),
        (
            finetune_squad.get_config(),
            "finetune",
            ("task.question_field", "task.num_epochs"),
            ("task.pooling", "task.second_text_field"),
        ),
        (
            finetune_text_to_text.get_config(),
            "finetune",
            ("data.target_length", "task.pack"),
            ("task.text_field",),
        ),
    ],
)
def test_what_a_program_does_not_read_is_named(config, program, read, unread):
    fields = dict.fromkeys((*unread, *read))
    assert given_fields.without_effect(config, fields, program) == [*unread]


def test_a_run_that_begins_with_pre_training_reads_its_fields():
    config = finetune_classification.get_config()
    config.task.unlabelled_source = "csv:more.csv"
    assert given_fields.without_effect(config, dict.fromkeys(PRETRAINING), "finetune") == []


@pytest.mark.parametrize(
    ("names", "unread"),
    [
        (("span_corruption", "masked_lm"), ()),
        (("masked_lm", "unilm"), ("objective.mean_span_length",)),
        (("prefix_lm",), SHARED),
        (("mine",), ()),  # which is not registered, as a later message says
    ],
)
def test_what_no_objective_takes(names, unread):
    config = pretrain_encoder.get_config()
    config.objective.names = names
    fields = dict.fromkeys((*SHARED, "objective.names", "objective.options.masked_lm.weight"))
    assert given_fields.without_effect(config, fields, "pretrain") == [*unread]


def test_what_no_mixer_of_a_layout_takes():
    config = pretrain_encoder.get_config("self_attention")
    fields = dict.fromkeys(("model.kernel_size", "model.dilation_rate", "model.weight_softmax"))
    assert given_fields.without_effect(config, fields, "pretrain") == [*fields]
    config.model.mixer = "linear_attention_on_top"
    assert "model.kernel_size" not in given_fields.without_effect(config, fields, "pretrain")
    config.model.mixer = "mine"  # which is not registered, as a later message says
    assert given_fields.without_effect(config, fields, "pretrain") == []


@pytest.mark.parametrize(
    ("schedule", "unread"),
    [
        ("constant", ["optimizer.warmup_steps", "optimizer.decay_steps"]),
        ("inverse_sqrt", ["optimizer.decay_steps"]),
        ("warmup_linear", ["optimizer.decay_steps"]),
        ("warmup_flat_linear", []),
    ],
)
def test_steps_that_a_schedule_does_not_count(schedule, unread):
    config = pretrain_encoder.get_config()
    config.optimizer.schedule = schedule
    fields = dict.fromkeys(("optimizer.warmup_steps", "optimizer.decay_steps"))
    assert given_fields.without_effect(config, fields, "pretrain") == unread


@pytest.mark.parametrize(
    ("in_preset", "layers", "is_read"),
    [("", 0, False), ("", None, True), ("", 2, True), ("0", None, False), ("0", 2, True), ("2", None, True)],
)
def test_fields_of_a_decoder_that_there_is_not(tmp_path, in_preset, layers, is_read):
    config = pretrain_encoder.get_config()
    config.model.num_decoder_layers = layers
    if in_preset:
        (tmp_path / "config.json").write_text(f'{{"config": {{"num_decoder_layers": {in_preset}}}}}')
        config.init_from = str(tmp_path)
    fields = ["model.decoder_mixer", "model.decoder_kernel_size", "model.cross_attention_init"]
    found = given_fields.without_effect(
        config, dict.fromkeys(["model.num_decoder_layers", *fields]), "pretrain"
    )
    assert found == ([] if is_read else fields)


@pytest.fixture
def source(tmp_path):
    return f"--config.data.source=jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', corpus.reviews(40))}"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("train.num_steps=100", "error: `train.num_steps` must not be given unless `task.num_epochs` is 0"),
        ("model.mixer=lightweight_conv", "error: `model.mixer` must not be given when `init_from` names"),
    ],
)
def test_the_program_refuses_them_before_anything_is_read(tmp_path, source, field, message):
    done = run_program("convnlp.finetune", source, f"--config.{field}", f"--workdir={tmp_path}/run")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(message)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["model.dropout", "task.pack", "data.target_length", "data.shuffle_buffer"])
def test_what_a_head_alone_does_not_use(name):
    fields = {"task.text_field": "a", name: 1}
    assert given_fields.without_effect_on_a_head(finetune_classification.get_config(), fields) == [name]


def test_a_regression_has_no_names_of_classes():
    config, fields = finetune_classification.get_config(), {"task.label_field": "a", "task.label_names": "b"}
    config.task.kind = "regression"
    assert given_fields.without_effect(config, fields, "finetune") == ["task.label_names"]
    assert given_fields.without_effect_on_a_head(config, fields) == ["task.label_names"]


@pytest.mark.parametrize("name", ["r_drop", "margin"])
def test_an_option_that_a_head_alone_does_not_use(monkeypatch, name):
    margin = option(0.1, head=False)
    members = {"__annotations__": {"margin": float}, "margin": margin}
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(type("Own", (Classification,), members))
    monkeypatch.setitem(TASKS, "own", cls)
    config = finetune_classification.get_config()
    config.task.kind = "own"
    fields = {"task.options.class_weights": "balanced", f"task.options.{name}": 1}
    assert given_fields.without_effect_on_a_head(config, fields) == [f"task.options.{name}"]


@pytest.mark.parametrize(
    ("program", "unread", "wrong", "line", "error"),
    [
        (
            "fit_head",
            "optimizer.learning_rate=0.1",
            "task.options.nothing=1",
            "without effect, since only a head is fitted: optimizer.learning_rate",
            "has no option `nothing`",
        ),
        (
            "finetune",
            "task.input_field=question",
            "task.options.nothing=1",
            "without effect in finetune: task.input_field",
            "has no option `nothing`",
        ),
        (
            "pretrain",
            "task.label_field=stars",
            "data.validation_split=",
            "without effect in pretrain: task.label_field",
            "`data.validation_split` must name the split",
        ),
    ],
)
def test_a_program_names_them(tmp_path, source, program, unread, wrong, line, error):
    """And then ends, because another field is wrong."""
    config = ["--config=pretrain_mini"] if program == "pretrain" else []
    fields = [f"--config.{field}" for field in (unread, "train.batch_size=8", wrong)]
    done = run_program(f"convnlp.{program}", *config, source, *fields, f"--workdir={tmp_path}/run")
    assert done.returncode == 1
    assert f"{line}\n" in done.stderr
    assert error in done.stderr.splitlines()[-1]
