"""Configs by name, and what is printed of their fields."""

import pytest

from convnlp.configs import common, finetune_classification
from convnlp.runs import config_fields, config_files, config_help
from tests import corpus
from tests.run_program import run_program
from tests.test_configs import FILES


def test_every_shipped_config_has_its_name():
    assert config_files.names() == FILES
    for name in FILES:
        assert config_files.locate(name).endswith(f"configs/{name}.py")
    assert config_files.locate("pretrain_mini:fourier").endswith("configs/pretrain_mini.py:fourier")


def test_own_configs_have_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    assert config_files.locate("finetune_cogs").endswith("configs/finetune_cogs.py")
    assert config_files.locate("mine.py:a:b") == "mine.py:a:b"
    assert config_files.locate(f"{tmp_path}/mine.py") == f"{tmp_path}/mine.py"
    for wrong in ("mine", "yours.py", "./mine", "common", "__init__", "", ":fourier"):
        with pytest.raises(ValueError, match=r"^`config` must be one of demo_pretrain, .*Received: "):
            config_files.locate(wrong)
    with pytest.raises(ValueError, match=r"'configs/finetune_cogz.py'; did you mean finetune_cogs\?$"):
        config_files.locate("configs/finetune_cogz.py")


def test_a_file_of_your_own_returns_a_config(tmp_path):
    (tmp_path / "mine.py").write_text("def get_config():\n    return {}\n")
    with pytest.raises(ValueError, match=r"^`get_config` of .*mine\.py must return a ConfigDict.* a dict$"):
        config_files.ConfigParser("config").parse(f"{tmp_path}/mine.py")


def test_options_that_a_file_gives_as_a_dict_stay_open():
    config = common.get_config()
    config.model.mixer_options = {"num_heads": 2}
    config.objective.options.masked_lm = {"weight": 0.5}
    config.task.options.update({"nested": {"a": {"b": 1}}})
    config = config.copy_and_resolve_references().lock()
    config.model.mixer_options.mb_conv = {"expansion": 2}
    config.objective.options["masked_lm"]["noise_density"] = 0.3
    assert config.model.to_dict()["mixer_options"] == {"num_heads": 2, "mb_conv": {"expansion": 2}}
    assert config.objective.to_dict()["options"] == {"masked_lm": {"weight": 0.5, "noise_density": 0.3}}
    assert isinstance(config.task.options.nested.a, common.OpenConfig)
    for name in ("model", "task"):
        with pytest.raises(AttributeError, match="cannot be added since the config is locked"):
            config[name].other = {}


def test_a_flag_adds_an_option_to_those_of_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from convnlp.configs import pretrain_encoder\n\n\ndef get_config():\n"
        "    config = pretrain_encoder.get_config()\n"
        "    config.objective.options.masked_lm = {'weight': 0.5}\n    return config\n"
    )
    flag = "--config.objective.options.masked_lm.noise_density=0.3"
    done = run_program("convnlp.pretrain", f"--config={path}", flag, "--help_config")
    assert done.returncode == 0, done.stderr
    assert "--config.objective.options={'masked_lm': {'noise_density': 0.3, 'weight': 0.5}}" in done.stdout


def test_the_page_shows_each_field_once_as_it_is_set():
    lines = config_help.page(finetune_classification.get_config("fourier"), "About.").splitlines()
    assert lines[0] == "About."
    shown = [line.partition("=")[0] for line in lines if line.startswith("--config.")]
    assert shown == [f"--config.{path}" for path in config_fields.FIELDS]
    assert "--config.model.mixer=fourier " in "\n".join(lines)
    assert max(map(len, lines)) <= 110


def test_finetune_needs_no_config(tmp_path):
    """It then takes the shipped one, which starts from the shipped preset; fields can be set all the same."""
    done = run_program("convnlp.finetune", "--config.train.batch_size=7", "--help_config")
    assert done.returncode == 0, done.stderr
    assert "--config.train.batch_size=7 " in done.stdout
    assert "--config.init_from=dynamic_conv_mini_en " in done.stdout
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    corpus.write_jsonl(tmp_path / "reviews.jsonl", corpus.reviews(64))
    given = f"--config.data.source=jsonl:{tmp_path}/reviews.jsonl", f"--config.tokenizer={tmp_path}/spm.model"
    done = run_program("convnlp.finetune", *given, f"--workdir={tmp_path}/run")
    assert done.returncode == 1
    assert "`tokenizer` must be empty, or the vocabulary of the preset that `init_from` names" in done.stderr
    assert "init_from='dynamic_conv_mini_en'" in done.stderr


def test_a_program_takes_names_and_prints_the_fields(tmp_path):
    command = ["convnlp.finetune", "--help_config"]
    done = run_program(*command, "--config=finetune_cogs", "--config.train.batch_size=7")
    assert done.returncode == 0, done.stderr
    assert "--config.train.batch_size=7 " in done.stdout
    assert done.stdout.startswith("Sequence-to-sequence on COGS")
    assert list(tmp_path.iterdir()) == []
    done = run_program("convnlp.finetune", "--config=finetune_cogs")
    assert (done.returncode, done.stderr) == (1, "error: `--workdir` must be given; see --help\n")
    done = run_program("convnlp.pretrain", f"--workdir={tmp_path}/run")
    assert (done.returncode, done.stderr) == (1, "error: `--config` must be given; see --help\n")
    done = run_program("convnlp.pretrain", "--config=pretrain", f"--workdir={tmp_path}/run")
    assert done.returncode == 1
    assert done.stderr.startswith("error: flag --config=pretrain: `config` must be one of demo_pretrain, ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "--config.task.text_fields=a",
            "unknown config field task.text_fields; did you mean task.text_field?",
        ),
        ("--config.data.sorce=a", "unknown config field data.sorce; did you mean data.source?"),
        ("-config.sed=1", "unknown config field sed; did you mean seed?"),
        (
            "--config.optimizer.lr=1",
            "unknown config field optimizer.lr; did you mean optimizer.learning_rate?",
        ),
        (
            "--config.objective.masked_lm_weight=1",
            "unknown config field objective.masked_lm_weight; "
            "did you mean objective.options.masked_lm.weight?",
        ),
        (
            "--config.train.batch_size.x=1",
            "unknown config field train.batch_size.x; did you mean train.batch_size?",
        ),
        ("--config.seed.x=1", "unknown config field seed.x; did you mean seed?"),
        ("--config.xyzzy=1", "unknown config field xyzzy"),
        ("--config.task.options.any.name=1", None),
        ("--config.model.kernel_size[0]=1", None),
        ("--config.data.source=a.b", None),
    ],
)
def test_a_misspelt_field_is_a_sentence(argument, message):
    assert config_files.unknown_field(["program", "--config=a.py", argument]) == message


def test_other_names_of_fields_lead_to_fields_that_exist():
    config = common.get_config()
    for field in config_files.OTHER_NAMES.values():
        section, name, *_ = field.split(".")
        assert name in config[section]
