"""What a run reads is opened and looked at before it trains: a mistake costs seconds, not the training."""

import json
import os
import re

import pytest
import tensorflow as tf

from convnlp import finetune, outputs, pretrain, product_speed
from convnlp.configs import finetune_classification, finetune_cogs, pretrain_mini
from convnlp.data import SourceError, examples, source_error_message, sources
from convnlp.finetuning import data, steps
from convnlp.layers import MIXERS
from convnlp.runs import components, estimate, experiment
from convnlp.training import loop
from tests import corpus
from tests.data.test_formats import write_table

SMALL = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2, "kernel_size": (3,)}
ROWS = corpus.reviews(40)
BACKBONES = {}


class TrainingHasBegunError(Exception):
    """Raised in place of the first step."""


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    """No step is taken, and one backbone is built for each `config.model`: no test asks anything of it."""

    def train(**arguments):
        raise TrainingHasBegunError(arguments["num_steps"])

    def backbone(config, *arguments):
        key = config.model.to_json()
        return BACKBONES.get(key) or BACKBONES.setdefault(key, build(config, *arguments))

    build = components.backbone
    monkeypatch.setattr(loop, "train", train)
    monkeypatch.setattr(components, "backbone", backbone)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    files = {
        "good": ROWS,
        "field": [*ROWS, {"text": "A lost day."}],
        "label": [*ROWS, {"text": "A lost day.", "label": 7}],
        "list": [*ROWS, {"text": "A lost day.", "label": [0, 1]}],
        "stray": [*ROWS, {"text": "A lost day.", "label": 100_000}],
        "three": [{"text": "A lost day.", "label": i % 2} for i in range(3)],
        "verdicts": [{"inputs": row["text"], "targets": str(row["label"])} for row in ROWS],
        "number": [*({"inputs": "a", "targets": "b"} for _ in ROWS), {"inputs": "a", "targets": 3}],
        "late": [*({"text": text} for text in corpus.documents(500)), {"texts": "A lost day."}],
        "documents": [{"text": text} for text in corpus.documents(500)],
    }
    for name, rows in files.items():
        corpus.write_jsonl(folder / f"{name}.jsonl", rows)
    return folder


def run(program, config, folder, workdir, **fields):
    """Runs a program with the fields as `data_source="good"`, names of the folder's files."""
    config.model.update(SMALL)
    config.tokenizer, config.init_from = str(folder / "spm.model"), ""
    config.data.input_length = 16
    config.train.batch_size = 4
    config.train.deterministic = False  # a setting of the whole process
    for field, value in fields.items():
        part, _, name = field.partition("_")
        config[part][name] = f"jsonl:{folder}/{value}.jsonl" if name.endswith("source") else value
    open_fields = {finetune: steps.open_fields, pretrain: pretrain.open_fields}[program](config)
    program.run(config, str(workdir), experiment.prepare(config, str(workdir), open_fields=open_fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data_test_source": "nothing"}, "nothing.jsonl: no such file"),
        ({"data_test_source": "field"}, "field.jsonl, line 41: no field 'label'"),
        ({"data_test_source": "label"}, "line 41: label '7' is not one of the 2 classes"),
        (
            {"data_test_source": "list"},
            r"list.jsonl, line 41: `label` must be an integer in \[0, 2\). Received: \[0, 1\]",
        ),
        ({"data_test_source": "good", "data_test_split": "test"}, "good.jsonl has no split 'test'"),
        (
            {"data_test_source": "three", "data_test_split": "train[3:]"},
            r"three.jsonl: split train\[3:\] contains none",
        ),
        ({"data_validation_source": "label"}, "label.jsonl, line 41: label '7' is not one of"),
        ({"data_source": "list"}, "list.jsonl, line 41: `label` must be a string or an integer"),
        ({"data_source": "stray"}, "stray.jsonl, line 41: label 100000 would make 100001 classes"),
        ({"data_source": "three"}, r"three.jsonl: split train\[:5%\] contains none of the 3"),
        ({"data_source": "field"}, "field.jsonl, line 41: no field 'label'"),
        ({"task_second_text_field": "other"}, "good.jsonl, line 1: no field 'other'"),
        ({"task_label_field": "topic"}, "good.jsonl, line 1: no field 'topic'"),
    ],
)
def test_classification(folder, tmp_path, fields, message):
    fields = {"data_source": "good", "data_validation_split": "train"} | fields
    if fields["data_source"] == "three":
        fields["data_validation_split"] = "train[:5%]"
    with pytest.raises((SourceError, tf.errors.OpError)) as caught:
        run(finetune, finetune_classification.get_config(), folder, tmp_path / "run", **fields)
    with pytest.raises(SourceError, match=message):
        raise SourceError(source_error_message(caught.value))


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize(
    ("pooling", "second", "message"),
    [
        ("paire", "", r"`task.pooling` must be one of auto, mean, .* Received: 'paire'$"),
        ("pair", "", r"`task.second_text_field` must be given if .* Received: task.second_text_field='', "),
        (
            "pair",
            "other",
            r"`task.pooling` must not be 'pair' for an encoder that cannot keep two texts of a row apart. "
            r"Received: task.pooling='pair', pool_size=\[1\], mixer=\['linformer'\]$",
        ),
    ],
)
def test_a_pooling_that_cannot_be_is_refused_before_the_data_are_read(
    folder, tmp_path, monkeypatch, kind, pooling, second, message
):
    monkeypatch.setattr(data, "read_sources", lambda *_: pytest.fail("the data are read"))
    fields = {"data_source": "good", "data_validation_split": "train", "task_kind": kind}
    fields |= {"model_mixer": "linformer", "task_pooling": pooling, "task_second_text_field": second}
    with pytest.raises(ValueError, match=message):
        run(finetune, finetune_classification.get_config(), folder, tmp_path / "run", **fields)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("question_answering", {"pool_size": (2,)}, r"must not merge positions.* pool_size=\[2\]"),
        ("text_to_text", {"num_decoder_layers": 0}, "must have a decoder.* num_decoder_layers=0"),
        (
            "continuation",
            {"num_decoder_layers": 1},
            "must be an encoder alone.* num_decoder_layers=1, pool_size=1",
        ),
        (
            "continuation",
            {"mixer": "fourier", "num_decoder_layers": 0},
            "must have mixers with supports_prefix.* fourier",
        ),
    ],
)
def test_a_model_that_cannot_be_is_refused_before_the_data_are_read(
    folder, tmp_path, monkeypatch, kind, fields, message
):
    monkeypatch.setattr(data, "read_sources", lambda *_: pytest.fail("the data are read"))
    fields = {f"model_{name}": value for name, value in fields.items()} | {"task_kind": kind}
    fields |= {"data_source": "good", "data_validation_split": "train"}
    with pytest.raises(ValueError, match=f"^`backbone` {message}$"):
        run(finetune, finetune_classification.get_config(), folder, tmp_path / "run", **fields)


@pytest.mark.parametrize(
    ("kind", "layers", "lengths", "name", "received"),
    [
        ("classification", (1, 0), (17, 2), "data.input_length", 17),
        ("question_answering", (1, 0), (17, 2), "data.input_length", 17),
        ("continuation", (1, 0), (17, 2), "data.input_length", 17),
        ("text_to_text", (1, 1), (17, 16), "data.input_length", 17),
        ("text_to_text", (1, 1), (16, 17), "data.target_length", 17),
        ("text_to_text", (0, 1), (10, 7), "data.input_length + data.target_length", 17),
    ],
)
def test_more_tokens_than_a_model_has_positions_are_refused_before_the_data_are_read(
    folder, tmp_path, monkeypatch, kind, layers, lengths, name, received
):
    monkeypatch.setattr(data, "read_sources", lambda *_: pytest.fail("the data are read"))
    fields = {"model_position_embedding": "learned", "model_max_sequence_length": 16, "task_kind": kind}
    fields |= dict(zip(("model_num_layers", "model_num_decoder_layers"), layers, strict=True))
    fields |= dict(zip(("data_input_length", "data_target_length"), lengths, strict=True))
    with pytest.raises(ValueError, match=f"^`{re.escape(name)}` must be at most 16, .*={received}$"):
        run(finetune, finetune_classification.get_config(), folder, tmp_path / "run", **fields)


@pytest.mark.parametrize(
    ("objective", "options", "layers", "lengths", "name", "received"),
    [
        ("masked_lm", {}, (1, 0), (17, 2), "data.input_length", 17),
        ("masked_lm", {"input_length": 17}, (1, 0), (16, 2), "objective.options.masked_lm.input_length", 17),
        ("masked_lm", {}, (1, 1), (16, 17), "data.target_length", 17),
        ("span_corruption", {"noise_density": 0.7}, (1, 1), (16, 2), "target_length of span_corruption", 28),
        ("prefix_lm", {}, (0, 1), (10, 7), "data.input_length + data.target_length", 17),
    ],
)
def test_rows_that_a_model_cannot_take_are_refused_before_the_text_is_read(
    folder, tmp_path, monkeypatch, objective, options, layers, lengths, name, received
):
    monkeypatch.setattr(sources, "check", lambda *_, **__: pytest.fail("the text is read"))
    config = pretrain_mini.get_config("lightweight_conv")
    config.objective.options[objective].update(options)
    fields = {"data_source": "documents", "data_validation_split": "train", "objective_names": (objective,)}
    fields |= {"model_position_embedding": "learned", "model_max_sequence_length": 16}
    fields |= dict(zip(("model_num_layers", "model_num_decoder_layers"), layers, strict=True))
    fields |= dict(zip(("data_input_length", "data_target_length"), lengths, strict=True))
    with pytest.raises(ValueError, match=f"^`{re.escape(name)}` must be at most 16, .*={received}$"):
        run(pretrain, config, folder, tmp_path / "run", **fields)


def test_obvious_columns_need_no_name(folder, tmp_path):
    rows = [{"Review": row["text"], "stars": row["label"]} for row in ROWS]
    write_table(folder / "table.csv", rows)

    def start(**fields):
        config = finetune_classification.get_config()
        config.data.source = f"csv:{folder}/table.csv"
        with pytest.raises(TrainingHasBegunError):
            run(finetune, config, folder, tmp_path / "run", **fields)
        experiment.finish(str(tmp_path / "run"))

    start()
    task = json.loads((tmp_path / "run" / "config.json").read_text())["task"]
    assert (task["text_field"], task["label_field"]) == ("Review", "stars")
    start()  # goes on
    start(task_text_field="Review", task_label_field="stars")


def test_pretraining_finds_its_text_too(folder, tmp_path):
    text = " ".join(row["text"] for row in ROWS)
    corpus.write_jsonl(folder / "bodies.jsonl", [{"id": index, "body": text} for index in range(40)])

    def start(**given):
        fields = {"data_source": "bodies", "data_validation_split": "train", **given}
        with pytest.raises(TrainingHasBegunError):
            run(pretrain, pretrain_mini.get_config("fourier"), folder, tmp_path / "run", **fields)
        experiment.finish(str(tmp_path / "run"))

    start()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["task"]["text_field"] == "body"
    start()  # goes on
    start(task_text_field="body")


@pytest.mark.parametrize(
    ("program", "fields", "expected"),
    [
        (
            pretrain,
            {"objective_names": ("masked_lm", "prefix_lm"), "objective_noise_density": 0.2},
            (1.2, [0, 0]),
        ),
        (
            pretrain,
            {"objective_names": ("span_corruption", "masked_lm"), "model_num_decoder_layers": 1},
            (0.15, [5, 0]),
        ),
        (finetune, {"task_kind": "continuation"}, (1.0, [0])),
        (finetune, {"task_kind": "classification"}, (0.0, [0])),
    ],
)
def test_the_estimate_counts_the_logits_and_the_targets(
    folder, tmp_path, monkeypatch, program, fields, expected
):
    counted = []
    monkeypatch.setattr(
        estimate,
        "_of",
        lambda config, backbone, length, *counts: counted.extend(counts[:2]),
    )
    monkeypatch.setattr(product_speed, "products_per_second", lambda dtype: 1e9)
    config = pretrain_mini.get_config("lightweight_conv")
    config = config if program is pretrain else finetune_classification.get_config()
    fields = {
        "data_source": "documents" if program is pretrain else "good",
        "model_num_decoder_layers": 0,
        **fields,
    }
    with pytest.raises(TrainingHasBegunError):
        run(program, config, folder, tmp_path / "run", data_validation_split="train", **fields)
    assert (pytest.approx(counted[0]), counted[1]) == expected


def test_a_missing_teacher_is_named_before_anything_is_read(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "read_sources", lambda *_: pytest.fail("the data were read"))
    config = finetune_classification.get_config()
    config.task.options.teachers = ("dynamic_conv_mini_en", str(tmp_path / "nobody"))
    with pytest.raises(ValueError, match=r"preset .*nobody: no such directory"):
        run(finetune, config, folder, tmp_path / "run", data_source="good")
    assert not (tmp_path / "run").exists()


def test_text_to_text(folder, tmp_path):
    fields = {"data_source": "verdicts", "data_validation_split": "train", "data_test_split": "train"}
    config = finetune_cogs.get_config()
    config.model.num_decoder_layers = 1
    with pytest.raises(SourceError, match=r"line 41: `targets` must be a string or .*Received: 3"):
        run(finetune, config, folder, tmp_path / "run", **fields, data_test_source="number")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data_source": "late"}, "late.jsonl, line 501: no field 'text'"),
        ({"data_validation_source": "late"}, "late.jsonl, line 501: no field 'text'"),
        ({"task_text_field": "title"}, "documents.jsonl, line 1: no field 'title'"),
        ({"data_validation_source": "nothing"}, "nothing.jsonl: no such file"),
        ({"data_validation_split": "train[:0%]"}, r"split train\[:0%\] contains none of the 500"),
        ({"data_validation_source": "three"}, "three.jsonl, split train: not enough text for 4 rows"),
    ],
)
def test_pretraining(folder, tmp_path, fields, message):
    fields = {"data_source": "documents", "data_validation_split": "train"} | fields
    config = pretrain_mini.get_config("fourier")
    with pytest.raises(SourceError, match=message):
        run(pretrain, config, folder, tmp_path / "run", **fields)


def test_pretraining_without_a_held_out_split_is_refused_before_anything_is_built(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(components, "tokenizer", lambda config: pytest.fail("the tokenizer was read"))
    config = pretrain_mini.get_config("fourier")
    with pytest.raises(ValueError, match=r"`data.validation_split` must name the split.*=''$"):
        run(pretrain, config, folder, tmp_path / "run", data_source="documents", data_validation_split="")


def test_what_is_right_trains_and_the_config_says_for_how_long(folder, tmp_path, monkeypatch):
    reads, load = [], examples.load
    monkeypatch.setattr(
        examples, "load", lambda source, *a, **k: reads.append(str(source)) or load(source, *a, **k)
    )
    config = finetune_classification.get_config()
    fields = {"data_source": "good", "data_test_source": "three", "data_validation_split": "train[:10]"}
    with pytest.raises(TrainingHasBegunError) as begun:
        run(finetune, config, folder, tmp_path / "run", **fields, data_split="train[8:]", task_num_epochs=5.0)
    assert begun.value.args == (40,)  # 32 examples, 5 epochs, batches of 4
    assert (config.train.num_steps, config.train.eval_every, config.train.checkpoint_every) == (40, 10, 10)
    assert config.optimizer.warmup_steps == 4
    # Nothing is tokenized twice, not even to be counted.
    names = [
        f"jsonl:{folder}/{name}" for name in ("good.jsonl, split train[:10]", "three.jsonl, split train")
    ]
    assert sorted(reads) == sorted([*names, f"jsonl:{folder}/good.jsonl, split train[8:]"])


@pytest.mark.parametrize(
    ("is_grouped", "any_length", "length"), [(True, True, 64), (False, True, 512), (True, False, 512)]
)
def test_batches_are_as_long_as_their_texts(folder, tmp_path, monkeypatch, is_grouped, any_length, length):
    """Unless the config says otherwise, or the mixer's outputs depend on the pads."""
    monkeypatch.setattr(MIXERS["lightweight_conv"], "pad_length_invariant", any_length)
    lengths = []

    def train(**arguments):
        (dataset,) = arguments["dataset"].datasets.values()
        lengths.extend(batch["token_ids"].shape[1] for batch in dataset.take(10))
        raise TrainingHasBegunError

    monkeypatch.setattr(loop, "train", train)
    fields = {"data_source": "good", "data_validation_split": "train", "data_input_length": 512}
    config = finetune_classification.get_config("lightweight_conv")
    with pytest.raises(TrainingHasBegunError):
        run(finetune, config, folder, tmp_path / "run", **fields, data_group_by_length=is_grouped)
    assert {*lengths} == {length}


def test_the_epochs_follow_from_the_size_of_the_data(folder, tmp_path):
    config = finetune_classification.get_config()
    fields = {"data_source": "good", "data_validation_split": "train"}
    for _ in range(2):  # the same command continues the run
        with pytest.raises(TrainingHasBegunError):
            run(finetune, config.copy_and_resolve_references(), folder, tmp_path / "run", **fields)
        kept = json.loads((tmp_path / "run" / "config.json").read_text())
        assert (kept["task"]["num_epochs"], kept["train"]["num_steps"]) == (20.0, 200)  # 40 examples, by 4


def test_the_config_that_is_kept_says_what_runs(folder, tmp_path):
    fields = {"data_source": "good", "data_validation_split": "train"}

    def start(**changes):
        run(finetune, finetune_classification.get_config(), folder, tmp_path / "run", **fields, **changes)

    with pytest.raises(TrainingHasBegunError):
        start(task_num_epochs=5.0)
    kept = json.loads((tmp_path / "run" / "config.json").read_text())
    assert {name: kept["train"][name] for name in ("num_steps", "eval_every", "checkpoint_every")} == {
        "num_steps": 50,  # 40 examples, 5 epochs, batches of 4, in calls of 10
        "eval_every": 10,
        "checkpoint_every": 10,
    }
    assert kept["optimizer"]["warmup_steps"] == 5

    (tmp_path / "run" / "checkpoints" / "00000010").mkdir(parents=True)
    with pytest.raises(TrainingHasBegunError):  # the same command continues the run
        start(task_num_epochs=5.0)
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == kept
    for changes, name in (
        ({"task_num_epochs": 6.0}, "task.num_epochs"),
        ({"task_num_epochs": 5.0, "optimizer_warmup_steps": 7}, "optimizer.warmup_steps"),
    ):
        with pytest.raises(ValueError, match=f"holds a run with a different config .*{name}"):
            start(**changes)


@pytest.mark.parametrize(
    ("num_examples", "num_epochs", "num_steps", "is_said"),
    [
        (320, 10.0, 100, False),
        (300, 2.0, 20, False),
        (352, 1.0, 10, False),
        (60, 1.0, 10, True),
        (400, 1.2, 20, True),
    ],
)
def test_epochs_become_whole_calls_of_the_graph(caplog, num_examples, num_epochs, num_steps, is_said):
    """Of 10 steps, of 32 examples each."""
    config = finetune_classification.get_config()
    config.task.num_epochs = num_epochs
    steps.resolve(config, num_examples)
    assert config.train.num_steps == num_steps
    assert ("(train.steps_per_call)" in caplog.text) == is_said


def test_more_steps_than_can_be_counted(folder, tmp_path):
    fields = {"data_source": "good", "data_validation_split": "train", "task_num_epochs": 1e300}
    with pytest.raises(ValueError, match=r"`task.num_epochs` must give fewer than 2147483648 steps"):
        run(finetune, finetune_classification.get_config(), folder, tmp_path / "run", **fields)


def test_a_run_does_not_write_over_what_it_reads(folder, tmp_path, monkeypatch):
    corpus.write_jsonl(tmp_path / "metrics.jsonl", ROWS)
    config = finetune_classification.get_config()
    fields = {"data_source": "good", "data_validation_split": "train"}
    config.data.test_source = f"jsonl:{tmp_path}/*.jsonl"
    with pytest.raises(ValueError, match=r"`workdir` must not contain what the run reads.*metrics.jsonl"):
        run(finetune, config, folder, tmp_path, **fields)
    monkeypatch.chdir(tmp_path)
    for preset in ("run/preset", "other/preset"):
        os.makedirs(preset)
    with pytest.raises(ValueError, match=r"`workdir` must not contain .* init_from=run/preset$"):
        outputs.check_run_folder("run", "run/preset", [])
    outputs.check_run_folder("run", "other/preset", ["run/train.jsonl"])


def test_where_not_even_root_can_make_a_file():
    """Root has all permissions in /proc, where nobody can make one."""
    for path in ("/proc/nothing/found.jsonl", "/proc/found.jsonl", "/proc/version"):
        with pytest.raises(ValueError, match=f"^`output` must be writable, but /proc is not.*={path}$"):
            outputs.check_file("output", path)
    for path in ("/proc/nothing/run", "/proc"):
        with pytest.raises(ValueError, match=f"^`workdir` must be writable, but /proc is not.*={path}$"):
            outputs.check_folder("workdir", path)


def test_a_folder_behind_a_url_is_only_for_those_who_take_it():
    with pytest.raises(ValueError, match="`output` must be a path on this machine"):
        outputs.check_folder("output", "gs://bucket/predictions")
    outputs.check_folder("output", "gs://bucket/predictions", takes_urls=True)


@pytest.mark.parametrize("check", [outputs.check_file, outputs.check_folder])
def test_an_empty_path_is_not_the_working_directory(check):
    with pytest.raises(ValueError, match=r"^`output` must not be empty. Received: output=''$"):
        check("output", "")


def test_a_run_needs_a_directory(folder):
    config = finetune_classification.get_config()
    with pytest.raises(ValueError, match=r"^`workdir` must not be empty. Received: workdir=''$"):
        run(finetune, config, folder, "", data_source="good")


def test_a_check_leaves_nothing_behind(tmp_path):
    outputs.check_file("output", tmp_path / "new" / "scores.json")
    outputs.check_folder("output", tmp_path / "new" / "run")
    assert os.listdir(tmp_path) == []


def test_an_output_file(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    os.symlink(tmp_path / "file", tmp_path / "link")
    for path, message in {
        tmp_path: "`output` must be a file, not a directory or a device",
        os.devnull: "`output` must be a file, not a directory or a device",
        "gs://bucket/scores.json": "`output` must be a path on this machine",
        tmp_path / "file" / "scores.json": "`output` must be writable, but .*/file is not",
        tmp_path / "link": "`output` must not overwrite the input .*/file",
    }.items():
        with pytest.raises(ValueError, match=message):
            outputs.check_file("output", path, inputs=[tmp_path / "file"])
    outputs.check_file("output", tmp_path / "new" / "scores.json", inputs=[tmp_path / "file"])
    with monkeypatch.context() as patch:  # root may write everywhere
        patch.setattr(os, "access", lambda path, _: path != tmp_path)
        with pytest.raises(ValueError, match=f"must be writable, but {tmp_path} is not.*/other$"):
            outputs.check_file("output", path=(tmp_path / "other"))
        with pytest.raises(ValueError, match=f"must be writable, but {tmp_path} is not.*/file$"):
            outputs.check_file("output", path=(tmp_path / "file"))
    assert not (tmp_path / "new").exists()
    outputs.write_file(tmp_path / "new" / "scores.json", json.dumps([1]).encode())
    assert os.listdir(tmp_path / "new") == ["scores.json"]
