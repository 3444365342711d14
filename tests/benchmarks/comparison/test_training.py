"""The cells that train, in this process, on a few made-up examples."""

import dataclasses
import json
import sys

import pytest

from benchmarks.comparison import cells, configs, training, worker
from benchmarks.comparison.plan import Plan, Pretraining
from benchmarks.comparison.tasks import Data
from convnlp.models import Seq2SeqBackbone, Seq2SeqLM
from convnlp.objectives import span_corruption
from convnlp.runs import components
from convnlp.training.finite import NonFiniteError
from tests import corpus

ROW = "cross_segment_attention:model.kernel_size=3+5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sentences, of whose beginning a model is to write the beginning."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    texts = corpus.documents(400)
    rows = [{"inputs": text[:40], "targets": text[:20]} for text in texts[:60]]
    corpus.write_jsonl(folder / "rows.jsonl", rows)
    corpus.write_jsonl(folder / "texts.jsonl", [{"text": text} for text in texts])
    return folder


@pytest.fixture(scope="module")
def plan(folder):
    source = "jsonl:{folder}/rows.jsonl"
    data = Data(
        source=source,
        split="train[30%:]",
        validation_split="train[:15%]",
        test_source=source,
        test_split="train[15%:30%]",
        label_names=(),
        length=24,
        text_field="inputs",
        label_field="targets",
        kind="text_to_text",
        target_length=16,
    )
    return Plan(
        mixers=(ROW,),
        seeds=(1,),
        data=data,
        tokenizer="{folder}/spm.model",
        size="tiny",
        batch_size=4,
        amount=20,
        learning_rates=(1e-3,),
        pretraining=Pretraining("jsonl:{folder}/texts.jsonl", amount=40 * 4 * 24, batch_size=4, length=24),
        folders={"folder": str(folder)},
    )


def test_an_encoder_is_given_the_decoder_that_it_has_from_scratch(plan):
    scratch = configs.finetune_config(plan, ROW, plan.data, 1e-3)
    tuned = configs.finetune_config(plan, ROW, plan.data, 1e-3, preset="PRESET")
    built = components.backbone(scratch, 300, "float32")
    encoder = components.backbone(configs.pretrain_config(plan, ROW, 1e-3), 300, "float32")
    mixer = tuned.model.decoder_mixer
    given = encoder.with_decoder(tuned.model.num_decoder_layers, mixer, tuned.model.cross_attention_init)
    for side in ("encoder", "decoder"):
        found, expected = (
            [
                (layer.mixer.name, layer.mixer.kernel_size)
                for layer in getattr(model, side).layers
                if hasattr(layer.mixer, "kernel_size")
            ]
            for model in (given, built)
        )
        assert found == expected
        assert [type(layer.mixer) for layer in getattr(given, side).layers] == [
            type(layer.mixer) for layer in getattr(built, side).layers
        ]
    assert given.cost(24, 16)["parameters"] == built.cost(24, 16)["parameters"]


@pytest.mark.parametrize(("kind", "score"), [("text_to_text", -1.5), ("classification", 1.5)])
def test_a_trial_has_a_score_that_is_higher_where_it_is_better(plan, monkeypatch, kind, score):
    """A loss is better where it is lower, an accuracy where it is higher."""
    plan = dataclasses.replace(plan, data=dataclasses.replace(plan.data, kind=kind))
    monkeypatch.setattr(training, "_finetune", lambda *_: {"best_value": 1.5})
    cell = cells.Cell("finetune_trial", {"learning_rate": 1e-3})
    assert training.finetune_trial(plan, cell, None) == {"learning_rate": 1e-3, "score": score}


def test_a_trial_that_diverges_has_no_score(plan, monkeypatch):
    def diverge(*_):
        raise NonFiniteError("the loss is not finite")

    monkeypatch.setattr(training, "_finetune", diverge)
    cell = cells.Cell("finetune_trial", {"learning_rate": 1e3})
    assert training.finetune_trial(plan, cell, None) == {"learning_rate": 1e3, "score": None}
    monkeypatch.setattr(training, "_pretrain", lambda *_, **__: {"score": float("nan")})
    assert training.pretrain_trial(plan, cell, None) == {"learning_rate": 1e3, "score": None}


def test_what_a_stopped_cell_took_is_added_up(tmp_path, monkeypatch):
    clocks = {"cpu_seconds": iter([10.0, 12.0, 100.0, 101.0]), "seconds": iter([0.0, 4.0, 7.0, 10.0])}
    monkeypatch.setattr(worker, "_CLOCKS", {name: clock.__next__ for name, clock in clocks.items()})
    with pytest.raises(SystemExit), worker.counted(tmp_path / "spent.json"):
        sys.exit(143)
    with worker.counted(tmp_path / "spent.json"):
        pass
    assert json.loads((tmp_path / "spent.json").read_text()) == {"cpu_seconds": 3.0, "seconds": 7.0}


@pytest.mark.parametrize("row", [ROW, f"{ROW}:pretraining.objective=span_corruption"])
@pytest.mark.slow
def test_texts_are_written_from_both_starts(plan, row, tmp_path):
    worker.compute(plan, tmp_path, row)
    assert cells.missing(plan.cells(row), tmp_path) == []
    for cell in plan.cells(row):
        result = cell.result(tmp_path)
        assert result["cpu_seconds"] > 0
        if cell.kind == "pretrain" and "span" in row:  # its rows of text are longer than what is read
            assert result["tokens"] == result["steps"] * 4 * span_corruption.lengths(24)[0] <= 40 * 4 * 24
            preset = Seq2SeqBackbone.from_preset(str(cells.preset_of(cell.name, tmp_path)))
            assert preset.decoder is not None
        if cell.kind == "finetune":
            assert len(result["hits"]) == len(result["lengths"]) == 9
            assert result["accuracy"] == pytest.approx(sum(result["hits"]) / 9)
            assert result["steps"] == 20
            assert result["dtype"] in ("float32", "mixed_bfloat16")
            assert Seq2SeqLM.from_preset(str(cells.preset_of(cell.name, tmp_path))).backbone.decoder


@pytest.fixture(scope="module")
def asked(plan, folder):
    """A plan of questions for which a word stands that is in the context."""
    rows = [
        {"question": text.split()[1], "context": text, "answers": [text.split()[1], text.split()[0]]}
        for text in corpus.documents(60)
    ]
    corpus.write_jsonl(folder / "asked.jsonl", rows)
    data = dataclasses.replace(
        plan.data,
        source="jsonl:{folder}/asked.jsonl",
        test_source="jsonl:{folder}/asked.jsonl",
        length=128,  # with room for answers of 30 tokens in windows that overlap
        text_field="question",
        second_text_field="context",
        label_field="answers",
        kind="question_answering",
        target_length=0,
    )
    return dataclasses.replace(plan, data=data, mixers=("dynamic_conv",), amount=10, pretraining=None)


def test_a_pair_head_is_a_summary_of_the_question_where_answers_are_pointed_at(asked):
    """Without it the mixer alone relates question and context; a class is pooled from both instead."""
    for row, summary in (("dynamic_conv", False), ("dynamic_conv:task.pooling=pair", True)):
        config = configs.finetune_config(asked, row, asked.data, 1e-3)
        assert config.task.kind == "question_answering"
        assert config.task.options.to_dict() == {"question_summary": summary}
        fields = config.task.question_field, config.task.context_field, config.task.answers_field
        assert fields == ("question", "context", "answers")
    classified = dataclasses.replace(asked.data, kind="classification")
    assert configs.finetune_config(asked, row, classified, 1e-3).task.pooling == "pair"


@pytest.mark.slow
def test_questions_are_scored_one_by_one(asked, tmp_path):
    worker.compute(asked, tmp_path, "dynamic_conv", kinds=("finetune",))
    (cell,) = (cell for cell in asked.cells("dynamic_conv") if cell.kind == "finetune")
    result = cell.result(tmp_path)
    assert len(result["hits"]) == len(result["f1s"]) == len(result["lengths"]) == 9
    assert result["accuracy"] == pytest.approx(sum(result["hits"]) / 9)
    assert result["f1"] == pytest.approx(sum(result["f1s"]) / 9)
    assert all(f1 >= hit for f1, hit in zip(result["f1s"], result["hits"], strict=True))
    (step, share), *_ = result["curve"]
    assert step == 10
    assert 0 <= share <= 1


def test_a_trial_has_batches_of_its_own_and_a_pretraining_its_splits(plan, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(training.pretrain, "run", lambda config, *_: seen.append(config))
    monkeypatch.setattr(training.finetune, "run", lambda config, *_: seen.append(config))
    splits = {"split": "train[10:]", "validation_split": "train[:10]"}
    plan = dataclasses.replace(
        plan,
        learning_rates=(1e-3, 2e-3),
        trial_batch_size=8,
        pretraining=dataclasses.replace(plan.pretraining, **splits),
    )
    cells_of = {cell.kind: cell for cell in plan.cells(ROW) if cell.settings.get("start") != "pretrained"}
    for kind in ("pretrain", "finetune_trial"):
        with pytest.raises(FileNotFoundError):  # nothing has been written
            worker.COMPUTE[kind](plan, cells_of[kind], tmp_path)
    assert (seen[0].data.split, seen[0].data.validation_split) == ("train[10:]", "train[:10]")
    assert [config.train.batch_size for config in seen] == [4, 8]


@pytest.mark.slow
def test_pairs_are_read_as_two_texts(plan, folder, tmp_path):
    data = dataclasses.replace(
        plan.data,
        source="jsonl:{folder}/pairs.jsonl",
        test_source="jsonl:{folder}/pairs.jsonl",
        label_names=("same", "other"),
        text_field="text_a",
        second_text_field="text_b",
        label_field="label",
        kind="classification",
    )
    texts = [text[:20] for text in corpus.documents(60)]
    rows = [
        {"text_a": text, "text_b": texts[index - index % 2], "label": index % 2}
        for index, text in enumerate(texts)
    ]
    corpus.write_jsonl(folder / "pairs.jsonl", rows)
    row = "dynamic_conv:task.pooling=pair"
    plan = dataclasses.replace(plan, data=data, mixers=(row,), amount=10, pretraining=None)
    worker.compute(plan, tmp_path, row, kinds=("finetune",))
    (cell,) = (cell for cell in plan.cells(row) if cell.kind == "finetune")
    result = cell.result(tmp_path)
    assert len(result["hits"]) == 9
    assert result["accuracy"] == pytest.approx(sum(result["hits"]) / 9)
    pooled = 8 * 128  # of both texts, their difference and their product, means and maxima
    plain = dataclasses.replace(plan, mixers=("dynamic_conv",))
    worker.compute(plain, tmp_path, "dynamic_conv", kinds=("finetune",))
    (other,) = (cell for cell in plain.cells("dynamic_conv") if cell.kind == "finetune")
    fewer = 2 * 128  # of the row alone
    assert result["parameters"] - other.result(tmp_path)["parameters"] == 2 * (pooled - fewer)
