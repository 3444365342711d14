import dataclasses

import pytest

from benchmarks.comparison.plan import Data, Plan, named_task, steps_of, training_flops

DATA = Data("jsonl:train", "train", "valid", "jsonl:test", "test", ("a", "b"), length=16)
PLAN = Plan(("dynamic_conv", "fourier"), (0, 1), DATA, "spm.model", pretrain_source="raw", pretrain_amount=5)


def names(plan, mixer="dynamic_conv"):
    return {cell.name for cell in plan.cells(mixer)}


def changed(**fields):
    """How many of the six cells another setting makes new."""
    return len(names(dataclasses.replace(PLAN, **fields)) - names(PLAN))


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
    plan = dataclasses.replace(PLAN, pretrain_source="")
    assert [cell.kind for cell in plan.cells("fourier")] == ["measure", "finetune", "finetune"]


def test_a_changed_setting_makes_just_the_cells_new_that_depend_on_it():
    assert changed() == 0
    assert changed(mixers=("muse",)) == 0
    assert changed(amount=700) == 4
    assert changed(learning_rate=1e-3) == 4
    assert changed(data=dataclasses.replace(DATA, test_split="other")) == 4
    assert changed(pretrain_amount=6) == 3  # the pre-training, and what starts from it
    assert changed(batch_size=8) == 6
    assert changed(data=dataclasses.replace(DATA, length=32)) == 6
    assert changed(seeds=(0, 1, 2)) == 2


def test_a_plan_survives_its_file(tmp_path):
    PLAN.write(tmp_path / "plan.json")
    again = Plan.read(tmp_path / "plan.json")
    assert again == PLAN
    assert names(again) == names(PLAN)


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
    assert steps_of("seconds", 60, cost, 10) == 240
    assert steps_of("flops", 1.2e6, cost, 10) == 1000
    assert steps_of("flops", 1, cost, 10) == 10


@pytest.mark.parametrize(
    ("field", "value"), [("size", "base"), ("budget", "epochs"), ("amount", 0), ("pretrain_amount", 0)]
)
def test_bad_settings_are_named(field, value):
    with pytest.raises(ValueError, match=rf"`--{field}` must .*Received: {value!r}"):
        dataclasses.replace(PLAN, **{field: value})


def test_tasks_by_name():
    data = named_task("trec6", "DATA")
    assert data.source == "jsonl:DATA/classification/trec6.{split}.jsonl.gz"
    assert (data.split, data.test_split, len(data.label_names)) == ("train[10%:]", "test", 6)
    with pytest.raises(ValueError, match=r"`--task` must be one of trec6, sst2.*Received: 'trec'"):
        named_task("trec", "DATA")
