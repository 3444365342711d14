"""The name of a preset does wherever a program takes its directory; a wrong one costs nothing."""

import os
import shutil

import pytest

from convnlp import fit_head, outputs, tasks
from convnlp.configs import finetune_classification
from convnlp.export import preset as export_preset
from convnlp.models import Seq2SeqBackbone, preset_names
from convnlp.runs import experiment, inputs
from tests import corpus
from tests.run_program import run_program
from tests.small_classifier import small_classifier

REGISTER = """
from convnlp.models import Seq2SeqBackbone, preset_names
entry = {{"metadata": {{"description": "Tiny."}}, "kaggle_handle": {!r}}}
preset_names.register({{"tiny_en": entry}}, Seq2SeqBackbone)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    small_classifier(["dynamic_conv"], 16, ["bad", "good"]).save_to_preset(str(folder / "files"))
    corpus.write_jsonl(folder / "reviews.jsonl", corpus.reviews(32))
    return folder


@pytest.fixture
def named(folder, own_presets):
    entry = {"metadata": {"description": "Tiny."}, "kaggle_handle": str(folder / "files")}
    preset_names.register({"tiny_en": entry}, Seq2SeqBackbone)
    return folder


def config_of(folder, preset):
    config = finetune_classification.get_config()
    fields = {
        "init_from": preset,
        "data.source": f"jsonl:{folder}/reviews.jsonl",
        "data.split": "train[50%:]",
    }
    fields |= {"data.validation_split": "train[:50%]", "data.input_length": 16, "train.deterministic": False}
    config.update_from_flattened_dict({**fields, "train.dtype": "float32"})
    return config


def test_a_run_starts_from_a_name(named, tmp_path):
    config = config_of(named, "tiny_en")
    strategy = experiment.prepare(config, str(tmp_path))
    fit_head.run(config, str(tmp_path), strategy)
    card = (tmp_path / "preset" / "README.md").read_text(encoding="utf-8")
    assert "- Started from: tiny_en\n" in card
    assert inputs.fingerprints(config)["init_from"].keys() >= {"model.weights.h5", "vocabulary.spm"}
    assert inputs.fingerprints(config) == inputs.fingerprints(config_of(named, str(named / "files")))


def test_a_wrong_name_leaves_the_directory_of_a_run_as_it_was(named, tmp_path):
    with pytest.raises(ValueError, match=r"^preset tiny: no such directory.*or one of: .*tiny_en"):
        experiment.prepare(config_of(named, "tiny"), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_run_does_not_write_over_the_preset_that_it_starts_from(folder, own_presets, tmp_path):
    entry = {"kaggle_handle": str(shutil.copytree(folder / "files", tmp_path / "preset"))}
    preset_names.register({"tiny_en": entry}, Seq2SeqBackbone)
    outputs.check_run_folder(str(folder), "tiny_en", [])
    with pytest.raises(ValueError, match=r"it would overwrite .*preset. Received: .*init_from=.*preset$"):
        outputs.check_run_folder(str(tmp_path), "tiny_en", [])


def test_loading_and_exporting_by_name(named):
    model = tasks.load("tiny_en")
    assert model.labels == export_preset.load("tiny_en").labels == ["bad", "good"]
    assert export_preset.asset_files("tiny_en") == export_preset.asset_files(str(named / "files"))
    assert [os.path.basename(path) for path in export_preset.asset_files("tiny_en")] == [
        "config.json",
        "vocabulary.spm",
    ]


@pytest.mark.multiprocess
def test_a_program_takes_a_name_of_a_module_of_ones_own(folder, tmp_path, monkeypatch):
    (tmp_path / "own_names.py").write_text(REGISTER.format(str(folder / "files")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    source = f"jsonl:{folder}/reviews.jsonl"
    done = run_program("convnlp.evaluate", "--modules=own_names", "--preset=tiny_en", f"--source={source}")
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    output = f"--output={folder}/files/scores.json"
    flags = ["--modules=own_names", "--preset=tiny_en", f"--source={source}", output]
    done = run_program("convnlp.evaluate", *flags)
    assert done.returncode == 1
    assert f"must not overwrite the input {folder}/files" in done.stderr
