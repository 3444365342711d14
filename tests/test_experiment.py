"""What pretrain and finetune share: see also test_configs.py, and the tests of the two programs."""

import contextlib
import json
import math
import os
import platform
import shutil
import signal
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from ml_collections import config_dict, config_flags

from convnlp import finetune, pretrain, product_speed, tasks
from convnlp.configs import finetune_classification, pretrain_mini
from convnlp.data import SourceError, source_error_message, sources
from convnlp.finetuning import steps
from convnlp.models import Seq2SeqLM, TextClassifier, Tokenizer, model_card
from convnlp.runs import components, config_rules, experiment, run_preset
from convnlp.runs.config_fields import FIELDS
from convnlp.training import loop, metrics, run_lock, stopping, storage
from tests import corpus, remote
from tests.mixer_table import MIXER_TABLE

TINY = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2, "kernel_size": (3,)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tokenizer, and a source for both programs."""
    folder = tmp_path_factory.mktemp("experiment")
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    corpus.write_jsonl(folder / "reviews.jsonl", corpus.reviews(200))
    return folder


def config_of(config, folder, **fields):
    """A small config; fields are "section.name"."""
    config.model.update(TINY)
    if config.model.num_decoder_layers:
        config.model.num_decoder_layers = 1
    config.tokenizer, config.init_from = f"{folder}/spm.model", ""
    config.data.update({"source": f"jsonl:{folder}/reviews.jsonl", "input_length": 16, "shuffle_buffer": 8})
    config.train.update({"batch_size": 4, "num_steps": 8, "steps_per_call": 2, "eval_every": 4})
    # Determinism is of the whole process, here that of other tests too.
    config.train.update({"eval_batches": 1, "checkpoint_every": 2, "num_samples": 1, "deterministic": False})
    config.optimizer.update({"warmup_steps": 2, "decay_steps": 0})
    config.update_from_flattened_dict(fields)
    return config


def pretraining(folder, **fields):
    return config_of(pretrain_mini.get_config("lightweight_conv"), folder, **fields)


@pytest.mark.slow
def test_a_run_behind_a_url_from_pre_training_to_a_classifier(folder, monkeypatch):
    workdir, config = remote.url("experiment/pretrained"), pretraining(folder)
    write = metrics.Metrics.write

    def write_and_stop(self, step, *args):
        write(self, step, *args)
        if step == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(metrics.Metrics, "write", write_and_stop)
        with pytest.raises(stopping.StoppedError):
            pretrain.run(config, workdir, experiment.prepare(config, workdir))
    pretrain.run(config, workdir, experiment.prepare(config, workdir))
    expected = ["checkpoints", "config.json", "metrics.jsonl", "preset", "tensorboard", "times.jsonl"]
    assert storage.names(workdir) == expected  # and the lock was given back
    rows = [json.loads(line) for line in storage.read(f"{workdir}/metrics.jsonl").splitlines()]
    assert [row["step"] for row in rows] == [2, 4, 4, 6, 8, 8]
    assert storage.read(f"{workdir}/preset/experiment.json") == storage.read(f"{workdir}/config.json")
    assert isinstance(Seq2SeqLM.from_preset(f"{workdir}/preset"), Seq2SeqLM)

    tuned = remote.url("experiment/tuned")
    config = config_of(finetune_classification.get_config(), folder, **{"task.num_epochs": 0.0})
    config.tokenizer, config.init_from = "", f"{workdir}/preset"
    config.data.update({"split": "train[20%:]", "validation_split": "train[:20%]"})
    open_fields = steps.open_fields(config)
    finetune.run(config, tuned, experiment.prepare(config, tuned, open_fields=open_fields))
    assert storage.read_json(f"{tuned}/results.json")["step"] == 8
    sums = storage.read_json(f"{tuned}/config.json")["inputs"]
    assert "model.weights.h5" in sums["init_from"]
    classifier = tasks.load(f"{tuned}/preset")
    assert type(classifier) is TextClassifier
    assert classifier.predict(["a fine day"], verbose=0).shape == (1, 2)
    assert not any(":" in name for name in os.listdir())


def test_a_preset_of_weights_that_are_not_finite_is_not_written(tmp_path, folder):
    backbone = components.backbone(pretraining(folder, **{"model.num_decoder_layers": 0}), 200, "float32")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "preset").mkdir()
    (tmp_path / "preset" / "README.md").write_text("of before")
    variable = backbone.trainable_variables[3]
    variable.assign(np.full(variable.shape, np.inf))
    with pytest.raises(ValueError, match=r"preset .* is not saved"):
        run_preset.save(backbone, tmp_path, {})
    assert (tmp_path / "preset" / "README.md").read_text() == "of before"


class _Saved:
    """A model whose preset holds only this text, or which cannot be saved without one."""

    def __init__(self, text):
        self._text = text

    def save_to_preset(self, directory):
        os.makedirs(directory)
        if self._text is None:
            raise OSError("the disk is full")
        Path(directory, "weights").write_text(self._text)


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    """The directory of a run, with the preset of an earlier one beside it."""
    monkeypatch.setattr(model_card, "write", lambda preset, entries: None)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "weights").write_text("old")
    return tmp_path / "run"


def test_a_new_preset_takes_the_place_of_a_link_whose_target_stays(workdir):
    (workdir / "preset").symlink_to("../earlier")
    run_preset.save(_Saved("new"), workdir, {})
    assert not (workdir / "preset").is_symlink()
    assert (workdir / "preset" / "weights").read_text() == "new"
    assert (workdir / "../earlier/weights").read_text() == "old"
    assert sorted(os.listdir(workdir)) == ["config.json", "preset"]


def test_the_old_preset_stays_until_the_new_one_has_its_name(workdir, monkeypatch):
    (workdir / "../earlier").rename(workdir / "preset")
    rename, renamed = os.rename, []

    def rename_once(path, other):
        renamed.append(path)
        if len(renamed) == 2:
            raise OSError("the new preset cannot have its name")
        rename(path, other)

    monkeypatch.setattr(os, "rename", rename_once)
    with pytest.raises(OSError, match="cannot have its name"):
        run_preset.save(_Saved("new"), workdir, {})
    assert (workdir / "preset" / "weights").read_text() == "old"
    assert sorted(os.listdir(workdir)) == ["config.json", "preset"]


@pytest.mark.parametrize("text", ["new", None])
def test_after_a_save_that_was_killed_there_is_the_new_preset_or_else_the_old_one(workdir, text):
    (workdir / ".partial" / "preset").mkdir(parents=True)  # between the two renames
    (workdir / "../earlier").rename(workdir / ".partial" / "old")
    with contextlib.nullcontext() if text else pytest.raises(OSError, match="disk is full"):
        run_preset.save(_Saved(text), workdir, {})
    assert (workdir / "preset" / "weights").read_text() == (text or "old")
    assert sorted(os.listdir(workdir)) == ["config.json", "preset"]


def test_the_card_names_the_architecture_of_a_processor_without_a_name(monkeypatch):
    monkeypatch.setattr(Path, "exists", lambda path: False)  # no /proc/cpuinfo, as good as one without names
    monkeypatch.setattr(platform, "processor", lambda: "")
    config = config_dict.create(data={"source": "jsonl:a", "split": "train", "input_length": 8}, init_from="")
    backbone = types.SimpleNamespace(cost=lambda *lengths: {})
    card = run_preset.card(config, {"seconds": 1.0}, backbone, 0)
    assert card["hardware"].endswith(f" x {platform.machine()}")


@pytest.mark.parametrize(
    ("layers", "lengths"), [(0, "16 encoder tokens"), (1, "16 encoder tokens and 8 dec")]
)
def test_the_card_counts_the_tokens_of_a_decoder_only_if_there_is_one(
    folder, tmp_path, monkeypatch, layers, lengths
):
    fields = {"objective.names": ("masked_lm",), "model.num_decoder_layers": layers, "data.target_length": 8}
    config, workdir = pretraining(folder, **fields), str(tmp_path / "run")
    monkeypatch.setattr(loop, "train", lambda **arguments: {"seconds": 1.0})
    pretrain.run(config, workdir, experiment.prepare(config, workdir))
    card = (tmp_path / "run" / "preset" / "README.md").read_text(encoding="utf-8")
    assert f"these figures are for {lengths}" in card
    assert ("decoder tokens" in card) == bool(layers)


def test_a_wrong_number_is_refused_before_anything_is_written(tmp_path, folder):
    config = pretraining(folder, **{"optimizer.learning_rate": math.nan})
    with pytest.raises(ValueError, match=r"`optimizer.learning_rate` must be a number in \(0, inf\)"):
        experiment.prepare(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("exists", [False, True])
def test_a_run_that_is_refused_leaves_nothing(tmp_path, folder, monkeypatch, exists):
    workdir = tmp_path / "run"
    if exists:
        workdir.mkdir()

    def start(open_fields, has_steps):
        config = pretraining(folder)
        return config, str(workdir), experiment.prepare(config, str(workdir))

    def fail(*written):
        with experiment.begun():
            assert {path.name for path in workdir.iterdir()} == {"config.json", "run.lock"}
            for name in written:
                (workdir / name).write_text("")
            raise SourceError("a bad line")

    monkeypatch.setattr(experiment, "start", start)
    with pytest.raises(SourceError, match="a bad line"):
        fail()
    assert workdir.exists() == exists
    with pytest.raises(ValueError, match=r"must be a multiple of train\.accumulate_steps"):
        experiment.prepare(pretraining(folder, **{"train.accumulate_steps": 7}), str(workdir))
    assert workdir.exists() == exists
    assert not exists or not [*workdir.iterdir()]
    with pytest.raises(SourceError, match="a bad line"):
        fail("metrics.jsonl")
    assert {path.name for path in workdir.iterdir()} == {"config.json", "metrics.jsonl", "run.lock"}


@pytest.mark.parametrize("content", [{"module": "convnlp.models", "config": {}}, [], {}], ids=str)
def test_a_run_does_not_take_the_place_of_a_preset(tmp_path, folder, content):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(content))
    with pytest.raises(
        ValueError, match=rf"`workdir` must not hold a config\.json that no run .*={tmp_path}$"
    ):
        experiment.prepare(pretraining(folder), tmp_path)
    assert json.loads(path.read_text()) == content
    assert [*tmp_path.iterdir()] == [path]


def test_a_start_that_is_refused_leaves_what_another_process_has_written(tmp_path, folder):
    first = run_lock.FileLock(str(tmp_path / "run.lock"))
    with pytest.raises(run_lock.LockedError):
        experiment.prepare(pretraining(folder), tmp_path)
    with pytest.raises(run_lock.LockedError):
        run_lock.FileLock(str(tmp_path / "run.lock"))
    first.release()


@pytest.fixture
def begun(tmp_path, folder):
    """A directory with a checkpoint of a run of `pretraining(folder)`."""
    experiment.prepare(pretraining(folder), tmp_path)
    experiment.finish(tmp_path)
    manifest = tmp_path / "checkpoints" / "00000004" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"step": 4, "num_shards": 1, "facts": {}, "files": {}}))
    yield tmp_path
    experiment.finish(tmp_path)


def test_a_second_start_is_refused_while_the_first_one_lives(begun, folder):
    first = run_lock.FileLock(str(begun / "run.lock"))
    with pytest.raises(run_lock.LockedError, match="process"):
        experiment.prepare(pretraining(folder), begun)
    first.release()
    with pytest.raises(ValueError, match="a different config"):  # a start that fails takes nothing
        experiment.prepare(pretraining(folder, seed=1), begun)
    run_lock.FileLock(str(begun / "run.lock")).release()
    assert isinstance(experiment.prepare(pretraining(folder), begun), tf.distribute.Strategy)
    with pytest.raises(run_lock.LockedError):
        run_lock.FileLock(str(begun / "run.lock"))


def test_fields_that_do_not_change_the_weights_may_change(begun, folder):
    changes = {
        "data.test_source": "jsonl:other.{split}.jsonl",
        "train.num_samples": 0,
        "train.checkpoint_every": 4,
        "train.keep_checkpoints": 9,
    }
    experiment.prepare(pretraining(folder, **changes), begun)
    changed = json.loads((begun / "config.json").read_text())["history"][0]["changed"]
    assert set(changed) == set(changes)


def test_a_diverged_run_can_go_on_with_another_rate(begun, folder):
    config = pretraining(folder, **{"optimizer.learning_rate": 1e-4, "optimizer.clip_norm": 0.5})
    with pytest.raises(ValueError, match="--resume_with_changes continues it"):
        experiment.prepare(config, begun)
    experiment.prepare(config, begun, resume_with_changes=True)
    for field, value in (("optimizer.name", "adafactor"), ("model.hidden_dim", 32), ("seed", 1)):
        with pytest.raises(ValueError, match=f"a different config .*{field}"):
            experiment.prepare(pretraining(folder, **{field: value}), begun, resume_with_changes=True)


@pytest.mark.parametrize("saved", [(), ("00000006",)])
def test_a_change_of_a_start_without_a_new_checkpoint_is_not_kept(begun, folder, monkeypatch, saved):
    config = pretraining(folder, **{"optimizer.learning_rate": 1e-4})
    before, workdir = (begun / "config.json").read_bytes(), str(begun)

    def start(*arguments):
        return config, workdir, experiment.prepare(config, workdir, resume_with_changes=True)

    def fail():
        with experiment.begun():
            assert (begun / "config.json").read_bytes() != before
            for name in saved:
                shutil.copytree(begun / "checkpoints" / "00000004", begun / "checkpoints" / name)
            raise SourceError("a bad line")

    monkeypatch.setattr(experiment, "start", start)
    with pytest.raises(SourceError, match="a bad line"):
        fail()
    assert ((begun / "config.json").read_bytes() == before) == (not saved)
    assert not run_lock.is_held(workdir)


def test_another_machine_does_not_change_the_type_of_numbers_unnoticed(begun, folder, monkeypatch):
    config = pretraining(folder)
    assert config.train.dtype == "auto"
    here = json.loads((begun / "config.json").read_text())["strategy"]["dtype"]
    monkeypatch.setattr(components, "_has_fast_bfloat16", lambda strategy: here == "float32")
    with pytest.raises(ValueError, match=f"strategy.dtype: '{here}' -> .*--resume_with_changes continues it"):
        experiment.prepare(config, begun)
    experiment.prepare(config, begun, resume_with_changes=True)


def test_a_measured_type_of_numbers_stays_that_of_the_run(begun, folder, monkeypatch):
    """On a busy machine, the next process may measure another."""
    here = json.loads((begun / "config.json").read_text())["strategy"]["dtype"]
    monkeypatch.setattr(product_speed, "_settled", [here == "float32"])
    monkeypatch.setattr(components, "_has_fast_bfloat16", lambda strategy: product_speed.bfloat16_is_faster())
    experiment.prepare(pretraining(folder), begun)
    assert components.dtype_policy(pretraining(folder), None) == here


def test_a_best_step_of_another_loss_does_not_count(begun, folder):
    assert experiment.loop_arguments(pretraining(folder), begun)["best_after"] == 0
    config = pretraining(folder)
    config.objective.options.masked_lm = {"weight": 0.5}
    experiment.prepare(config, begun, resume_with_changes=True)
    step = json.loads((begun / "config.json").read_text())["history"][0]["step"]
    assert experiment.loop_arguments(config, begun)["best_after"] == step == 4


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("reviews.jsonl", '{"text": "another"}\n', "jsonl:reviews.jsonl of data.source was edited since"),
        ("spm.model", "another", "spm.model of tokenizer was edited since the run began"),
    ],
)
def test_an_edited_file_is_noticed(begun, folder, name, text, message):
    content = (folder / name).read_bytes()
    (folder / name).write_text(text)
    try:
        with pytest.raises(ValueError, match=message):
            experiment.prepare(pretraining(folder), begun)
    finally:
        (folder / name).write_bytes(content)


@pytest.mark.slow
def test_a_record_too_far_behind_to_be_looked_at_first_ends_the_run_and_leaves_its_checkpoint(
    folder, tmp_path, monkeypatch
):
    rows = [{"text": text} for text in corpus.documents(1000)]
    path = corpus.write_jsonl(tmp_path / "late.jsonl", [*rows, {"body": "A lost day."}])
    monkeypatch.setattr(sources, "CHECKED_BYTES", 1000)
    config, workdir = pretraining(folder, **{"data.source": f"jsonl:{path}"}), tmp_path / "run"
    config.train.update({"num_steps": 4000, "steps_per_call": 20, "checkpoint_every": 20, "eval_every": 4000})
    with pytest.raises((SourceError, tf.errors.OpError)) as caught:
        pretrain.run(config, str(workdir), experiment.prepare(config, str(workdir)))
    assert source_error_message(caught.value) == f"{path}, line 1001: no field 'text' (available: 'body')"
    written = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert any("loss" in row for row in written)
    kept = [each.name for each in (workdir / "checkpoints").iterdir() if each.is_dir()]
    assert int(max(kept)) == max(row["step"] for row in written)


def test_an_encoder_alone_is_saved_with_its_tokenizer_for_fine_tuning(tmp_path):
    config = pretrain_mini.get_config("fourier")
    config.model.update({"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "kernel_size": (3,)})
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = components.backbone(config, tokenizer.vocabulary_size(), "float32")
    (tmp_path / "config.json").write_text(config.to_json_best_effort(), encoding="utf-8")
    run_preset.save(backbone, tmp_path, {}, tokenizer)

    config = finetune_classification.get_config()
    config.init_from = str(tmp_path / "preset")
    text, ids = "the old river", np.array([[5, 6, 7]])
    np.testing.assert_array_equal(components.tokenizer(config).tokenize(text), tokenizer.tokenize(text))
    again = components.backbone(config, tokenizer.vocabulary_size(), "float32")
    np.testing.assert_array_equal(again.encode(ids), backbone.encode(ids))
    classifier = TextClassifier.from_preset(config.init_from, num_classes=2)
    assert classifier.predict([text], verbose=0).shape == (1, 2)

    config.model.num_decoder_layers, config.model.decoder_mixer = 1, "lightweight_conv"
    with_decoder = components.backbone(config, tokenizer.vocabulary_size(), "float32")
    np.testing.assert_array_equal(with_decoder.encode(ids), backbone.encode(ids))
    assert [layer.mixer.name for layer in with_decoder.decoder.layers] == ["lightweight_conv"]


def config_of_flags(mixer, *options):
    """The config that a program gets from these flags."""
    argv, values = ["program", f"--config=configs/pretrain_mini.py:{mixer}", *options], flags.FlagValues()
    config_flags.DEFINE_config_file("config", None, "", values, lock_config=True, sys_argv=argv)
    values(argv)
    return values.config


def small_backbone(config):
    """What a program builds from a config, on a small scale."""
    config.model.update({"num_layers": 1, "hidden_dim": 8, "intermediate_dim": 32, "kernel_size": (3,)})
    config.model.update({"num_decoder_layers": 0, "num_heads": 2, "dilation_rate": (1,)})
    components.check_mixer_options(config)
    return components.backbone(config, 50, "float32")


VARIANTS = [(name, options) for name, row in MIXER_TABLE.items() for options in row.variants if options]
VARIANTS.append(("dynamic_conv", {"double_gate": True}))  # an option of the block around it


@pytest.mark.parametrize(("mixer", "options"), VARIANTS, ids=str)
def test_every_option_of_every_mixer_is_a_flag(mixer, options):
    given = [f"--config.model.mixer_options.{name}={value}" for name, value in options.items()]
    layer = small_backbone(config_of_flags(mixer, *given)).encoder.layers[0].mixer.get_config()
    for name, value in options.items():
        expected = value if isinstance(value, (int, float)) else [value] if isinstance(value, str) else value
        assert layer[name] == (list(expected) if isinstance(expected, tuple) else expected), name


def test_flags_for_one_mixer_of_several():
    config = config_of_flags(
        "c_c_t_t",
        "--config.model.mixer_options.num_heads=4",
        "--config.model.mixer_options.mb_conv.expansion=2",
        "--config.model.mixer_options.mb_conv.kernel_size=5",
    )
    config.model.update({"num_layers": 2, "hidden_dim": 8, "intermediate_dim": 32, "kernel_size": (3,)})
    config.model.update({"num_decoder_layers": 0, "num_heads": 2})
    first, last = (layer.mixer for layer in components.backbone(config, 50, "float32").encoder.layers)
    assert (first.expansion, first.kernel_size, last.num_heads) == (2, 5, 4)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "tiny_attention=4",
            r"`mixer_options.tiny_attention` must be .*spatial_gating has .*tiny_attention_dim",
        ),
        ("toeplitz=perhaps", r"`mixer_options.toeplitz` must be true or false for spatial_gating.*'perhaps'"),
        ("mb_conv.expansion=2", r"`mixer_options.mb_conv` must be the options of a mixer of the model"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_computed(option, message, tmp_path):
    config = config_of_flags("spatial_gating", f"--config.model.mixer_options.{option}")
    with pytest.raises(ValueError, match=message):
        experiment.prepare(config, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_preset_keeps_its_own_options(tmp_path):
    config = config_of_flags(
        "dynamic_conv", "--config.model.mixer_options.num_heads=2", "--config.init_from=PRESET"
    )
    with pytest.raises(ValueError, match=r"`model.mixer_options` must be empty when `init_from`.*num_heads"):
        experiment.prepare(config, tmp_path)


def test_other_fields_stay_closed():
    with pytest.raises(AttributeError, match="bacth_size"):
        config_of_flags("dynamic_conv", "--config.train.bacth_size=3")
    config = config_of_flags("dynamic_conv", "--config.model.mixer_options.num_heads=2")
    assert config.is_locked
    assert config.model.is_locked
    assert not hasattr(config.model.mixer_options, "kernel_dropout")
    assert config.model.to_dict()["mixer_options"] == {"num_heads": 2}


def test_options_of_tasks_are_flags_too():
    config = config_of_flags("dynamic_conv", "--config.task.options.smoothing=0.3")
    assert config.task.to_dict()["options"] == {"smoothing": 0.3}


def test_options_of_objectives_are_flags_too():
    config = config_of_flags("dynamic_conv", "--config.objective.options.span_corruption.noise_density=0.3")
    assert config.objective.to_dict()["options"] == {"span_corruption": {"noise_density": 0.3}}


@pytest.mark.parametrize(
    "name", [name for name, field in FIELDS.items() if field.rule and field.rule.holds(None)]
)
def test_a_flag_makes_a_field_automatic_again(name):
    values = {"None": None, "8": "8" if name.endswith("mixer") else 8}
    if name == "model.weight_softmax":
        values = {"None": None, "true": True, "1": True}
    for text, value in values.items():
        config = config_of_flags("dynamic_conv", f"--config.{name}={text}")
        assert config_rules.value_of(config, name) == value


@pytest.mark.parametrize("text", ["data.input_length=many", "train.batch_size=None"])
def test_a_flag_that_is_neither_none_nor_a_number_is_refused(text):
    with pytest.raises(flags.IllegalFlagValueError, match=f"^flag --config.{text}: invalid literal for int"):
        config_of_flags("dynamic_conv", f"--config.{text}")
