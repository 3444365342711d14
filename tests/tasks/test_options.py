"""A task's own options: fields with a default and a rule, which a config sets by name."""

import dataclasses
from typing import ClassVar

import pytest

from convnlp import finetune
from convnlp.configs import common, finetune_classification
from convnlp.data import Source, rules
from convnlp.models import Tokenizer
from convnlp.options import options_of
from convnlp.runs import experiment, stages
from convnlp.tasks import TASKS, Classification, build_task, check_options, option
from tests import corpus

TOKENIZER = Tokenizer(corpus.tiny_proto())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cautious(Classification):
    """Of which only the options are asked."""

    name: ClassVar[str] = "cautious"
    margin: float = option(0.1, rules.number("[0, 1)"))
    sides: str = option("both", rules.one_of(("left", "right", "both")))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(TASKS, "cautious", Cautious)


OPTIONS = ", ".join([*options_of(Classification), "margin", "sides"])


def config_with(options, kind="cautious"):
    config = common.get_config()
    config.update_from_flattened_dict(
        {"task.kind": kind, "task.label_names": ("bad", "good"), "data.input_length": 16}
        | {f"task.options.{name}": value for name, value in options.items()}
    )
    return config.lock()


def test_options_reach_the_task_and_others_keep_their_defaults():
    config = config_with({"margin": 0.3})
    task = build_task(config, TOKENIZER, Source("jsonl:none.jsonl"))
    assert (task.margin, task.sides, task.sequence_length) == (0.3, "both", 16)
    assert config.to_dict()["task"]["options"] == {"margin": 0.3}  # what config.json says
    (stage,) = stages.of(config)
    assert check_options(stages.config_of(config, stage)) == {"margin": 0.3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"margn": 0.3},
            f"task cautious has no option `margn`; it has {OPTIONS}; did you mean margin?",
        ),
        (
            {"text_fields": "a"},
            f"The task cautious has no option `text_fields`; it has {OPTIONS}",
        ),
        ({"margin": 1.0}, r"`margin` of cautious must be a number in \[0, 1\)\. Received: margin=1\.0"),
        ({"margin": "wide"}, r"`margin` of cautious must be a number .* Received: margin='wide'"),
        ({"sides": {"left": 1}}, r"`sides` of cautious must be one of left, right, both\. Received: sides={"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_read_or_built(options, message, tmp_path):
    config = finetune_classification.get_config("dynamic_conv")
    config.tokenizer, config.data.source = str(tmp_path / "none.model"), f"jsonl:{tmp_path}/none.jsonl"
    config.task.kind = "cautious"
    config.train.deterministic = False  # a setting of the whole process
    config.task.options.update(options)
    workdir = str(tmp_path / "run")
    strategy = experiment.prepare(config, workdir)
    with pytest.raises(ValueError, match=message):
        finetune.run(config, workdir, strategy)
    experiment.finish(workdir)


def test_a_task_without_options_has_none():
    config = config_with({"margin": 0.3}, kind="text_to_text")
    with pytest.raises(ValueError, match="The task text_to_text has no option `margin`; it has none"):
        check_options(config)


def test_a_rule_holds_for_tasks_made_in_python_too():
    task = build_task(config_with({}), TOKENIZER, Source("jsonl:none.jsonl"))
    with pytest.raises(ValueError, match=r"`margin` of cautious must be .*margin=-1"):
        dataclasses.replace(task, margin=-1)
