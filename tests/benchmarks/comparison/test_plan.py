import dataclasses
import re

import pytest

from benchmarks.comparison.cells import missing, preset_of
from benchmarks.comparison.plan import Plan, Pretraining, steps_of, training_flops
from benchmarks.comparison.tasks import Data
from benchmarks.comparison.variants import Variant

DATA = Data("jsonl:train", "train", "valid", "jsonl:test", "test", ("a", "b"), length=16)
PRETRAINING = Pretraining("raw", amount=5, trial_amount=2, learning_rates=(1e-3,), length=24)
PLAN = Plan(("dynamic_conv", "fourier"), (0, 1), DATA, "spm.model", pretraining=PRETRAINING)


def names(plan, mixer="dynamic_conv"):
    return {cell.name for cell in plan.cells(mixer)}


def changed(plan=PLAN, pretraining=None, **fields):
    """How many of the cells another setting makes new."""
    if pretraining:
        fields["pretraining"] = dataclasses.replace(plan.pretraining, **pretraining)
    return len(names(dataclasses.replace(plan, **fields)) - names(plan))


def test_the_cells_of_a_mixer():
    cells = PLAN.cells("dynamic_conv")
    assert [cell.kind for cell in cells] == ["measure", "pretrain", *["finetune"] * 4]
    runs = [(cell.settings["seed"], cell.settings["start"]) for cell in cells[2:]]
    assert runs == [(0, "scratch"), (0, "pretrained"), (1, "scratch"), (1, "pretrained")]
    assert cells[1].name.startswith("pretrain-dynamic_conv-")
    assert cells[3].name.startswith("finetune-dynamic_conv-pretrained-0-")
    assert len(names(PLAN) | names(PLAN, "fourier")) == 12


def test_variants_of_a_mixer_have_cells_of_their_own():
    rows = ("synthesizer", "synthesizer:modes=dense", "synthesizer:modes=dense:rank=4", "synthesizer:rank=4")
    cells = [cell for row in rows for cell in PLAN.cells(row)]
    assert len({cell.name for cell in cells}) == len(cells)
    assert cells[6].name.startswith("measure-synthesizer-modes-dense-")
    for cell in cells:
        assert not set(cell.name) & set(":=/\"'")


def test_without_raw_text_there_is_no_pretraining():
    plan = dataclasses.replace(PLAN, pretraining=None)
    assert [cell.kind for cell in plan.cells("fourier")] == ["measure", "finetune", "finetune"]


def test_models_with_random_weights_can_be_left_out():
    plan = dataclasses.replace(PLAN, from_scratch=False)
    assert plan.starts == ("pretrained",)
    left_out = names(PLAN) - names(plan)
    assert names(plan) < names(PLAN)
    assert len(left_out) == 2
    assert all(name.startswith("finetune-dynamic_conv-scratch-") for name in left_out)
    alone = dataclasses.replace(plan, pretraining=None)
    assert alone.starts == ("scratch",)


def test_a_changed_setting_makes_just_the_cells_new_that_depend_on_it():
    assert changed() == 0
    assert changed(mixers=("muse",)) == 0
    assert changed(amount=700) == 4
    assert changed(learning_rates=(1e-3,)) == 4
    assert changed(data=dataclasses.replace(DATA, test_split="other")) == 4
    assert changed(pretraining={"amount": 6}) == 3  # the pre-training, and what starts from it
    assert changed(batch_size=8) == 5  # of texts, not of the rows of pre-training
    assert changed(data=dataclasses.replace(DATA, length=20)) == 5
    assert changed(data=dataclasses.replace(DATA, length=32)) == 6  # the longest row of all
    assert changed(max_length=24) == 0
    assert changed(max_length=32) == 6
    assert changed(seeds=(0, 1, 2)) == 2
    assert changed(folders={"data_dir": "elsewhere"}) == 0


def test_a_pretraining_is_shared_by_tasks_and_by_rows_with_another_head():
    other = dataclasses.replace(PLAN, data=dataclasses.replace(DATA, source="jsonl:other", length=20))
    pretrainings = [
        next(cell.name for cell in plan.cells(row) if cell.kind == "pretrain")
        for plan in (PLAN, other)
        for row in ("dynamic_conv", "dynamic_conv:task.pooling=pair")
    ]
    assert len(set(pretrainings)) == 1
    assert not names(PLAN) & names(PLAN, "dynamic_conv:task.pooling=pair") - set(pretrainings)


GRIDS = dataclasses.replace(
    PLAN,
    learning_rates=(1e-4, 1e-3),
    pretraining=dataclasses.replace(PRETRAINING, learning_rates=(1e-3, 2e-3, 4e-3)),
)


def test_rows_of_another_objective_share_what_begins_without_a_pretraining():
    row, other = (PLAN.cells(f"dynamic_conv{end}") for end in ("", ":pretraining.objective=span_corruption"))
    own = {cell.name for cell in other} - {cell.name for cell in row}
    kinds = [(cell.kind, cell.settings.get("start")) for cell in other if cell.name in own]
    assert kinds == [("pretrain", None), ("finetune", "pretrained"), ("finetune", "pretrained")]
    assert len({cell.name for cell in row} & {cell.name for cell in other}) == 3


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("fourier:pretraining.objective=span_corruption", "must be able to decode for"),
        ("fourier:pretraining.objective=unilm", "must have pretraining.objective as one of masked_lm, span"),
        ("fourier:pretraining.rate=1", "must set fields of .*pretraining.objective"),
    ],
)
def test_bad_objectives_are_named(row, message):
    with pytest.raises(ValueError, match=message):
        Variant.parse(row)


def test_of_several_rates_each_is_tried_once_and_what_follows_depends_on_the_trials():
    cells = GRIDS.cells("dynamic_conv")
    kinds = ["measure", *["pretrain_trial"] * 3, "pretrain", *["finetune_trial"] * 4, *["finetune"] * 4]
    assert [cell.kind for cell in cells] == kinds
    assert [cell.settings["learning_rate"] for cell in cells[1:4]] == [1e-3, 2e-3, 4e-3]
    assert cells[4].settings["trials"] == [cell.name for cell in cells[1:4]]
    assert cells[4].settings["amount"] == 5
    assert cells[1].settings["amount"] == 2
    tried = [(cell.settings["start"], cell.settings["learning_rate"]) for cell in cells[5:9]]
    assert tried == [(start, rate) for start in ("scratch", "pretrained") for rate in (1e-4, 1e-3)]
    assert {cell.settings["start"] for cell in cells[5:7]} == {"scratch"}
    assert cells[9].settings["trials"] == [cell.name for cell in cells[5:7]]  # from scratch
    assert cells[10].settings["trials"] == [cell.name for cell in cells[7:9]]  # pre-trained
    # A longer pre-training has the same trials of its rate, but other encoders to fine-tune.
    assert changed(GRIDS, pretraining={"amount": 6}) == 1 + 2 + 2


def test_the_rate_may_be_chosen_on_another_task():
    other = dataclasses.replace(DATA, source="jsonl:other")
    plan = dataclasses.replace(GRIDS, trial_data=other, trial_amount=30)
    trials = [cell for cell in plan.cells("fourier") if cell.kind == "finetune_trial"]
    assert {cell.settings["source"] for cell in trials} == {"jsonl:other"}
    assert {cell.settings["amount"] for cell in trials} == {30}
    task = dataclasses.replace(plan, data=dataclasses.replace(DATA, source="jsonl:third"))
    assert {cell.name for cell in trials} < names(task, "fourier")


def test_seconds_need_measurements_of_both_lengths():
    plan = dataclasses.replace(
        PLAN, budget="seconds", pretraining=dataclasses.replace(PRETRAINING, budget="seconds")
    )
    cells = plan.cells("fourier")
    assert [cell.settings["length"] for cell in cells if cell.kind == "measure"] == [16, 24]
    assert cells[2].settings["measure"] == cells[1].name
    assert cells[3].settings["measure"] == cells[0].name


def test_a_lost_encoder_is_computed_again_if_something_starts_from_it(tmp_path):
    cells = PLAN.cells("fourier")
    assert missing(cells, tmp_path) == cells
    for cell in cells:
        cell.directory(tmp_path).mkdir(parents=True)
        (cell.directory(tmp_path) / "result.json").write_text("{}")
    assert missing(cells, tmp_path) == []
    (cells[-1].directory(tmp_path) / "result.json").unlink()
    assert [cell.kind for cell in missing(cells, tmp_path)] == ["pretrain", "finetune"]
    preset_of(cells[1].name, tmp_path).mkdir()
    assert missing(cells, tmp_path) == cells[-1:]


@pytest.mark.parametrize("plan", [PLAN, dataclasses.replace(GRIDS, trial_data=DATA, folders={"a": "b"})])
def test_a_plan_survives_its_file(plan, tmp_path):
    plan.write(tmp_path / "plan.json")
    again = Plan.read(tmp_path / "plan.json")
    assert again == plan
    assert names(again) == names(plan)


def test_a_result_is_found_by_its_cell(tmp_path):
    cell = PLAN.cells("fourier")[0]
    assert cell.result(tmp_path) is None
    cell.directory(tmp_path).mkdir(parents=True)
    (cell.directory(tmp_path) / "result.json").write_text('{"parameters": 3}')
    assert cell.result(tmp_path) == {"parameters": 3}


def test_steps_of_each_budget():
    cost = {"steps": 1, "seconds": 0.25, "flops": training_flops(multiply_adds=100, batch_size=2)}
    assert cost["flops"] == 1200
    assert steps_of("steps", 600, cost, 10) == 600
    assert steps_of("steps", 609, cost, 10) == 600
    assert steps_of("tokens", 10e6, {"tokens": 32 * 128}, 10) == 2440
    assert steps_of("seconds", 60, cost, 10) == 240
    assert steps_of("flops", 1.2e6, cost, 10) == 1000
    assert steps_of("flops", 1, cost, 10) == 10


@pytest.mark.parametrize(
    ("field", "value"), [("size", "base"), ("budget", "epochs"), ("amount", 0), ("learning_rates", [])]
)
def test_bad_settings_are_named(field, value):
    with pytest.raises(ValueError, match=rf"`--{field}` must .*Received: {re.escape(repr(value))}"):
        dataclasses.replace(PLAN, **{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [("budget", "epochs"), ("amount", 0), ("trial_amount", -1), ("learning_rates", [1e-3, 1e-3])],
)
def test_bad_settings_of_pretraining_are_named(field, value):
    with pytest.raises(ValueError, match=rf"`--pretrain_{field}` must .*Received: {re.escape(repr(value))}"):
        dataclasses.replace(PRETRAINING, **{field: value})


WRITTEN = dataclasses.replace(DATA, kind="text_to_text", target_length=20)


def test_a_text_to_be_written_has_no_measurement():
    plan = dataclasses.replace(PLAN, data=WRITTEN, mixers=("dynamic_conv",))
    assert [cell.kind for cell in plan.cells("dynamic_conv")] == ["pretrain", *["finetune"] * 4]
    other = dataclasses.replace(plan, data=dataclasses.replace(WRITTEN, target_length=21))
    assert len(names(other) - names(plan)) == 4


def test_a_question_answerer_has_no_measurement_and_needs_no_decoder():
    data = dataclasses.replace(DATA, kind="question_answering", second_text_field="context")
    plan = dataclasses.replace(PLAN, data=data)
    assert [cell.kind for cell in plan.cells("fourier")] == ["pretrain", *["finetune"] * 4]
    assert not names(plan) & names(dataclasses.replace(plan, data=DATA)) - {
        plan.cells("dynamic_conv")[0].name
    }
    with pytest.raises(ValueError, match=r"`--budget` must not be seconds.*'seconds'"):
        dataclasses.replace(plan, budget="seconds")


def test_splits_of_the_pretraining_text_decide_only_where_they_are_given():
    assert not {"split", "validation_split"} & set(PLAN.cells("fourier")[1].settings)
    splits = {"split": "train[9:]", "validation_split": "train[:9]"}
    assert changed(pretraining=splits) == 3
    plan = dataclasses.replace(PLAN, pretraining=dataclasses.replace(PRETRAINING, **splits))
    assert splits.items() <= plan.cells("fourier")[1].settings.items()
    with pytest.raises(ValueError, match=r"`validation_split` of a pre-training .*split='train'"):
        dataclasses.replace(PRETRAINING, split="train")


def test_trials_may_have_batches_of_their_own():
    other = dataclasses.replace(GRIDS, batch_size=8, trial_batch_size=32)
    kinds = {}
    for plan in (GRIDS, other):
        for cell in plan.cells("fourier"):
            kinds.setdefault(cell.kind, []).append((cell.name, cell.settings.get("batch_size")))
    assert len(set(kinds["finetune_trial"])) == 4  # the same for both
    assert len(set(kinds["finetune"])) == 8
    assert {size for _, size in kinds["finetune"]} == {8, 32}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mixers": ("fourier",)}, r"`--mixers` must be able to decode.*Received: 'fourier'"),
        ({"mixers": ("dynamic_conv",), "budget": "seconds"}, r"`--budget` must not be seconds.*'seconds'"),
    ],
)
def test_what_cannot_write_is_said(fields, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PLAN, data=WRITTEN, **fields)
