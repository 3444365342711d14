"""Every task passes the suite of its contract."""

import pytest

from convnlp.models import Tokenizer
from convnlp.tasks import TASKS
from convnlp.testing import task_checks
from tests import corpus
from tests.task_table import TASK_TABLE

TOKENIZER = Tokenizer(corpus.tiny_proto())
CHECKS = [check for name, row in TASK_TABLE.items() for check in task_checks(name, TOKENIZER, **row)]


def test_every_task_has_a_row():
    assert list(TASK_TABLE) == list(TASKS)


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_contract(check):
    check()


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match=r"`task.kind` must be one of classification, .*Received: 'tagging'"):
        task_checks("tagging", TOKENIZER, [{}] * 5)
    with pytest.raises(ValueError, match=r"`records` must be at least five\. Received: 1"):
        task_checks("classification", TOKENIZER, [{}])
