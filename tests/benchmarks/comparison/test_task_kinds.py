import pytest

from benchmarks.comparison.plan import Plan
from benchmarks.comparison.task_kinds import KINDS
from benchmarks.comparison.tasks import TASKS, named_task
from convnlp import tasks


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("trec6", "finetune-dynamic_conv-scratch-0-f0e91561ce"),
        ("cogs", "finetune-dynamic_conv-scratch-0-7562db7284"),
        ("squad", "finetune-dynamic_conv-scratch-0-ceabee4d88"),
    ],
)
def test_finished_cells_are_found_by_the_same_names(task, name):
    """The names of directories that exist: if one of these changes, all its kind is computed again."""
    plan = Plan(("dynamic_conv",), (0,), named_task(task), "spm.model")
    assert plan.cells("dynamic_conv")[-1].name == name


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_reports_scores_that_its_task_has(name):
    kind = KINDS[name]
    assert set(kind.metrics.values()) <= set(tasks.TASKS[name].metrics)
    assert "accuracy" in kind.metrics
    assert {score for _, score, _ in kind.columns} == set(kind.metrics)


def test_there_is_a_task_of_every_kind():
    assert {named_task(name).kind for name in TASKS} == set(KINDS)
