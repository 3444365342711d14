"""Each check passes a sound task and fails one with just its defect."""

import dataclasses

import keras
import keras_nlp
import pytest
import tensorflow as tf

from convnlp.data import Label
from convnlp.data.source import ALL
from convnlp.models import TextClassifier, TextClassifierPreprocessor, Tokenizer
from convnlp.models.pooled_encoder import PooledEncoder, token_inputs
from convnlp.tasks import TASKS, Classification, Fields, Task, register_task
from convnlp.tasks.classification import ClassifierAnswers
from convnlp.tasks.rows import TEXT, TOKEN_IDS, signature
from convnlp.testing import TASK_SUITE, task_checks
from convnlp.testing.requirements import require_takes
from convnlp.testing.tasks import TaskCase
from tests import corpus

TOKENIZER = Tokenizer(corpus.tiny_proto())
TEXTS = corpus.documents(7, seed=5)
RECORDS = [{"text": text, "label": ("bad", "good")[n % 2]} for n, text in enumerate(TEXTS)]
CONFIG = {"task.label_names": ("bad", "good")}


@keras.saving.register_keras_serializable(package="test_task_suite")
class Model(PooledEncoder, keras_nlp.models.Task):
    """By which `task_of` tells the task of these tests.

    Not a subclass of TextClassifier: `keras_nlp.models.TextClassifier.from_preset`, which other tests of this
    process call, might take it for the class to load.
    """

    def __init__(self, backbone, num_classes, preprocessor=None, labels=None, **kwargs):
        self._take(backbone, preprocessor)
        self.head = keras.layers.Dense(num_classes, dtype="float32", name="head")
        inputs = token_inputs()
        super().__init__(inputs=inputs, outputs=self.head(self.pool(inputs)[0]), **kwargs)
        self.num_classes, self.labels = num_classes, labels

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes, "labels": self.labels}


class Sound(Classification):
    """Classification with a model of its own."""

    model_cls = Model

    def model(self, backbone):
        preprocessor = TextClassifierPreprocessor(self.tokenizer, self.sequence_length)
        return Model(backbone, 2, preprocessor, labels=list(self.label.names))


def first_records(self, source, training=False):
    found = Sound.read(self, source, training)
    return dataclasses.replace(found, columns=(found.columns[0][:-1],), labels=found.labels[:-1])


def as_long_as_the_longest(self, found, batch_size, **options):
    def cut(batch):
        longest = tf.reduce_max(tf.reduce_sum(tf.cast(batch["padding_mask"], tf.int32), axis=1))
        return {name: value[:, :longest] if value.shape.rank == 2 else value for name, value in batch.items()}

    return Sound.batches(self, found, batch_size, **options).map(cut)


def one_order_for_ever(self, found, batch_size, **options):
    return Sound.batches(self, found, batch_size, **{**options, "seed": 0})


def another_order_each_time(self, found, batch_size, **options):
    batches = Sound.batches(self, found, batch_size, **options)
    return batches.take(8).shuffle(8, reshuffle_each_iteration=True)


def changed(**changes):
    """A loss that differs from the sound one in these values, functions of (values, batch)."""

    def loss(self, model):
        sound = Sound.loss(self, model)

        def loss_fn(batch, seed, training=True):
            values = sound(batch, seed, training)
            return {**values, **{name: change(values, batch) for name, change in changes.items()}}

        return loss_fn

    return loss


def rows_count(values, batch):
    return tf.cast(tf.size(batch["label"]), tf.float32)


def no_gradient(values, batch):
    return tf.stop_gradient(values["loss_sum"]) + 0 * values["loss_sum"]


def always_training(self, model):
    sound = Sound.loss(self, model)
    return lambda batch, seed, training=True: sound(batch, seed, True)


def never_training(self, model):
    sound = Sound.loss(self, model)
    return lambda batch, seed, training=True: sound(batch, seed, False)


def without_the_seed(self, model):
    sound = Sound.loss(self, model)
    return lambda batch, seed, training=True: sound(batch, tf.random.uniform([2], 0, 99, tf.int32), training)


def scored(**changes):
    """Scores that differ from the sound ones in these values; None takes one away."""

    def scores(self, model, found, batch_size=32, outputs=None):
        values = {**Sound.scores(self, model, found, batch_size, outputs), **changes}
        return {name: value for name, value in values.items() if value is not None}

    return scores


def scores_without_outputs(self, model, found, batch_size=32):
    return Sound.scores(self, model, found, batch_size)


def of_outputs_otherwise(self, model, found, batch_size=32, outputs=None):
    return Sound.scores(self, model, found, batch_size, None if outputs is None else 2 * outputs)


def review_of_its_own_alone(self, model, found, batch_size=32, outputs=None):
    return Sound.review(self, model, found, batch_size, outputs)


def other_classes(cls, model, source, fields):
    label = Label(fields.label, names=tuple(reversed(model.labels)))
    return dataclasses.replace(super(Sound, cls).from_model(model, source, fields), label=label)


def shorter_texts(cls, model, source, fields):
    return dataclasses.replace(super(Sound, cls).from_model(model, source, fields), sequence_length=4)


class LosesATokenOfIds(ClassifierAnswers):
    def signatures(self, max_length=None):
        signatures, rows = super().signatures(max_length)
        ids = signature(lambda token_ids: self.answer(rows.of_ids(token_ids[:, 1:])), token_ids=TOKEN_IDS)
        return {**signatures, "ids": ids}, rows


class SwapsThePair(ClassifierAnswers):
    def signatures(self, max_length=None):
        signatures, rows = super().signatures(max_length)
        pair = signature(
            lambda text, text_pair: self.answer(rows.of_texts((text_pair, text))), text=TEXT, text_pair=TEXT
        )
        return {**signatures, "pair": pair}, rows


class WithoutIds(ClassifierAnswers):
    def signatures(self, max_length=None):
        signatures, rows = super().signatures(max_length)
        return {"serving_default": signatures["serving_default"]}, rows


class AsksAnotherInput(ClassifierAnswers):
    def signatures(self, max_length=None):
        signatures, rows = super().signatures(max_length)
        ask = signature(lambda question: self.answer(rows.of_texts(question)), question=TEXT)
        return {**signatures, "ask": ask}, rows


class SaysThatItReadsTwoTexts(ClassifierAnswers):
    text_inputs = ("text", "text_pair")

    def signatures(self, max_length=None):
        return ClassifierAnswers(self.model).signatures(max_length)


class WithoutColumns(ClassifierAnswers):
    def row(self, answer, threshold=None):
        return {}


class RowsOfTensors(ClassifierAnswers):
    def row(self, answer, threshold=None):
        return {"label": tf.constant(answer["label"])}


class ScoresOfOthers(ClassifierAnswers):
    def row(self, answer, threshold=None):
        return {"scores": dict.fromkeys(range(2), 0.5)}


class ProbabilitiesOnTheEdge(ClassifierAnswers):
    def edge(self, rows):
        return tf.nn.softmax(super().edge(rows))


class ComparesNothing(ClassifierAnswers):
    def compare(self, outputs, expected):
        return {"largest_error": 0.0}


def wrong_labels(self, outputs, found):
    return {"accuracy": 1 - Sound.edge_scores(self, outputs, found)["accuracy"]}


def refused(*_, **__):
    raise ValueError("refused")


def without(name):
    """Batches that do not know an argument."""

    def batches(self, found, batch_size, **order):
        order.pop(name, None)
        return Sound.batches(self, found, batch_size, **order)

    return batches


def ungrouped(self, found, batch_size, *, training=False, seed=0, num_epochs=None, shard=ALL):
    order = {"seed": seed, "num_epochs": num_epochs, "shard": shard}
    return Sound.batches(self, found, batch_size, training=training, **order)


def grouped_without_the_last(self, found, batch_size, group=None, **order):
    batches = Sound.batches(self, found, batch_size, group=group, **order)
    return batches if group is None else batches.take(1)


def unlabelled_ignored(self, model, found, features, fold_of, penalties, unlabelled=None):
    return Sound.fitted(self, model, found, features, fold_of, penalties)


def heads_transposed(self, features, labels, penalties):
    return [(kernel.T, bias) for kernel, bias in Sound.linear_heads(self, features, labels, penalties)]


def answered(answers):
    return classmethod(lambda cls, model: answers(model))


DEFECTS = {
    "batches_have_static_shapes": [{"read": first_records}, {"batches": as_long_as_the_longest}],
    "training_follows_the_seed": [{"batches": one_order_for_ever}, {"batches": another_order_each_time}],
    "every_example_counts_once": [{"loss": changed(weight=rows_count)}],
    "the_best_step_can_be_told": [{"best": ("valid/f1", "max")}, {"best": ("valid/accuracy", "up")}],
    "loss_falls": [{"loss": changed(loss_sum=no_gradient)}],
    "dropout_follows_the_seed": [
        {"loss": always_training},
        {"loss": never_training},
        {"loss": without_the_seed},
    ],
    "scores_are_the_known_ones": [
        {"scores": scores_without_outputs},
        {"scores": scored(f1=None)},
        {"scores": scored(bleu=1.0)},
        {"scores": scored(loss=float("nan"))},
        {"scores": scored(num_examples=8.0)},
        {"metrics": ("accuracy",), "known_metrics": property(Sound.known_metrics.fget)},
        {"share_metrics": ("exact_match",)},
        {"share_metrics": ("loss",)},
    ],
    "outputs_score_as_their_model": [{"scores": of_outputs_otherwise}, {"review": review_of_its_own_alone}],
    "a_saved_model_is_known_and_scores_the_same": [
        {"model_cls": TextClassifier},
        {"from_model": classmethod(other_classes)},
        {"from_model": classmethod(shorter_texts)},
    ],
    "signatures_answer_as_the_reference": [
        {"answers": answered(LosesATokenOfIds)},
        {"answers": answered(SwapsThePair)},
        {"answers": answered(WithoutIds)},
        {"answers": answered(AsksAnotherInput)},
        {"answers": answered(ProbabilitiesOnTheEdge)},
    ],
    "answers_become_rows": [
        {"answers": answered(SaysThatItReadsTwoTexts)},
        {"answers": answered(WithoutColumns)},
        {"answers": answered(RowsOfTensors)},
        {"answers": answered(ScoresOfOthers)},
    ],
    "the_edge_is_compared_and_scored": [
        {"answers": answered(ComparesNothing)},
        {"edge_scores": wrong_labels},
        {"edge_metrics": ("accuracy", "f1")},
    ],
    "config_fields_are_all_that_is_read": [
        {"config_fields": ()},
        {"config_fields": (*Classification.config_fields, "my_field")},
    ],
    "roles_name_the_fields_of_the_data": [
        {"found_fields": ("my_field",)},
        {"open_roles": classmethod(lambda cls, config: ("input_field",))},
        {"text_roles": ("my_field",)},
        {"text_roles": ("input_field",)},
    ],
    "scores_depend_on_nothing_but_scored_by": [{"scored_by": ("nonsense",)}, {"scored_by": ("texts",)}],
    "scored_fields_are_those_of_the_training": [
        {"scored_fields": classmethod(refused)},
        {"scored_fields": classmethod(lambda cls, *_: Fields(label="text"))},
    ],
    "a_backbone_that_can_be_trained_is_taken": [{"check_backbone": classmethod(refused)}],
    "shares_and_lengths_are_those_of_the_batches": [{"logits_per_token": -3.0}, {"decoder_length": 7}],
    "what_generates_has_generate": [{"generates": True}],
    "grouped_examples_count_once": [{"batches": ungrouped}, {"batches": grouped_without_the_last}],
    "workers_share_the_examples": [{"batches": without("shard")}],
    "training_ends_after_its_epochs": [{"batches": without("num_epochs")}],
    "what_is_read_trains_and_finishes_a_model": [
        {"for_training": refused},
        {"trained": refused},
        {"trained": lambda self, model, *_: (model, None)},
    ],
    "heads_are_fitted": [
        {"fitted": refused},
        {"linear_heads": refused},
        {"linear_heads": heads_transposed},
        {"fitted": Task.fitted, "head_rank": refused},
    ],
    "heads_learn_from_texts_without_labels": [
        {"read_unlabelled": refused},
        {"fitted": unlabelled_ignored},
    ],
}


@pytest.fixture
def registered():
    yield
    TASKS.pop("defective", None)


def checks_of(members):
    """The checks of a task that differs from the sound one in these members."""
    cls = type("Defective", (Sound,), {"name": "defective", **members})
    register_task(dataclasses.dataclass(frozen=True, kw_only=True)(cls))
    return task_checks("defective", TOKENIZER, RECORDS, CONFIG)


@pytest.fixture(scope="module")
def model():
    """One model for all: no defect is in how it is built, and no check that is given it minds its weights."""
    return checks_of({})[0].case.model()


def run(check_name, members):
    (check,) = (each for each in checks_of(members) if each.function.__name__ == check_name)
    check()


def test_there_is_a_defect_for_every_check():
    assert set(DEFECTS) == {function.__name__ for function in TASK_SUITE}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_a_check_passes_without_its_defect_and_fails_with_it(name, registered, model, monkeypatch):
    if name not in (
        "loss_falls",
        "dropout_follows_the_seed",
    ):  # which trains it, which needs one with dropout
        monkeypatch.setattr(TaskCase, "model", lambda case: model)
    run(name, {})
    for members in DEFECTS[name]:
        with pytest.raises((AssertionError, ValueError)):
            run(name, members)


@pytest.mark.parametrize(
    ("sound", "defective", "arguments"),
    [
        (Sound.scores, scores_without_outputs, ["outputs"]),
        (Sound.review, review_of_its_own_alone, ["outputs", "is_own"]),
        (Sound.batches, ungrouped, ["training", "group"]),
    ],
    ids=["scores", "review", "batches"],
)
def test_an_argument_that_is_not_taken_is_named(sound, defective, arguments):
    require_takes(sound, *arguments)
    with pytest.raises(AssertionError, match=f"^`{defective.__name__}` must take {arguments[-1]}$"):
        require_takes(defective, *arguments)


def test_what_is_no_task_is_not_registered(registered):
    with pytest.raises(ValueError, match="`cls` must be a subclass of Task"):
        register_task(dict)
    with pytest.raises(ValueError, match="with all its methods"):
        register_task(type("Half", (Task,), {"name": "half"}))
    with pytest.raises(ValueError, match=r"'classification' is convnlp\.tasks\.classification\."):
        register_task(type("Other", (Classification,), {}))
    with pytest.raises(ValueError, match=r"`found_fields` of Ranker must be of text_field, .*: query_field$"):
        register_task(type("Ranker", (Classification,), {"name": "ranker", "found_fields": ("query_field",)}))
    with pytest.raises(ValueError, match=r"must be an identifier\. Received: name='a b'"):
        register_task(type("Spaced", (Classification,), {"name": "a b"}))
