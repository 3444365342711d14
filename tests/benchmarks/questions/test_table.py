import json

import pytest

from benchmarks.comparison.cells import Cell
from benchmarks.comparison.tasks import named_task
from benchmarks.questions import long_range, table
from tests import documentation

FOLDERS = {"data_dir": "DATA", "mixture_dir": "MIXTURE", "presets_dir": "PRESETS", "workdir": "WORKDIR"}


def plans(name, tokens=(10e6,), seeds=(1,)):
    return table.plans(table.QUESTIONS[name], tokens, seeds, FOLDERS)


@pytest.mark.parametrize("name", table.QUESTIONS)
def test_every_question_can_be_planned(name):
    question = table.QUESTIONS[name]
    for _, task, plan in plans(name):
        longest = table.MAX_LENGTH if name in table.SHARED else max(long_range.LENGTHS)
        assert plan.data.length <= plan.longest == longest
        assert plan.amount == (table.STEPS | long_range.STEPS)[task]
        assert plan.path(plan.data.source).startswith("jsonl:DATA/")
        for mixer in plan.mixers:
            assert plan.cells(mixer)
    assert any(mixer.startswith(table.BASELINE) for mixer in question.mixers)


def test_pretraining_is_asked_about_on_eight_sets_of_single_texts():
    assert len([name for name in table.TEXTS if named_task(name).kind == "classification"]) == 8
    assert "cogs_variable_free" in table.TEXTS
    assert not any(named_task(name).second_text_field for name in table.TEXTS | table.FEW_LABELS)
    assert all(named_task(name).second_text_field for name in table.PAIRS)


def test_all_questions_share_the_encoders_of_a_mixer():
    found = {
        cell.name
        for name in table.SHARED
        for _, _, plan in plans(name)
        for mixer in plan.mixers
        if mixer.startswith("dynamic_conv") and not set(mixer.split(":")[1:]) - {"task.pooling=pair"}
        for cell in plan.cells(mixer)
        if cell.kind == "pretrain"
    }
    assert len(found) == 1


def test_more_tokens_are_more_encoders_with_the_same_trials_for_one_question_alone():
    assert plans("rq1", (10e6, 30e6))[0][0] == 10e6
    assert len(plans("rq1", (10e6, 30e6))) == len(plans("rq1"))
    found = {amount: plan for amount, _, plan in plans("rq2", (10e6, 30e6))}
    kinds = {amount: {} for amount in found}
    for amount, plan in found.items():
        for cell in plan.cells("dynamic_conv"):
            kinds[amount].setdefault(cell.kind, set()).add(cell.name)
    assert kinds[10e6]["pretrain_trial"] == kinds[30e6]["pretrain_trial"]
    assert not kinds[10e6]["pretrain"] & kinds[30e6]["pretrain"]
    assert not kinds[10e6]["finetune"] & kinds[30e6]["finetune"]


@pytest.mark.parametrize("name", table.QUESTIONS)
def test_models_without_pretraining_are_trained_only_where_a_table_shows_them(name):
    shown = name in ("rq1", "rq1_spans", "lra")
    for _, _, plan in plans(name):
        starts = {
            cell.settings["start"] for cell in plan.cells(plan.mixers[0]) if cell.kind.startswith("finetune")
        }
        assert starts == ({"scratch", "pretrained"} if shown else {"pretrained"})


def test_questions_about_texts_that_are_found_take_the_rates_of_other_pairs():
    (plan,) = (plan for _, task, plan in plans("rq4") if task == "squad")
    assert (plan.data.kind, plan.data.length) == ("question_answering", 256)
    trials = [cell for cell in plan.cells("dynamic_conv") if cell.kind == "finetune_trial"]
    assert {cell.settings["source"] for cell in trials} == {named_task("snli").source}
    other = next(plan for _, task, plan in plans("rq4") if task == "snli")
    assert {cell.name for cell in trials} < {cell.name for cell in other.cells("dynamic_conv")}


def test_long_texts_share_an_encoder_and_its_rates_and_nothing_with_words():
    (short_amount, _, short), (amount, _, long) = plans("lra", (30e6,))
    assert amount == short_amount == long_range.PRETRAIN_BYTES
    for mixer in short.mixers:
        kinds = [{}, {}]
        for plan, found in zip((short, long), kinds, strict=True):
            for cell in plan.cells(mixer):
                found.setdefault(cell.kind, set()).add(cell.name)
        for kind in ("pretrain_trial", "pretrain", "finetune_trial"):
            assert kinds[0][kind] == kinds[1][kind]
        assert not kinds[0]["finetune"] & kinds[1]["finetune"]
        assert len(kinds[0]["finetune_trial"]) == 4
    names = {
        name: {
            cell.name
            for each in chosen
            for _, _, plan in plans(each)
            for mixer in plan.mixers
            for cell in plan.cells(mixer)
        }
        for name, chosen in (("words", table.SHARED), ("bytes", ("lra",)))
    }
    assert not names["words"] & names["bytes"]
    for plan in (short, long):
        assert plan.path(plan.tokenizer) == "WORKDIR/bytes.spm"
        assert plan.batch_size * plan.data.length == long_range.STEP_BYTES
        # The pre-training reads just the reviews that the task is trained on, and chooses by the others.
        for name in ("source", "split", "validation_split"):
            assert getattr(plan.pretraining, name) == getattr(plan.data, name)


def test_no_setting_names_a_directory():
    for name in table.QUESTIONS:
        for _, _, plan in plans(name):
            for mixer in plan.mixers:
                text = str([cell.settings for cell in plan.cells(mixer)])
                assert not any(folder in text for folder in FOLDERS.values())


def test_the_cells_that_are_kept_are_those_of_the_questions():
    """Their names are hashes of their settings: a change of these would throw them away."""
    kept = json.loads((documentation.ROOT / "docs" / "paper.json").read_text())["cells"]
    planned = {
        cell.name
        for name in table.QUESTIONS
        for _, _, plan in plans(name, tokens=(10e6, 30e6), seeds=(1, 2, 3))
        for mixer in plan.mixers
        for cell in plan.cells(mixer)
    }
    for name, found in kept.items():
        assert Cell(found["kind"], found["settings"]).name == name
        assert name in planned or found["kind"] == "measure"
