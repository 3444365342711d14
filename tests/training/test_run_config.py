"""config.json: what may be different when a run goes on, and what is said of it."""

import copy
import json

import pytest

from convnlp.training import run_config

CONFIG = {
    "model": {"mixer": "lightweight_conv", "kernel_size": (3, 7)},
    "data": {"source": "jsonl:a.jsonl"},
    "optimizer": {"learning_rate": 1.0},
    "train": {"num_samples": 2},
    "tokenizer": "spm.model",
    "inputs": {
        "data.source": {"jsonl:a.jsonl": {"bytes": 9, "sha256": "0a"}},
        "tokenizer": {"spm.model": {"bytes": 5, "sha256": "0b"}},
    },
}
RULES = {
    "always": ("train.num_samples",),
    "on_request": ("optimizer.learning_rate", "inputs.data.source"),
}


@pytest.fixture
def workdir(tmp_path):
    """A directory that holds a checkpoint of step 40."""
    run_config.check_config(tmp_path, {"seed": 1})  # no checkpoint: a mistake that can be corrected
    run_config.check_config(tmp_path, CONFIG, **RULES)
    checkpoint(tmp_path, 40)
    return tmp_path


def checkpoint(workdir, step):
    """Writes a checkpoint of no variables; returns its manifest's path."""
    folder = workdir / "checkpoints" / f"{step:08d}"
    folder.mkdir(parents=True)
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({"step": step, "num_shards": 1, "facts": {}, "files": {}}))
    return manifest


def changed(**fields):
    """`CONFIG` with other values; "__" stands for the dots of a name."""
    config = copy.deepcopy(CONFIG)
    for name, value in fields.items():
        *sections, last = name.split("__")
        part = config
        for section in sections:
            part = part.setdefault(section, {})
        part[last] = value
    return config


def recorded(config):
    """What the file holds of a config, of which nothing is left to the data."""
    return json.loads(json.dumps({**config, "open_fields": []}))


def stored(workdir):
    return json.loads((workdir / "config.json").read_text())


def test_the_same_config_leaves_the_file_alone(workdir):
    before = (workdir / "config.json").read_bytes()
    run_config.check_config(workdir, CONFIG, **RULES)
    assert (workdir / "config.json").read_bytes() == before
    assert "history" not in stored(workdir)


def test_another_config_is_refused_with_the_difference(workdir):
    message = (
        r"model.mixer: 'lightweight_conv' -> 'dynamic_conv'; new: 'absent' -> 1\); another directory begins"
    )
    config = changed(model__mixer="dynamic_conv", new=1)
    for requested in (False, True):
        with pytest.raises(ValueError, match=message):
            run_config.check_config(workdir, config, requested=requested, **RULES)
    assert stored(workdir)["model"]["mixer"] == "lightweight_conv"


def test_a_field_of_a_newer_version_is_taken_to_be_its_default(workdir):
    defaults = {"model": {"mixer": "fourier", "strides": (1, 1)}, "train": {"warmth": 0.0}}
    before = stored(workdir)
    newer = changed(model__strides=(1, 1), train__warmth=0.0)
    run_config.check_config(workdir, newer, defaults=defaults, **RULES)
    assert stored(workdir) == before
    with pytest.raises(ValueError, match=r"holds a run with a different config \(train.warmth: 0.0 -> 0.5\)"):
        run_config.check_config(workdir, changed(train__warmth=0.5), defaults=defaults, **RULES)
    with pytest.raises(ValueError, match=r"\(model.strides: 'absent' -> \[1, 1\]\)"):
        run_config.check_config(workdir, newer, **RULES, defaults={"train": {"warmth": 0.0}})


@pytest.mark.parametrize(
    ("old", "own", "now"),
    [(1.0, {}, {}), (0.5, {}, {"weight": 0.5}), (0.5, {"weight": 2.0}, {"weight": 2.0})],
)
def test_a_run_of_an_older_version_goes_on_with_the_field_that_has_replaced_its_own(workdir, old, own, now):
    names = {"objective__names": ["masked_lm"]}
    before = changed(objective__masked_lm_weight=old, objective__options__masked_lm=own, **names)
    (workdir / "config.json").write_text(json.dumps(before))
    run_config.check_config(workdir, changed(objective__options__masked_lm=now, **names), **RULES)
    message = r"\(objective.options.masked_lm.weight: .* -> 3.0\)"
    other = changed(objective__options__masked_lm={"weight": 3.0}, **names)
    with pytest.raises(ValueError, match=message):
        run_config.check_config(workdir, other, **RULES)
    history = [{"step": 40, "changed": {"objective.masked_lm_weight": [old, 3.0]}}]
    (workdir / "config.json").write_text(json.dumps({**before, "history": history}))
    assert run_config.last_change(workdir, ("objective.options.masked_lm.weight",)) == 40


def test_a_weight_that_an_older_version_did_not_read_is_forgotten(workdir):
    before = changed(objective__masked_lm_weight=2.0, objective__names=["span_corruption"])
    (workdir / "config.json").write_text(json.dumps(before))
    run_config.check_config(workdir, changed(objective__names=["span_corruption"]), **RULES)


def test_what_never_matters_may_always_change_and_is_written_down(workdir):
    run_config.check_config(workdir, changed(train__num_samples=0), **RULES)
    run_config.check_config(workdir, changed(train__num_samples=5), **RULES)
    config = stored(workdir)
    assert config["train"]["num_samples"] == 5
    assert config["history"] == [
        {"step": 40, "changed": {"train.num_samples": [2, 0]}},
        {"step": 40, "changed": {"train.num_samples": [0, 5]}},
    ]


def test_another_rate_needs_the_flag_and_is_written_down(workdir):
    config = changed(optimizer__learning_rate=0.1)
    message = r"a different config \(optimizer.learning_rate: 1.0 -> 0.1\); --resume_with_changes .*, another"
    with pytest.raises(ValueError, match=message):
        run_config.check_config(workdir, config, **RULES)
    before = stored(workdir)
    assert before["optimizer"]["learning_rate"] == 1.0
    assert run_config.check_config(workdir, config, requested=True, **RULES) == before
    assert stored(workdir)["history"] == [{"step": 40, "changed": {"optimizer.learning_rate": [1.0, 0.1]}}]
    assert run_config.check_config(workdir, config, **RULES) is None  # what the run is of now
    assert len(stored(workdir)["history"]) == 1


def test_a_change_counts_from_the_checkpoint_that_is_continued_from(workdir):
    checkpoint(workdir, 50).write_text("{}")  # damaged
    run_config.check_config(workdir, changed(train__num_samples=0), **RULES)
    assert [each["step"] for each in stored(workdir)["history"]] == [40]


def test_the_last_change_of_some_fields_is_known(workdir):
    names = ("optimizer.learning_rate", "inputs.data.source")
    assert run_config.last_change(workdir, names) == 0
    run_config.check_config(workdir, changed(optimizer__learning_rate=0.1), requested=True, **RULES)
    checkpoint(workdir, 50)
    other = changed(optimizer__learning_rate=0.1, train__num_samples=3)
    run_config.check_config(workdir, other, requested=True, **RULES)
    assert run_config.last_change(workdir, names) == 40
    assert run_config.last_change(workdir, ("train.num_samples", *names)) == 50


def test_a_run_without_steps_is_made_again_only_as_it_was_or_on_request(tmp_path):
    run_config.check_config(tmp_path, changed(seed=1), **RULES, has_steps=False)
    run_config.check_config(tmp_path, CONFIG, **RULES, has_steps=False)  # nothing was finished
    (tmp_path / "preset").mkdir()
    run_config.check_config(tmp_path, CONFIG, **RULES, has_steps=False)
    config = changed(optimizer__learning_rate=0.1)
    with pytest.raises(
        ValueError, match=r"different config .* --resume_with_changes makes it again in place of"
    ):
        run_config.check_config(tmp_path, config, **RULES, has_steps=False)
    assert stored(tmp_path) == recorded(CONFIG)
    with pytest.raises(ValueError, match=r"different config .*; another directory begins a new one"):
        run_config.check_config(tmp_path, changed(seed=1), **RULES, has_steps=False, requested=True)
    run_config.check_config(tmp_path, config, **RULES, has_steps=False, requested=True)
    assert stored(tmp_path) == recorded(config)


def test_runs_with_and_without_steps_do_not_mix(workdir, tmp_path_factory):
    with pytest.raises(
        ValueError, match=r"holds the checkpoints of a run in steps, which .* cannot continue"
    ):
        run_config.check_config(workdir, CONFIG, **RULES, has_steps=False)
    fitted = tmp_path_factory.mktemp("fitted")
    (fitted / "preset").mkdir()
    with pytest.raises(ValueError, match=r"holds a preset without checkpoints, which .* cannot continue"):
        run_config.check_config(fitted, CONFIG, **RULES)
    assert not (fitted / "config.json").exists()


def test_other_workers_write_nothing(workdir):
    config = {**changed(optimizer__learning_rate=0.1)}
    del config["inputs"]
    run_config.check_config(workdir, config, write=False, requested=True, **RULES)
    assert stored(workdir) == recorded(CONFIG)


def test_other_workers_leave_files_that_were_moved_to_the_first(workdir):
    config = changed(tokenizer="moved/spm.model")
    del config["inputs"]
    run_config.check_config(workdir, config, write=False, **RULES)
    config["model"]["mixer"] = "fourier"
    with pytest.raises(ValueError, match=r"model\.mixer"):
        run_config.check_config(workdir, config, write=False, **RULES)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"jsonl:a.jsonl": {"bytes": 9, "sha256": "ff"}}, "jsonl:a.jsonl of data.source was edited since"),
        ({}, "jsonl:a.jsonl of data.source is gone since"),
        (
            {**CONFIG["inputs"]["data.source"], "jsonl:b.jsonl": {"bytes": 1, "sha256": "11"}},
            "jsonl:b.jsonl of data.source is new since the run began",
        ),
    ],
)
def test_an_edited_file_is_named(workdir, files, message):
    config = copy.deepcopy(CONFIG)
    config["inputs"]["data.source"] = files
    with pytest.raises(ValueError, match=message) as caught:
        run_config.check_config(workdir, config, **RULES)
    assert "\n" not in str(caught.value)
    run_config.check_config(workdir, config, requested=True, **RULES)
    assert stored(workdir)["inputs"]["data.source"] == files
    assert list(stored(workdir)["history"][0]["changed"]) == ["inputs.data.source"]


def test_an_edited_tokenizer_is_refused_always(workdir):
    config = copy.deepcopy(CONFIG)
    config["inputs"]["tokenizer"]["spm.model"]["sha256"] = "ff"
    with pytest.raises(
        ValueError, match=r"spm.model of tokenizer was edited since the run began\); another directory"
    ):
        run_config.check_config(workdir, config, requested=True, **RULES)


def test_files_may_be_moved(workdir):
    run_config.check_config(workdir, changed(tokenizer="elsewhere/spm.model"), **RULES)
    config = changed(tokenizer="elsewhere/spm.model")
    config["inputs"]["tokenizer"] = {"spm.model": {"bytes": 6, "sha256": "ff"}}
    with pytest.raises(
        ValueError, match=r"tokenizer: 'spm.model' -> 'elsewhere/spm.model'; spm.model of tok"
    ):
        run_config.check_config(workdir, config, **RULES)


def test_a_config_of_before_there_were_fingerprints_is_accepted(workdir):
    config = stored(workdir)
    del config["inputs"]
    (workdir / "config.json").write_text(json.dumps(config))
    run_config.check_config(workdir, CONFIG, **RULES)


@pytest.mark.parametrize(
    ("content", "message"), [("{", "config.json is damaged"), ("[]", "must hold an object")]
)
def test_a_damaged_config_is_named(workdir, content, message):
    (workdir / "config.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        run_config.check_config(workdir, CONFIG, **RULES)
    assert (workdir / "config.json").read_text() == content


def test_a_missing_config_is_reported(workdir, caplog):
    (workdir / "config.json").unlink()
    run_config.check_config(workdir, CONFIG, **RULES)
    assert "config.json is missing" in caplog.text
    assert stored(workdir) == recorded(CONFIG)


def test_what_is_left_to_the_data_is_as_it_was_found_in_them(tmp_path):
    """The record has what was found, the command what stands for "open", here 0."""
    opened = {"open_fields": ("train.num_samples", "data.source"), "on_request": ("optimizer.learning_rate",)}
    run_config.check_config(tmp_path, changed(train__num_samples=0), **opened)
    (tmp_path / "config.json").write_text(
        json.dumps(run_config.with_fields(stored(tmp_path), {"train.num_samples": 7}))
    )
    checkpoint(tmp_path, 40)
    run_config.check_config(tmp_path, changed(train__num_samples=0), **opened)
    assert stored(tmp_path)["train"]["num_samples"] == 7
    run_config.check_config(tmp_path, changed(train__num_samples=7))
    with pytest.raises(ValueError, match=r"different config \(train.num_samples: 7 -> 8\)"):
        run_config.check_config(tmp_path, changed(train__num_samples=8))
    other = changed(train__num_samples=0, optimizer__learning_rate=0.5)
    run_config.check_config(tmp_path, other, requested=True, **opened)
    assert stored(tmp_path)["train"]["num_samples"] == 7
    assert stored(tmp_path)["history"][0]["changed"] == {"optimizer.learning_rate": [1.0, 0.5]}


def test_what_was_given_must_be_given_again(workdir):
    """It would be found in the data, and may be something else there."""
    with pytest.raises(ValueError, match=r"different config \(train.num_samples: 2 -> 0\)"):
        run_config.check_config(workdir, changed(train__num_samples=0), open_fields=("train.num_samples",))


def test_a_record_that_does_not_say_what_was_open_is_accepted(workdir):
    """As older versions wrote it."""
    record = stored(workdir)
    del record["open_fields"]
    (workdir / "config.json").write_text(json.dumps(record))
    run_config.check_config(workdir, changed(train__num_samples=0), open_fields=("train.num_samples",))
