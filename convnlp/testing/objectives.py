"""The contract of an `Objective`, point by point; docs/your_own_objective.md shows how to use it."""

import dataclasses
import functools
import json
import math
from collections.abc import Callable
from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf

from convnlp import tasks
from convnlp.models import Seq2SeqBackbone
from convnlp.objectives import OBJECTIVES, Seeds, build_objectives, pretraining_loss
from convnlp.testing.learning import require_falling, require_seeded_dropout
from convnlp.testing.requirements import require, require_variants

VOCABULARY_SIZE = 60  # pads, end, unknown, text from 3, ten sentinels
BATCH, LENGTH = 4, 40  # long enough for span corruption to remove several spans
TOKENIZER = SimpleNamespace(
    vocabulary_size=lambda: VOCABULARY_SIZE,
    sentinel_token_ids=tuple(range(59, 49, -1)),
    start_token_id=0,
    end_token_id=1,
    detokenize=lambda rows: [" ".join(map(str, np.asarray(row))) for row in rows],
)
# Kinds of backbones; an objective trains each, or refuses it.
BACKBONES = {
    "encoder and decoder": {},
    "encoder alone": {"num_decoder_layers": 0},
    "decoder alone": {"num_layers": 0, "num_decoder_layers": 1},
    "an encoder that merges positions": {"pool_size": 2, "num_decoder_layers": 0},
    "a mixer that is not causal": {"mixer": "fourier", "num_decoder_layers": 0},
}


@dataclasses.dataclass(frozen=True, eq=False)
class ObjectiveCase:
    """An objective and its options under test.

    Args:
        name: str, a key of `convnlp.objectives.OBJECTIVES`.
        options: tuple of (name, value).
        backbone: str, the key of `BACKBONES` that it trains.
    """

    name: str
    options: tuple
    backbone: str

    def build(self, **changes):
        """Returns the objective, with inputs of `LENGTH` tokens unless its options say otherwise."""
        return build_objectives([self.name], LENGTH, {self.name: dict(self.options) | changes})[0]

    @functools.cached_property
    def _examples(self):
        """A function of (rows, own seed, shared seed) -> examples, traced once as in tf.data."""
        objective = self.build()
        rows, seed = tf.TensorSpec([BATCH, objective.row_length], tf.int32), tf.TensorSpec([2], tf.int64)
        traced = tf.function(lambda rows, *seeds: objective.examples(rows, Seeds(*seeds), TOKENIZER))
        return traced.get_concrete_function(rows, seed, seed)

    def examples(self, own=0, shared=0, text=0):
        """Returns a batch of examples."""
        length = self.build().row_length
        tokens = np.random.default_rng(text).integers(3, 50, [BATCH, length])
        tokens[:, length // 2] = TOKENIZER.end_token_id
        seeds = tf.constant([own, 7], tf.int64), tf.constant([shared, 8], tf.int64)
        return self._examples(tf.constant(tokens, tf.int32), *seeds)

    def loss(self, model):
        """Returns a function of (batch, training) -> the dict that the training loop gets."""
        loss_fn = pretraining_loss(model, [self.build()])
        return lambda batch, training=False: loss_fn(batch, tf.constant([1, 2]), training=training)

    def __str__(self):
        return "-".join([self.name, *(f"{name}={value}" for name, value in self.options)])


def model_of(kind, seed=0, dropout=0.0):
    """Returns a tiny backbone of `BACKBONES`."""
    keras.utils.set_random_seed(seed)
    size = {"num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "kernel_size": 3, "dropout": dropout}
    layers = {"num_layers": 1, "num_decoder_layers": 1, "mixer": "lightweight_conv"}
    return Seq2SeqBackbone(VOCABULARY_SIZE, **{**size, **layers, **BACKBONES[kind]}, max_sequence_length=64)


@functools.cache
def untrained(kind, seed=0):
    """Returns one model of each kind and seed for all checks that do not change its weights."""
    return model_of(kind, seed)


def options_make_an_equal_objective(case):
    """Its fields, written as JSON and read again, make the same objective."""
    objective = case.build()
    options = json.loads(json.dumps(dataclasses.asdict(objective)))
    require(type(objective)(**options) == objective, f"{options} must make {objective} again")


def length_and_weight_are_checked(case):
    """A value out of range is refused with the option's name."""
    for option, value in [("weight", 0.0), ("weight", math.nan), ("input_length", 0)]:
        try:
            case.build(**{option: value})
        except ValueError as error:
            require(option in str(error), f"{error} must name {option}")
        else:
            require(False, f"{option}={value} must be refused")


def examples_have_static_shapes(case):
    """Examples are int32 or bool of static shapes [B,...], and include token ids for the model to read."""
    batch = case.examples()
    for name, value in batch.items():
        require(value.dtype in (tf.int32, tf.bool), f"{name} must be int32 or bool; it is {value.dtype}")
        require(value.shape[0] == BATCH, f"{name} must have {BATCH} rows; its shape is {value.shape}")
    for name, value in case._examples.structured_outputs.items():
        require(value.shape.is_fully_defined(), f"{name} must have a static shape; it has {value.shape}")
    read = [name for name in batch if name.endswith("token_ids") and not name.startswith("target")]
    require(read, f"of {', '.join(batch)} none ends in token_ids")


def examples_stay_in_the_vocabulary(case):
    """No id is out of range."""
    for text in range(4):
        for name, value in case.examples(own=text, shared=text, text=text).items():
            if name.endswith("token_ids"):
                inside = np.all((value >= 0) & (value < VOCABULARY_SIZE))
                require(inside, f"{name} must be in [0, {VOCABULARY_SIZE}); found {np.max(value)}")


def _same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


def examples_follow_the_seeds(case):
    """The same seeds give the same examples, and other seeds others."""
    require(_same(case.examples(), case.examples()), "the same seeds must give the same examples")
    others = [case.examples(own=n, shared=n) for n in range(1, 9)]
    require(not all(_same(case.examples(), other) for other in others), "other seeds must give others")


def all_workers_have_equally_many_targets(case):
    """The number of targets does not depend on a worker's text or own seed."""
    loss = tf.function(case.loss(untrained(case.backbone)), autograph=False)
    for shared in range(4):
        counts = {float(loss(case.examples(n, shared, n))[case.name][1]) for n in range(4)}
        require(len(counts) == 1 and min(counts) > 0, f"workers have {sorted(counts)} targets")


def loss_is_the_sum_over_examples(case):
    """Two halves of a batch add up to the whole: no example affects another's loss."""
    loss, batch = case.loss(untrained(case.backbone)), case.examples()
    halves = [{name: value[i : i + BATCH // 2] for name, value in batch.items()} for i in (0, BATCH // 2)]
    whole = np.array(loss(batch)[case.name])
    parts = sum(np.array(loss(half)[case.name]) for half in halves)
    np.testing.assert_allclose(parts, whole, rtol=1e-5)


def a_new_model_knows_nothing(case):
    """A new model's loss is about that of a guess among all tokens, ln V nats.

    If a target stands where it is to be predicted, the loss is lower: a new model passes on its inputs. The
    tolerance is a fifth, because the logits of a new model are not quite equal.
    """
    scores = [case.loss(untrained(case.backbone, n))(case.examples(n, n, n)) for n in range(4)]
    mean = np.mean([score[case.name][0] / score[case.name][1] for score in scores])
    guess = math.log(VOCABULARY_SIZE)
    require(abs(mean - guess) < guess / 5, f"the loss of a new model is {mean:.2f}; a guess has {guess:.2f}")


def loss_falls(case):
    """A tiny model learns one batch by heart."""
    model, batch = model_of(case.backbone), case.examples()
    loss = case.loss(model)
    require_falling(model, lambda: loss(batch, training=True))


def dropout_follows_the_seed(case):
    """Dropout is active in training alone, and the same for the same seed, so that a resumed run repeats."""
    model = model_of(case.backbone, dropout=0.5)
    require_seeded_dropout(pretraining_loss(model, [case.build()]), case.examples())


def every_backbone_is_trained_or_refused(case):
    """`check` refuses, naming the objective, or the loss is finite."""
    for kind in BACKBONES:
        model = untrained(kind)
        try:
            case.build().check(model)
        except ValueError as error:
            require(case.name in str(error), f"{error} must name {case.name}")
            require(kind != case.backbone, f"{kind} must be trained: {error}")
            continue
        loss = case.loss(model)(case.examples())["loss_sum"]
        require(np.isfinite(loss), f"the loss of {kind} must be finite; it is {loss}")


def lengths_and_shares_are_what_is_trained(case):
    """`target_length` is that of targets if a decoder learns, else 0; `logits_per_token` is a share."""
    objective, batch = case.build(), case.examples()
    share, length = objective.logits_per_token, objective.target_length
    require(0 <= share <= 1, f"`logits_per_token` must be in [0, 1]; it is {share}")
    written = [name for name, value in batch.items() if value.shape[1:] == (length,)]
    require(written or not length, f"`target_length` is {length}, the length of none of {', '.join(batch)}")
    model = untrained("encoder and decoder")
    try:
        objective.check(model)
    except ValueError:
        return
    variables = model.decoder.trainable_variables
    with tf.GradientTape() as tape:
        total, *_ = objective.loss(model, batch, training=True)
    learns = any(gradient is not None for gradient in tape.gradient(total, variables))
    require(
        learns == (length > 0), f"`target_length` is {length}; a decoder {'learns' if learns else 'idles'}"
    )


def tensors_have_names_of_their_own(case):
    """Objectives can be trained together: no other one, except what it is derived from, uses its names."""
    names, cls = set(case.examples()), OBJECTIVES[case.name]
    for name, other in OBJECTIVES.items():
        if issubclass(cls, other) or issubclass(other, cls):
            continue
        taken = names & set(ObjectiveCase(name, (), case.backbone).examples())
        require(not taken, f"{', '.join(sorted(taken))} must have another name: {name} uses it")


def what_it_gives_people_can_be_used(case):
    """`model` gives the model of a task, and `predictor` three texts for each example, if they give any."""
    objective, backbone = case.build(), model_of(case.backbone)
    made = objective.model(backbone, TOKENIZER)
    require(made is None or tasks.task_of(made), "`model` must give the model of a task")
    predict = objective.predictor(backbone, TOKENIZER)
    for row in [] if predict is None else predict(case.examples()):
        good = len(row) == 3 and all(isinstance(text, str) for text in row)
        require(good, f"`predictor` must give three texts per example; it gives {row}")


OBJECTIVE_SUITE = (
    options_make_an_equal_objective,
    length_and_weight_are_checked,
    examples_have_static_shapes,
    examples_stay_in_the_vocabulary,
    examples_follow_the_seeds,
    all_workers_have_equally_many_targets,
    loss_is_the_sum_over_examples,
    a_new_model_knows_nothing,
    loss_falls,
    dropout_follows_the_seed,
    every_backbone_is_trained_or_refused,
    lengths_and_shares_are_what_is_trained,
    tensors_have_names_of_their_own,
    what_it_gives_people_can_be_used,
)


@dataclasses.dataclass(frozen=True)
class ObjectiveCheck:
    """One check on one case; calling it raises AssertionError if the objective fails it."""

    function: Callable
    case: ObjectiveCase

    def __call__(self):
        self.function(self.case)

    def __str__(self):
        return f"{self.function.__name__}-{self.case}"


def objective_checks(name, variants=({},), backbone="encoder alone"):
    """Returns all checks of an objective.

    Under pytest: `@pytest.mark.parametrize("check", objective_checks("my_objective"), ids=str)`.

    Args:
        name: str, registered by `convnlp.objectives.register_objective`.
        variants: sequence of dicts of its options. Defaults to the objective's defaults.
        backbone: str, a key of `BACKBONES` that it trains. Defaults to "encoder alone".

    Returns:
        List of functions without arguments.

    Raises:
        ValueError: if there is no such objective or backbone, or `variants` does not hold dicts.
    """
    for argument, value, allowed in (("name", name, OBJECTIVES), ("backbone", backbone, BACKBONES)):
        if value not in allowed:
            raise ValueError(f"`{argument}` must be one of {', '.join(allowed)}. Received: {value!r}")
    require_variants(variants)
    cases = [ObjectiveCase(name, tuple(options.items()), backbone) for options in variants]
    return [ObjectiveCheck(function, case) for case in cases for function in OBJECTIVE_SUITE]
