"""Each check passes a sound objective and fails one with just its defect."""

import dataclasses

import pytest
import tensorflow as tf

from convnlp import losses
from convnlp.objectives import (
    OBJECTIVES,
    MaskedLanguageModeling,
    Objective,
    PrefixLanguageModeling,
    SpanCorruption,
    register_objective,
)
from convnlp.testing import OBJECTIVE_SUITE, objective_checks
from convnlp.testing.objectives import LENGTH


def no_checks(self):
    pass


def float_positions(self, tokens, seeds, tokenizer):
    batch = MaskedLanguageModeling.examples(self, tokens, seeds, tokenizer)
    return {**batch, "masked_positions": tf.cast(batch["masked_positions"], tf.float32)}


def foreign_tokens(self, tokens, seeds, tokenizer):
    batch = MaskedLanguageModeling.examples(self, tokens, seeds, tokenizer)
    return {**batch, "masked_token_ids": batch["masked_token_ids"] + tokenizer.vocabulary_size()}


def one_place_for_ever(self, tokens, seeds, tokenizer):
    seeds = seeds._replace(own=tf.constant([1, 1], tf.int64))
    return MaskedLanguageModeling.examples(self, tokens, seeds, tokenizer)


def a_prefix_of_its_own(self, tokens, seeds, tokenizer):
    return PrefixLanguageModeling.examples(self, tokens, seeds._replace(shared=seeds.own), tokenizer)


def mean_of_the_batch(self, backbone, batch, training):
    total, weight, further = MaskedLanguageModeling.loss(self, backbone, batch, training)
    return total / weight, weight, further


def hide_nothing(self, tokens, seeds, tokenizer):
    batch = MaskedLanguageModeling.examples(self, tokens, seeds, tokenizer)
    return {**batch, "masked_token_ids": tokens}


def no_gradient(self, backbone, batch, training):
    total, weight, further = MaskedLanguageModeling.loss(self, backbone, batch, training)
    return tf.stop_gradient(total) + 0 * total, weight, further


def always_training(self, backbone, batch, training):
    return MaskedLanguageModeling.loss(self, backbone, batch, True)


def never_training(self, backbone, batch, training):
    return MaskedLanguageModeling.loss(self, backbone, batch, False)


def names_of_another(self, tokens, seeds, tokenizer):
    return {**MaskedLanguageModeling.examples(self, tokens, seeds, tokenizer), "encoder_token_ids": tokens}


def cannot(self, *args):
    raise ValueError("cannot")


DEFECTS = {
    "options_make_an_equal_objective": [(MaskedLanguageModeling, {"__eq__": lambda self, other: False})],
    "length_and_weight_are_checked": [(MaskedLanguageModeling, {"__post_init__": no_checks})],
    "examples_have_static_shapes": [(MaskedLanguageModeling, {"examples": float_positions})],
    "examples_stay_in_the_vocabulary": [(MaskedLanguageModeling, {"examples": foreign_tokens})],
    "examples_follow_the_seeds": [(MaskedLanguageModeling, {"examples": one_place_for_ever})],
    "all_workers_have_equally_many_targets": [(PrefixLanguageModeling, {"examples": a_prefix_of_its_own})],
    "loss_is_the_sum_over_examples": [(MaskedLanguageModeling, {"loss": mean_of_the_batch})],
    "a_new_model_knows_nothing": [(MaskedLanguageModeling, {"examples": hide_nothing})],
    "loss_falls": [(MaskedLanguageModeling, {"loss": no_gradient})],
    "dropout_follows_the_seed": [
        (MaskedLanguageModeling, {"loss": always_training}),
        (MaskedLanguageModeling, {"loss": never_training}),
    ],
    "every_backbone_is_trained_or_refused": [
        (MaskedLanguageModeling, {"check": lambda self, backbone: None})
    ],
    "lengths_and_shares_are_what_is_trained": [
        (MaskedLanguageModeling, {"logits_per_token": -3.0}),
        (MaskedLanguageModeling, {"target_length": LENGTH}),
        (SpanCorruption, {"target_length": 0}),
        (SpanCorruption, {"target_length": 7}),
    ],
    "tensors_have_names_of_their_own": [(MaskedLanguageModeling, {"examples": names_of_another})],
    "what_it_gives_people_can_be_used": [
        (PrefixLanguageModeling, {"model": cannot}),
        (PrefixLanguageModeling, {"model": lambda self, backbone, tokenizer: "no model"}),
        (SpanCorruption, {"predictor": cannot}),
        (SpanCorruption, {"predictor": lambda self, *_: lambda batch: [("input", "target")]}),
    ],
}
# Of those that do not train an encoder alone.
BACKBONES = {SpanCorruption: "encoder and decoder"}


@pytest.fixture
def registered():
    yield
    OBJECTIVES.pop("defective", None)


def run(check_name, base, members):
    cls = type("Defective", (base,), {"name": "defective", **members})
    register_objective(dataclasses.dataclass(frozen=True, kw_only=True, eq="__eq__" not in members)(cls))
    checks = objective_checks("defective", backbone=BACKBONES.get(base, "encoder alone"))
    (check,) = (each for each in checks if each.function.__name__ == check_name)
    check()


def test_there_is_a_defect_for_every_check():
    assert set(DEFECTS) == {function.__name__ for function in OBJECTIVE_SUITE}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_a_check_passes_without_its_defect_and_fails_with_it(name, registered):
    for base in dict(DEFECTS[name]):
        run(name, base, {})
    for base, members in DEFECTS[name]:
        with pytest.raises((AssertionError, ValueError, tf.errors.InvalidArgumentError)):
            run(name, base, members)


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match=r"`name` must be one of .*Received: 'shuffle'"):
        objective_checks("shuffle")
    with pytest.raises(ValueError, match=r"`backbone` must be one of encoder and.*Received: 'none'"):
        objective_checks("masked_lm", backbone="none")
    with pytest.raises(ValueError, match=r"`variants` must hold .*Received: \[\]"):
        objective_checks("masked_lm", [])
    with pytest.raises(ValueError, match=r"`variants` must hold dicts .*Received: \{'weight': 2\}"):
        objective_checks("masked_lm", {"weight": 2})


def test_what_is_no_objective_is_not_registered(registered):
    with pytest.raises(ValueError, match="`cls` must be a subclass of Objective"):
        register_objective(losses.cross_entropy)
    with pytest.raises(ValueError, match="with all its methods"):
        register_objective(type("Half", (Objective,), {"name": "half"}))
    with pytest.raises(ValueError, match=r"'masked_lm' is convnlp\.objectives\.masked_lm\."):
        register_objective(type("Other", (MaskedLanguageModeling,), {}))
    with pytest.raises(ValueError, match=r"must be an identifier\. Received: name='a b'"):
        register_objective(type("Spaced", (MaskedLanguageModeling,), {"name": "a b"}))
