"""Every task passes the suite of its contract."""

import pytest
from tensorflow.python.autograph.impl import api

from convnlp.models import Tokenizer
from convnlp.tasks import TASKS
from convnlp.testing import task_checks
from tests import corpus
from tests.task_table import TASK_TABLE, TEXT_PAIR_TO_TEXT

TOKENIZER = Tokenizer(corpus.tiny_proto())
CHECKS = [check for name, row in TASK_TABLE.items() for check in task_checks(name, TOKENIZER, **row)]
CHECKS += task_checks("text_to_text", TOKENIZER, **TEXT_PAIR_TO_TEXT)


def test_every_task_has_a_row():
    assert list(TASK_TABLE) == list(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_the_best_step_has_the_smallest_loss_or_the_most_that_is_right(name):
    metric, direction = TASKS[name].best
    assert direction == ("min" if metric == "valid/loss" else "max")


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_contract(check):
    check()


@pytest.mark.parametrize("name", TASK_TABLE)
def test_reading_and_batching_do_without_autograph(name, monkeypatch):
    """It takes a program seconds, and none of them has a branch on a tensor."""
    converted, convert = [], api.converted_call

    def recording(f, *args, **kwargs):
        converted.append(f)
        return convert(f, *args, **kwargs)

    monkeypatch.setattr(api, "converted_call", recording)
    case = next(check.case for check in CHECKS if check.case.name == name)
    found = case.task.read(case.source)
    for training in (False, True):
        assert next(iter(case.task.batches(found, 2, training=training)))
    assert [f for f in converted if f.__module__.startswith("convnlp")] == []


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match=r"`task.kind` must be one of classification, .*Received: 'tagging'"):
        task_checks("tagging", TOKENIZER, [{}] * 5)
    with pytest.raises(ValueError, match=r"`records` must be at least five\. Received: 1"):
        task_checks("classification", TOKENIZER, [{}])
