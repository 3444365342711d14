"""The head from which fine-tuning starts."""

import random

import numpy as np
import pytest

from convnlp.configs import finetune_classification
from convnlp.data import Label, MultiLabel, Number, Source
from convnlp.tasks import Classification, MultiLabelClassification, Regression, pooled_head, rows
from tests import corpus
from tests.small_classifier import small_classifier

CLASSES = tuple(f"class {number}" for number in range(9))
KINDS = {
    "classification": (Classification, Label("label", names=CLASSES), {}),
    "multi_label": (MultiLabelClassification, MultiLabel("labels", CLASSES[:2]), {}),
    "regression": (Regression, Number("number"), {"mean": 4.0, "scale": 3.0}),
}


@pytest.fixture(scope="module")
def classifier():
    return small_classifier(["lightweight_conv"], 8, list(CLASSES))


@pytest.fixture(scope="module")
def examples():
    drawn, words = random.Random(0), (*corpus.PRAISE, *corpus.BLAME)
    return [
        {
            "text": " ".join([*drawn.choices(corpus.NOUNS, k=2), words[number % 9]]),
            "label": CLASSES[number % 9],
            "labels": [CLASSES[number % 2]],
            "number": number % 9,
        }
        for number in range(90)
    ]


@pytest.fixture(scope="module")
def source(examples, tmp_path_factory):
    return Source(f"jsonl:{corpus.write_jsonl(tmp_path_factory.mktemp('data') / 'train.jsonl', examples)}")


def task_of(kind, classifier, **options):
    task, label, more = KINDS[kind]
    return task(
        tokenizer=classifier.preprocessor.tokenizer, sequence_length=8, label=label, **more, **options
    )


def begun(task, classifier, source):
    """Returns the model's head before and after, what was read, and the model."""
    model, found = task.model(classifier.backbone), task.read(source)
    before = model.head.get_weights()
    assert task.begin(model, found) is model
    return before, model.head.get_weights(), found, model


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_fitted_to_the_encoder_as_it_is(kind, classifier, source):
    task = task_of(kind, classifier, fit_head_first=True)
    encoder = [np.array(weight) for weight in classifier.backbone.get_weights()]
    _, after, found, model = begun(task, classifier, source)
    vectors = rows.vectors_of(model, found)
    ((kernel, bias),) = task.linear_heads(vectors, found.labels, (pooled_head._PENALTY,))
    np.testing.assert_array_equal(after[0], kernel)
    np.testing.assert_array_equal(after[1], bias)
    for weight, other in zip(classifier.backbone.get_weights(), encoder, strict=True):
        np.testing.assert_array_equal(weight, other)


@pytest.mark.parametrize("kind", KINDS)
def test_by_default_it_stays_as_it_is(kind, classifier, source):
    before, after, *_ = begun(task_of(kind, classifier), classifier, source)
    for weight, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(weight, other)


def test_of_many_texts_every_nth_is_read(classifier, source, monkeypatch):
    task = task_of("classification", classifier, fit_head_first=True)
    num_tokens = len(task.read(source).columns[0].flat_values)
    monkeypatch.setattr(pooled_head, "_MAX_TOKENS", num_tokens // 3)
    _, after, found, model = begun(task, classifier, source)
    seen = found.take(np.arange(0, 90, 4))
    ((kernel, _),) = task.linear_heads(rows.vectors_of(model, seen), seen.labels, (pooled_head._PENALTY,))
    np.testing.assert_array_equal(after[0], kernel)


def test_other_values_are_refused(classifier):
    with pytest.raises(ValueError, match="`fit_head_first` of classification must be True or False"):
        task_of("classification", classifier, fit_head_first=1)


def test_it_needs_an_encoder_that_has_learned(classifier):
    config = finetune_classification.get_config("lightweight_conv")
    config.task.options.fit_head_first = True
    with pytest.raises(ValueError, match=r"must be False unless `init_from` names a preset.*init_from=''"):
        Classification.check_backbone(config, classifier.backbone)
    config.init_from = "dynamic_conv_mini_en"
    Classification.check_backbone(config, classifier.backbone)


def test_it_needs_a_head_that_can_be_fitted(classifier):
    class Unfitted(Classification):
        fits_head = False

    tokenizer = classifier.preprocessor.tokenizer
    arguments = {"tokenizer": tokenizer, "sequence_length": 8, "label": Label("label", names=CLASSES)}
    with pytest.raises(
        ValueError, match="`fit_head_first` of classification must be False, because it has no"
    ):
        Unfitted(**arguments, fit_head_first=True)
    assert not Unfitted(**arguments).fit_head_first
