"""`fit` and its like with the names of classes, lists to split, and nothing at all."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.models import TextClassifier, TextClassifierPreprocessor, arrays
from tests import corpus

NAMES = ["acq", "earn", "grain"]


@pytest.fixture(scope="module")
def trained(backbone, tokenizer):
    """A small classifier with three names, compiled; what is tested does not depend on its weights."""
    classifier = TextClassifier(
        backbone.encoder_only(), 3, TextClassifierPreprocessor(tokenizer, 8), labels=NAMES
    )
    classifier.compile(keras.optimizers.SGD(0.0))
    return classifier


TEXTS = ["the river", "a", "the old teacher", "b"]
NUMBERS = [2, 0, 1, 0]
STRINGS = [NAMES[i] for i in NUMBERS]
FORMS = {
    "list": STRINGS,
    "numpy": np.array(STRINGS),
    "bytes": np.array(STRINGS, "S"),
    "object": np.array(STRINGS, object),
    "column": [[name] for name in STRINGS],
    "tensor": tf.constant(STRINGS),
}


@pytest.mark.parametrize("form", FORMS)
def test_names_are_their_numbers(trained, form):
    expected = trained.evaluate(TEXTS, np.array(NUMBERS), verbose=0)
    y = FORMS[form]
    assert trained.evaluate(TEXTS, y, verbose=0) == expected
    history = trained.fit(TEXTS, y, validation_data=(TEXTS, y), verbose=0).history
    assert history["val_loss"] == [expected[0]]
    assert trained.test_on_batch(TEXTS, y) is not None


def test_names_in_a_data_set(trained):
    expected = trained.evaluate(TEXTS, np.array(NUMBERS), verbose=0)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, STRINGS)).batch(4)
    assert trained.evaluate(data, verbose=0) == expected
    history = trained.fit(data, validation_data=data, verbose=0).history
    assert history["val_loss"] == [expected[0]]


def test_columns_are_read_in_another_order_in_each_epoch():
    texts, targets = [str(number) for number in range(12)], list(range(12))

    def epochs():
        keras.utils.set_random_seed(0)
        data = arrays.batches({"a": (texts, texts)}, targets, None, 4, is_shuffled=True)
        for _ in range(2):
            found = []
            for x, y in data:
                assert [int(text) for text in x["a"][1].numpy()] == y.numpy().tolist()
                found += y.numpy().tolist()
            yield found

    first, second = epochs()
    assert sorted(first) == sorted(second) == targets
    assert len({tuple(first), tuple(second), tuple(targets)}) == 3
    assert [*epochs()] == [first, second]
    ((x,),) = arrays.batches((texts, texts), None, None, None, is_shuffled=False)  # a pair, and no targets
    assert [column.numpy().astype(str).tolist() for column in x] == [texts, texts]


@pytest.mark.parametrize(("given", "is_shuffled"), [({}, True), ({"shuffle": False}, False)])
def test_fit_shuffles_what_it_trains_on(trained, monkeypatch, given, is_shuffled):
    asked, batches = [], arrays.batches
    monkeypatch.setattr(
        arrays, "batches", lambda *each, **named: asked.append((each, named)) or batches(*each, **named)
    )
    trained.fit(TEXTS, NUMBERS, validation_split=0.25, batch_size=2, verbose=0, **given)
    ((held_out, _, _, _), rule), ((texts, _, _, size, shuffled), _) = asked
    assert held_out.numpy().tolist() == [b"b"]
    assert texts.numpy().tolist() == [text.encode() for text in TEXTS[:3]]
    assert (rule, size, shuffled) == ({"is_shuffled": False}, 2, is_shuffled)


def test_a_split_needs_examples_on_both_sides(trained):
    with pytest.raises(ValueError, match=r"must leave examples .* validation_split=0\.9, 4 examples"):
        trained.fit(TEXTS, NUMBERS, validation_split=0.9, verbose=0)


@pytest.mark.slow
def test_fit_on_names_learns(backbone, tokenizer):
    classifier = TextClassifier(
        backbone.encoder_only(), 2, TextClassifierPreprocessor(tokenizer, 16), labels=["bad", "good"]
    )
    data = corpus.reviews(64)
    texts, names = [row["text"] for row in data], [["bad", "good"][row["label"]] for row in data]
    classifier.compile(keras.optimizers.Adam(1e-2))
    classifier.fit(texts, names, epochs=15, batch_size=32, verbose=0)
    assert classifier.evaluate(texts, names, verbose=0)[1] > 0.9


@pytest.mark.parametrize("call", ["fit", "evaluate", "validation_data", "data_set", "test_on_batch"])
def test_a_name_that_is_none_of_them(trained, call):
    wrong = [*STRINGS[:3], "earm"]
    message = r"^`y` must hold names of the classes: 'acq', 'earn', 'grain'\. Received: 'earm'"
    calls = {
        "fit": lambda: trained.fit(TEXTS, wrong, verbose=0),
        "evaluate": lambda: trained.evaluate(TEXTS, np.array(wrong), verbose=0),
        "validation_data": lambda: trained.fit(TEXTS, STRINGS, validation_data=(TEXTS, wrong), verbose=0),
        "data_set": lambda: trained.fit(
            tf.data.Dataset.from_tensor_slices((TEXTS, wrong)).batch(2), verbose=0
        ),
        "test_on_batch": lambda: trained.test_on_batch(TEXTS, wrong),
    }
    with pytest.raises(ValueError, match=message) as error:
        calls[call]()
    assert "\n" not in str(error.value)
    if call != "data_set":  # in a graph there is no index, and nothing to compare with
        assert str(error.value).endswith("at index 3; did you mean 'earn'?")


@pytest.mark.parametrize(
    ("second", "received"),
    [(["earn", "grain"], r"\['earn', 'grain'\]"), ([], r"\[\]")],
    ids=["two", "none"],
)
def test_an_example_with_several_names_or_none(trained, second, received):
    message = rf"^`y` must hold names of the classes, one for each example. Received: {received} at index 1$"
    for call in (trained.fit, trained.evaluate):
        for others in ("acq", ["acq"]):
            with pytest.raises(ValueError, match=message):
                call(TEXTS, [others, second, others, others], verbose=0)


def test_a_classifier_whose_classes_have_no_names(backbone, tokenizer):
    classifier = TextClassifier(backbone.encoder_only(), 2, TextClassifierPreprocessor(tokenizer, 8))
    classifier.compile()
    for call in (classifier.fit, classifier.evaluate, classifier.train_on_batch):
        with pytest.raises(ValueError, match=r"holds strings, and .* have no names: give it `labels="):
            call(["a", "b"], ["acq", "earn"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [(["a", "a"], "must differ .* 'a' twice"), (["a", 1], "must be strings. Received: 1")],
)
def test_names_that_cannot_be(backbone, labels, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier(backbone, 2, labels=labels)


@pytest.mark.parametrize("y", [STRINGS, NUMBERS, np.array(NUMBERS)], ids=["names", "list", "numpy"])
def test_validation_split_takes_lists(trained, y):
    """The last quarter is held out, as keras_nlp does with arrays."""
    expected = trained.evaluate(TEXTS[3:], np.array(NUMBERS[3:]), verbose=0)
    history = trained.fit(TEXTS, y, validation_split=0.25, verbose=0).history
    assert history["val_loss"] == [expected[0]]
    pairs = (TEXTS, TEXTS[::-1])
    assert trained.fit(pairs, y, validation_split=0.25, verbose=0).history["val_loss"]


@pytest.mark.parametrize("split", [1.0, -0.1, "0.1", True, float("nan")])
def test_a_split_that_cannot_be(trained, split):
    with pytest.raises(ValueError, match=r"`validation_split` must be in \[0, 1\). Received: "):
        trained.fit(TEXTS, STRINGS, validation_split=split, verbose=0)


@pytest.mark.parametrize("nothing", [[], np.array([]), np.array([], object), ([], [])], ids=str)
def test_nothing(trained, nothing):
    predicted = trained.predict(nothing, verbose=0)
    assert predicted.shape == (0, 3)
    assert predicted.dtype == np.float32
    for call in (trained.fit, trained.evaluate):
        with pytest.raises(ValueError, match=r"`x` must hold at least one example\. Received: "):
            call(nothing, [])
