"""Masked LM on a user's own text before fine-tuning, by one field of the config."""

import json
import random
import signal

import keras
import numpy as np
import pytest

from convnlp import adaptation, finetune
from convnlp.configs import finetune_classification
from convnlp.data import SourceError
from convnlp.finetuning import steps
from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer
from convnlp.runs import components, config_rules, experiment
from convnlp.training import loop
from convnlp.training.stopping import StoppedError
from tests import corpus

SIZE = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 16, "kernel_size": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adaptation")
    rows = corpus.reviews(600)
    corpus.write_jsonl(folder / "reviews.jsonl", rows[:64])
    corpus.write_jsonl(folder / "unlabelled.jsonl", [{"text": " ".join(r["text"] for r in rows)}] * 20)
    keras.utils.set_random_seed(0)
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(tokenizer.vocabulary_size(), **SIZE, num_decoder_layers=0)
    for part in (backbone, tokenizer):
        part.save_to_preset(str(folder / "preset"))
    return folder


def config_of(folder, unlabelled="unlabelled.jsonl"):
    config = finetune_classification.get_config()
    fields = {
        "init_from": str(folder / "preset"),
        "data.source": f"jsonl:{folder}/reviews.jsonl",
        "data.input_length": 16,
        "train.deterministic": False,  # a setting of the whole process
        "train.dtype": "float32",
        "task.num_epochs": 5.0,
        "task.unlabelled_source": f"jsonl:{folder}/{unlabelled}",
    }
    config.update_from_flattened_dict(fields)
    return config


def run(config, workdir, **options):
    strategy = experiment.prepare(config, str(workdir), open_fields=steps.open_fields(config))
    try:
        finetune.run(config, str(workdir), strategy, **options)
    finally:
        experiment.finish(str(workdir))


def embeddings(preset):
    return Seq2SeqBackbone.from_preset(str(preset)).token_embedding.get_weights()[0]


@pytest.mark.slow
def test_fine_tuning_starts_from_what_the_text_has_taught_and_teaches_it_once(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(adaptation, "NUM_STEPS", 10)
    trained, train = [], loop.train

    def watched(**arguments):
        summary = train(**arguments)
        trained.append(
            (arguments["num_steps"], [np.array(v) for v in arguments["model"].trainable_variables])
        )
        return summary

    monkeypatch.setattr(loop, "train", watched)
    built, build = [], components.backbone

    def watched_build(config, *arguments):
        built.append((config.init_from, build(config, *arguments)))
        return built[-1][1]

    monkeypatch.setattr(components, "backbone", watched_build)
    run(config_of(folder), tmp_path)

    adapted = tmp_path / "adapted"
    own = json.loads((adapted / "config.json").read_text())
    assert (own["objective"]["names"], own["data"]["input_length"]) == (["masked_lm"], 128)
    assert own["init_from"] == str(folder / "preset")
    assert [steps for steps, _ in trained] == [10, 10]
    assert [start for start, _ in built] == [str(folder / "preset")] * 2 + [str(adapted / "preset")]
    assert np.abs(embeddings(adapted / "preset") - embeddings(folder / "preset")).max() > 1e-4
    assert isinstance(TextClassifier.from_preset(str(tmp_path / "preset")), TextClassifier)
    assert json.loads((tmp_path / "config.json").read_text())["init_from"] == str(folder / "preset")

    run(config_of(folder), tmp_path)  # the same command: nothing is trained twice
    assert [steps for steps, _ in trained] == [10, 10, 10]  # which does nothing but load what there is
    assert len(built) == 5


@pytest.mark.parametrize(
    ("unlabelled", "error"),
    [
        ("none.jsonl", "none.jsonl"),
        ("empty.jsonl", "empty.jsonl"),
        ("bad.jsonl", "line 1"),
        ("one.jsonl", r"one.jsonl: split train\[:10%\] contains none of the 1"),
    ],
)
def test_the_text_is_looked_at_before_anything_is_trained(folder, tmp_path, unlabelled, error):
    (folder / "empty.jsonl").write_text("")
    (folder / "bad.jsonl").write_text('{"bodies": "no text", "others": "nor here"}\n')
    (folder / "one.jsonl").write_text('{"text": "one text"}\n')
    config = config_of(folder, unlabelled)
    with pytest.raises(SourceError, match=error):
        run(config, tmp_path)
    assert not (tmp_path / "adapted").exists()
    assert not (tmp_path / "preset").exists()


@pytest.mark.parametrize("size", [{"num_layers": 0, "num_decoder_layers": 1}, {"pool_size": 2}])
def test_a_model_that_a_masked_lm_cannot_train_is_refused_before_its_texts_are_read(folder, size):
    size = {**SIZE, "num_decoder_layers": 0, "mixer": "dynamic_conv", **size}
    with pytest.raises(ValueError, match=r"`task.unlabelled_source` must be empty unless the model"):
        adaptation.check(config_of(folder, "none.jsonl"), Seq2SeqBackbone(200, **size))


def test_a_column_of_row_numbers_is_not_the_text(folder, tmp_path):
    rows = "".join(f"{i},{row['text']}\n" for i, row in enumerate(corpus.reviews(5)))
    (tmp_path / "numbered.csv").write_text(f",body\n{rows}")  # as pandas writes it
    config = config_of(folder)
    config.task.text_field, config.task.unlabelled_source = "review", f"csv:{tmp_path}/numbered.csv"
    assert adaptation._text_field(config) == "body"


def test_the_head_is_the_same_whether_or_not_steps_were_taken(folder, tmp_path, monkeypatch):
    config, workdir, drawn = config_of(folder), str(tmp_path), []
    begin_adapted(monkeypatch, tmp_path)
    for _ in range(2):  # the second start finds the preset of the first
        strategy = experiment.prepare(config, workdir, open_fields=steps.open_fields(config))
        assert adaptation.run(config, workdir, strategy) == f"{tmp_path}/adapted/preset"
        drawn.append(random.random())
        experiment.finish(workdir)
    assert drawn[0] == drawn[1]


def test_what_was_trained_on_other_texts_is_not_taken(folder, tmp_path, monkeypatch):
    begin_adapted(monkeypatch, tmp_path)
    corpus.write_jsonl(tmp_path / "others.jsonl", [{"text": text} for text in corpus.documents(30)])
    config, workdir = config_of(folder), str(tmp_path)
    strategy = experiment.prepare(config, workdir, open_fields=steps.open_fields(config))
    adaptation.run(config, workdir, strategy)
    experiment.finish(workdir)
    # The fine-tuning itself has no checkpoint yet: its config may change, but not what it starts from.
    config.task.unlabelled_source = f"jsonl:{tmp_path}/others.jsonl"
    strategy = experiment.prepare(config, workdir, open_fields=steps.open_fields(config))
    message = r"`workdir` .*adapted holds a run with a different config \(data.source: "
    with pytest.raises(ValueError, match=message):
        adaptation.run(config, workdir, strategy)
    experiment.finish(workdir)
    (tmp_path / "checkpoints" / "00000004").mkdir(parents=True)  # with which the config was compared
    assert adaptation.run(config, workdir, strategy) == f"{tmp_path}/adapted/preset"


def test_a_run_that_was_interrupted_goes_on_with_a_change_that_is_allowed(folder, tmp_path, monkeypatch):
    texts = [{"text": text} for text in corpus.documents(30)]
    source = corpus.write_jsonl(tmp_path / "texts.jsonl", texts)
    config, begun = config_of(folder), []
    config.task.unlabelled_source = f"jsonl:{source}"

    def train(own, folder, strategy):
        begun.append(folder)
        (tmp_path / "adapted" / "checkpoints" / "00000500").mkdir(parents=True, exist_ok=True)
        raise StoppedError(signal.SIGTERM, 500)

    def start(**options):
        run(config.copy_and_resolve_references(), tmp_path, **options)

    monkeypatch.setattr(adaptation.pretrain, "run", train)
    with pytest.raises(StoppedError):
        start()
    corpus.write_jsonl(tmp_path / "texts.jsonl", texts[1:])
    with pytest.raises(ValueError, match=r"texts.jsonl of data.source was edited .*; --resume_with_changes"):
        start()
    assert len(begun) == 1
    with pytest.raises(StoppedError):
        start(resume_with_changes=True)
    assert len(begun) == 2


def test_a_refusal_leaves_nothing(folder, tmp_path, monkeypatch):
    def refuse(own, folder, strategy):
        assert (tmp_path / "adapted" / "config.json").exists()
        raise ValueError("refused")

    monkeypatch.setattr(adaptation.pretrain, "run", refuse)
    config, workdir = config_of(folder), str(tmp_path)
    strategy = experiment.prepare(config, workdir, open_fields=steps.open_fields(config))
    with pytest.raises(ValueError, match="refused"):
        adaptation.run(config, workdir, strategy)
    experiment.finish(workdir)
    assert not (tmp_path / "adapted").exists()


def begin_adapted(monkeypatch, workdir):
    """Leaves what the run of the masked LM leaves, in place of it, and draws random numbers as it does."""

    def run(config, folder, strategy):
        random.random()
        (workdir / "adapted" / "checkpoints" / "00001000").mkdir(parents=True)
        (workdir / "adapted" / "preset").mkdir()
        (workdir / "adapted" / "preset" / "config.json").write_text("{}")
        experiment.finish(folder)

    monkeypatch.setattr(adaptation.pretrain, "run", run)


def test_it_takes_1000_steps_whatever_fine_tuning_takes_at_once(folder, tmp_path, monkeypatch):
    rows = [{"remarks": text, "text": "of another kind"} for text in corpus.documents(20)]
    corpus.write_jsonl(folder / "remarks.jsonl", rows)
    config = config_of(folder, "remarks.jsonl")
    config.train.steps_per_call = 16
    config.optimizer.schedule, config.optimizer.decay_steps = "warmup_flat_linear", 2000
    config.task.text_field = "remarks"
    run_of = []
    monkeypatch.setattr(adaptation.pretrain, "run", lambda *arguments: run_of.append(arguments))
    workdir = str(tmp_path)
    strategy = experiment.prepare(config, workdir, open_fields=steps.open_fields(config))
    adaptation.run(config, workdir, strategy, longest_text=64)
    experiment.finish(workdir)
    ((own, *_),) = run_of
    assert own.data.input_length == 64
    assert own.optimizer.warmup_steps == 100
    assert (own.train.num_steps, own.train.num_steps % own.train.steps_per_call) == (1000, 0)
    assert own.task.text_field == "remarks"


def test_a_run_that_is_to_end_does_not_begin_with_it(folder, tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(adaptation.pretrain, "run", lambda *arguments: begun.append(arguments))
    with pytest.raises(
        ValueError, match=r"`finish` needs a run with a checkpoint\. Received: finish=True, and no"
    ):
        run(config_of(folder), tmp_path, finish=True)
    assert not begun


def test_without_a_preset_there_is_nothing_to_train_on(folder):
    config = config_of(folder)
    config.init_from = ""
    with pytest.raises(ValueError, match=r"`task\.unlabelled_source` must be empty if `init_from` is"):
        config_rules.check(config)


class TrainingHasBegunError(Exception):
    """Raised in place of the first step."""


def test_teachers_answer_the_text_instead(folder, tmp_path, monkeypatch):
    """What equals an example with a label is left out."""
    texts = [*corpus.documents(100), *(row["text"] for row in corpus.reviews(64))]
    corpus.write_jsonl(folder / "others.jsonl", [{"text": text} for text in texts])
    model = TextClassifier(
        Seq2SeqBackbone.from_preset(str(folder / "preset")),
        2,
        TextClassifierPreprocessor(Tokenizer(corpus.tiny_proto()), 16),
        labels=["0", "1"],
    )
    model.save_to_preset(str(tmp_path / "teacher"))
    config = config_of(folder, "others.jsonl")
    config.task.options.teachers = (str(tmp_path / "teacher"),)
    config.train.batch_size, config.train.steps_per_call = 4, 1
    config.task.num_epochs = 1.0
    trained = []

    def train(**arguments):
        trained.append(arguments["num_steps"])
        raise TrainingHasBegunError

    monkeypatch.setattr(loop, "train", train)
    with pytest.raises(TrainingHasBegunError):
        run(config, tmp_path / "run")
    assert not (tmp_path / "run" / "adapted").exists()
    assert trained[0] == pytest.approx((64 - 12 + 100) / 4, abs=1)  # a fifth is held out
