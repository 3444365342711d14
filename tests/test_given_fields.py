"""Fields that a command gives in vain are refused, or named where they do no harm."""

import doctest

import pytest

from convnlp import given_fields
from convnlp.configs import finetune_classification, finetune_cogs
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


def test_a_preset_takes_another_dropout_and_a_decoder():
    config = finetune_classification.get_config()
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


def test_a_head_alone_names_them(tmp_path, source):
    fields = (
        "--config.optimizer.learning_rate=0.1",
        "--config.train.batch_size=8",
        "--config.task.options.nothing=1",
    )
    done = run_program("convnlp.fit_head", source, *fields, f"--workdir={tmp_path}/run")
    assert "without effect, since only a head is fitted: optimizer.learning_rate\n" in done.stderr
