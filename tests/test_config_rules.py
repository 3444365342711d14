"""The rules of config values: every field has one, and a value that breaks it is one clear line."""

import importlib
import math

import pytest

from convnlp.configs import common, finetune_classification, finetune_cogs
from convnlp.runs import config_rules
from convnlp.runs.config_fields import FIELDS
from tests.test_configs import FILES

RULES = {name: field.rule for name, field in FIELDS.items() if field.rule}


def fields(config, prefix=""):
    for name, value in config.items():
        if isinstance(value, dict):
            yield from fields(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def test_every_field_has_a_rule_and_a_meaning():
    assert {*fields(common.get_config().to_dict())} == {*RULES}
    of_options = {"model.mixer_options", "objective.options", "task.options"}
    assert {name for name, field in FIELDS.items() if field.help} == {*RULES} | of_options


@pytest.mark.parametrize("name", FILES)
def test_every_config_keeps_them(name):
    config_rules.check(importlib.import_module(f"convnlp.configs.{name}").get_config())


@pytest.mark.parametrize("path", RULES)
@pytest.mark.parametrize(
    "value",
    [math.nan, -1, "", [[]], {"a": object()}, 10**400, True],
    ids=["nan", "-1", "empty", "nested", "dict", "huge", "bool"],
)
def test_no_value_is_too_strange_for_a_rule(path, value):
    rule = RULES[path]
    if rule.holds(value):
        rule.check(path, value)
    else:
        with pytest.raises(ValueError, match=f"^`{path}` must be .*Received: {path}=") as caught:
            rule.check(path, value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("seed", -1, "an integer >= 0. Received: seed=-1"),
        ("seed", 2**31, "an integer >= 0"),
        ("model.dropout", 1.0, r"a number in \[0, 1\)\. Received: model.dropout=1.0"),
        ("model.kernel_size", (), "one integer >= 1, or one per layer"),
        ("model.kernel_size", (3, 0), "one integer >= 1, or one per layer"),
        ("model.hidden_dim", 0, "None or an integer >= 1"),
        ("data.input_length", 0, "an integer >= 2"),
        ("data.target_length", -5, "an integer >= 2"),
        ("data.shuffle_buffer", -1, "an integer >= 0"),
        ("objective.names", (), "a non-empty sequence of different values, each a non-empty string"),
        ("objective.names", ("masked_lm", "masked_lm"), "different values"),
        (
            "objective.noise_density",
            math.nan,
            r"a number in \(0, 1\)\. Received: objective.noise_density=nan",
        ),
        ("objective.noise_density", 1.5, r"a number in \(0, 1\)"),
        ("objective.mean_span_length", 0.0, r"a number in \[1, inf\)"),
        ("objective.mean_span_length", math.inf, r"a number in \[1, inf\)"),
        ("optimizer.weight_decay", math.nan, r"a number in \[0, inf\)"),
        ("optimizer.beta_2", 1.0, r"a number in \[0, 1\)"),
        ("train.batch_size", 0, "an integer >= 1"),
        ("train.batch_size", True, "an integer >= 1"),
        ("train.eval_batches", -3, "an integer >= 1"),
        ("train.num_samples", -1, "an integer >= 0"),
        ("train.dtype", "float16", "one of auto, float32, mixed_bfloat16"),
        ("task.label_names", ("a", "b", "a"), "empty, or a sequence of at least 2 different values"),
        ("task.label_names", ("a", ""), "empty, or a sequence"),
        ("task.num_epochs", math.nan, r"None or a number in \[0, inf\)\. Received: task.num_epochs=nan"),
        ("task.num_epochs", math.inf, r"a number in \[0, inf\)"),
        ("task.num_epochs", -1.0, r"a number in \[0, inf\)"),
        ("task.head_dropout", 1.0, r"a number in \[0, 1\)"),
    ],
)
def test_a_value_out_of_range(path, value, message):
    config = finetune_classification.get_config()
    parent, _, name = path.rpartition(".")
    (config[parent] if parent else config)[name] = value
    with pytest.raises(ValueError, match=f"^`{path}` must be .*{message}"):
        config_rules.check(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train.num_steps": 1501}, "`train.num_steps` must be a multiple of `train.steps_per_call`"),
        ({"train.eval_every": 7}, "`train.eval_every` must be a multiple of `train.steps_per_call`"),
        ({"optimizer.warmup_steps": 1500}, r"`warmup_steps` must be in \[0, num_steps\)"),
        (
            {"optimizer.schedule": "warmup_flat_linear", "optimizer.decay_steps": 1501},
            r"`decay_steps` must be in \[0, num_steps\]",
        ),
        ({"data.source": "xls:a.xls"}, r"`source` must be one of tfds:NAME.* Received: 'xls:a.xls'"),
        ({"data.test_source": "a.jsonl"}, r"`source` must be one of tfds:NAME.* Received: 'a.jsonl'"),
        ({"data.validation_split": "train[5]"}, r"`split` must be a name .* Received: 'train\[5\]'"),
        ({"data.validation_split": "valid"}, "jsonl:a.jsonl has no split 'valid'"),
    ],
)
def test_values_that_do_not_go_together(changes, message):
    config = finetune_cogs.get_config()
    config.data.source = "jsonl:a.jsonl"
    config.data.validation_split = "train"
    config.update_from_flattened_dict(changes)
    with pytest.raises(ValueError, match=message):
        config_rules.check(config)
