"""What `fit`, `evaluate` and `predict` cannot use is refused in one line, before the first batch."""

import collections.abc

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp.models import (
    MultiLabelClassifier,
    PrefixLM,
    PrefixLMPreprocessor,
    QuestionAnswerer,
    QuestionAnswererPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
    TextRegressor,
    arrays,
)

TEXTS, NUMBERS = ["the river", "a boat", "the old teacher", "b"], [1, 0, 1, 0]
NAMES = ["bad", "good"]


@pytest.fixture(scope="module")
def models(backbone, tokenizer):
    encoder, preprocessor = backbone.encoder_only(), TextClassifierPreprocessor(tokenizer, 8)
    made = {
        "classifier": TextClassifier(encoder, 2, preprocessor, labels=NAMES),
        "regressor": TextRegressor(encoder, preprocessor),
        "tagger": MultiLabelClassifier(encoder, 2, preprocessor, labels=NAMES),
    }
    for model in made.values():
        model.compile(keras.optimizers.SGD(0.0))
    return made


def data_set(*columns):
    return tf.data.Dataset.from_tensor_slices(columns if len(columns) > 1 else columns[0])


NOT_TEXTS = {
    "None": (["a", None], "`x` must hold only texts. Received: None at index 1"),
    "array": (np.array(["a", None], object), "`x` must hold only texts. Received: None at index 1"),
    "no data": (None, "`x` must hold at least one example. Received: None"),
    "half of a pair": (
        ["a", "b\ud83d"],
        r"`x` holds half of a surrogate pair. Received: 'b\\ud83d' at index 1",
    ),
    "half in an array": (
        np.array(["a\udcff"]),
        r"half of a surrogate pair. Received: .*'a\\udcff'.* at index 0",
    ),
    "bytes": (["a", b"\xff"], r"`x` must be UTF-8. Received: b'\\xff' at index 1"),
    "array of bytes": (np.array([b"a", b"\xc3"]), r"`x` must be UTF-8. Received: .*b'\\xc3'.* at index 1"),
    "fields": ({"text": ["a"]}, "or a tuple of two columns of texts; .* Received: a dict of 'text'"),
    "fields of a data set": (data_set({"text": ["a"]}).batch(1), "Received: a data set with 'text'$"),
    "set": ({"a", "b"}, "`x` must be lists, arrays or a data set of tf.data"),
    "one text": ("the river", "`x` must be a list of texts, even of one. Received: 'the river'"),
    "scalar": (tf.constant("a"), "`x` must be a list of texts, even of one. Received: <tf.Tensor"),
    "pair of texts": (("a", "b"), "`x` must be a list of texts, even of one. Received: 'a'"),
    "numbers": ([1, 2], "`x` must hold only texts. Received: 1 at index 0"),
    "rows": ([["a", "b"]], "at index 0; for pairs of texts, pass a tuple of two lists"),
    "matrix": (np.array([["a", "b"]]), "at index 0; for pairs of texts, pass a tuple of two lists"),
    "pair": ((["a", "b"], ["c", 4]), "`x` must hold only texts. Received: 4 at index 1"),
    "unequal pair": (
        (["a", "b"], ["c"]),
        "^The columns of `x` must have as many entries each. Received: 2, 1",
    ),
    "generator": ((text for text in TEXTS), "`x` must be lists, arrays or a data set"),
    "one by one": (data_set(TEXTS), "`x` must be a data set of batches: call its `batch`"),
    "matrix of a tensor": (tf.constant([["a"]]), r"a row of texts, .* Received: string \(1, 1\)"),
    "ids": (tf.constant([[3, 1]]), r"`x` must hold a row of texts, string \[B\]. Received: int32 \(1, 2\)"),
    "ids of a data set": (data_set([[3, 1]]).batch(1), r"a row of texts, .* Received: int32 \(None, 2\)"),
    "matrices": (data_set([["a"]]).batch(1), r"a row of texts, .* Received: string \(None, 1\)"),
    "rows of one": (np.array([["a\n" * 30]] * 2), r"Received: \['a.*\] at index 0; for pairs"),
}


@pytest.mark.parametrize("name", ["classifier", "regressor"])
@pytest.mark.parametrize(("x", "message"), NOT_TEXTS.values(), ids=NOT_TEXTS)
def test_what_is_no_text_is_not_predicted(models, name, x, message):
    with pytest.raises(ValueError, match=message) as error:
        models[name].predict(x, verbose=0)
    assert "\n" not in str(error.value)


NOTHING = {"tensor": tf.constant([], tf.string), "data set": data_set(TEXTS).take(0).batch(2)}


@pytest.mark.parametrize("nothing", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize(("name", "width"), [("classifier", 2), ("regressor", 1)])
def test_no_texts_give_no_rows(models, name, width, nothing):
    assert models[name].predict(nothing, verbose=0).shape == (0, width)
    with pytest.raises(ValueError, match="`x` must hold at least one example"):
        models[name].fit(nothing, verbose=0)


UNFIT = {
    "no y": ((TEXTS,), {}, "`y` must hold a target for each example of `x`. Received: y=None"),
    "short y": (
        (TEXTS, NUMBERS[:2]),
        {},
        "^`x` and its targets must have as many entries each. Received: 4, 2",
    ),
    "weights": (
        (TEXTS, NUMBERS),
        {"sample_weight": [1.0]},
        "^`x` and its targets and its weights must have as many entries each. Received: 4, 4, 1",
    ),
    "epochs by place": ((TEXTS, NUMBERS, 2, 3), {}, "`sample_weight` must be a list or .* Received: 3$"),
    "one target": ((TEXTS, 1), {}, "`y` must be a list or an array with an entry for each .* Received: 1$"),
    "NaN as a weight": (
        (TEXTS, NUMBERS),
        {"sample_weight": np.array([1.0, np.nan, 1.0, 1.0])},
        "`sample_weight` must be finite and >= 0. Received: nan at index 1",
    ),
    "no weight": (
        (TEXTS, NUMBERS),
        {"sample_weight": [1.0, None, 1.0, 1.0]},
        "`sample_weight` must be finite and >= 0. Received: None at index 1",
    ),
    "NaN as a held-out weight": (
        (TEXTS, NUMBERS),
        {"validation_data": (TEXTS, NUMBERS, [0.0, 1.0, float("inf"), 1.0])},
        "`sample_weight` must be finite and >= 0. Received: inf at index 2",
    ),
    "no targets": ((data_set(TEXTS).batch(2),), {}, r"`x` must be a data set of \(examples, targets\)"),
    "nothing held out": (
        (TEXTS, NUMBERS),
        {"validation_data": ([], [])},
        "`validation_data` must hold at least one example",
    ),
    "a table held out": (
        (TEXTS, NUMBERS),
        {"validation_data": {"text": TEXTS, "label": NUMBERS}},
        r"`validation_data` must be a tuple \(x, y\) or a data set of tf.data. Received: dict$",
    ),
    "no held-out y": (
        (TEXTS, NUMBERS),
        {"validation_data": (TEXTS,)},
        "`y` must hold a target for each example of `validation_data`",
    ),
}


@pytest.mark.parametrize("name", ["classifier", "regressor"])
@pytest.mark.parametrize(("data", "options", "message"), UNFIT.values(), ids=UNFIT)
def test_what_cannot_be_learned_from(models, name, data, options, message):
    with pytest.raises(ValueError, match=message) as error:
        models[name].fit(*data, verbose=0, **options)
    assert "\n" not in str(error.value)
    if not options:
        with pytest.raises(ValueError, match=message):
            models[name].evaluate(*data, verbose=0)


def assert_refused(model, y, message):
    """As targets, whether to train on, to validate or to evaluate."""
    with pytest.raises(ValueError, match=message):
        model.fit(TEXTS, y, verbose=0)
    with pytest.raises(ValueError, match=message):
        model.fit(TEXTS, NUMBERS, validation_data=(TEXTS, y), verbose=0)
    with pytest.raises(ValueError, match=message):
        model.evaluate(TEXTS, y, verbose=0)


@pytest.mark.parametrize(
    ("y", "received"),
    [
        ([0, 1, 2, 1], "2 at index 2"),
        (np.array([0, -1, 0, 0]), "-1 at index 1"),
        ([0, None, 0, 0], "None at index 1"),
        ([0.0, float("nan"), 0, 0], "nan at index 1"),
        ([0.0, 0.5, 0, 0], "0.5 at index 1"),
        (tf.constant([0, 1, 2, 1]), "2 at index 2"),
        (np.eye(2)[NUMBERS], r"numbers of the shape \(4, 2\)"),
        ([[0], [0, 1], [1], [0]], "rows of unequal length"),
    ],
    ids=str,
)
def test_numbers_that_are_no_class(models, y, received):
    message = rf"`y` must hold the number of a class, in \[0, 2\), for each example. Received: {received}$"
    model = models["classifier"]
    assert_refused(model, y, message)


@pytest.mark.parametrize(
    ("y", "received"),
    [
        ([1.0, float("nan"), 0.0, 2.5], "nan at index 1"),
        (np.array([[1.0], [2.0], [np.inf], [0.0]]), r"\[inf\] at index 2"),
        ([1, None, 0, 2], "None at index 1"),
        (["1", "2", "3", "4"], "'1' at index 0"),
        (np.zeros([4, 2]), r"values of the shape \(4, 2\)"),
    ],
    ids=str,
)
def test_numbers_that_are_no_number(models, y, received):
    message = f"^`y` must hold a finite number for each example. Received: {received}$"
    model = models["regressor"]
    before = model.get_weights()
    assert_refused(model, y, message)
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)


@pytest.mark.parametrize(
    ("y", "received"),
    [
        ([[0, 1], [1, 2], [0, 0], [1, 1]], r"\[1, 2\] at index 1"),  # numbers of labels
        ([[0, 1], [1], [0, 0], [1, 1]], "rows of unequal length"),
        ([0, 1, 0, 1], r"values of the shape \(4,\)"),
        ([[0, 1], [1, None], [0, 0], [1, 1]], r"\[1, None\] at index 1"),
    ],
    ids=str,
)
def test_what_says_not_which_labels_there_are(models, y, received):
    message = rf"^`y` must hold 2 numbers in \[0, 1\] for each example, one per label. Received: {received}$"
    for call in (models["tagger"].fit, models["tagger"].evaluate):
        with pytest.raises(ValueError, match=message):
            call(TEXTS, y, verbose=0)
    models["tagger"].fit(TEXTS, np.eye(2)[NUMBERS] * 0.9, verbose=0)  # as a teacher gives them


@pytest.mark.parametrize("of", [list, np.array, tf.constant, lambda y: data_set(TEXTS, y).batch(2)])
def test_the_targets_of_one_label_have_either_shape(backbone, tokenizer, of):
    tagger = MultiLabelClassifier(backbone.encoder_only(), 1, TextClassifierPreprocessor(tokenizer, 8))
    tagger.compile(keras.optimizers.SGD(0.0))
    losses = []
    for y in (NUMBERS, [[number] for number in NUMBERS], NUMBERS):
        data = (of(y),) if isinstance(of(y), tf.data.Dataset) else (TEXTS, of(y))
        tagger.fit(*data, verbose=0)
        losses.append(tagger.evaluate(*data, verbose=0))
    assert losses == [losses[0]] * 3


def test_another_loss_takes_what_it_takes(backbone, tokenizer):
    classifier = TextClassifier(backbone.encoder_only(), 2, TextClassifierPreprocessor(tokenizer, 8))
    classifier.compile(loss=keras.losses.CategoricalCrossentropy(from_logits=True), metrics=[])
    classifier.fit(TEXTS, np.eye(2)[NUMBERS], verbose=0)


def test_weights_of_classes_by_name(models):
    model = models["classifier"]
    losses = [
        model.fit(TEXTS, [name] * 4, class_weight={"good": 3.0, "bad": 0.0}, verbose=0).history["loss"][0]
        for name in NAMES
    ]
    assert losses[0] == 0 < losses[1]
    by_number = model.fit(TEXTS, [0] * 4, class_weight={np.int64(1): 1.0, np.int64(0): 0.0}, verbose=0)
    assert by_number.history["loss"] == [0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"good": 3.0}, "must have a weight for each class: 'bad', 'good'. Received: {'good': 3.0}"),
        ({0: 3.0}, r"must have a weight for each class: by its number in \[0, 2\). Received: {0: 3.0}"),
        ({0: 3.0, 1: 1.0, 2: 1.0}, "must have a weight for each class: by its number"),
        ({"good": 3.0, 0: 1.0}, "must have a weight for each class: 'bad', 'good'"),
        ({"good": 3.0, "bad": float("nan")}, "must be finite and >= 0. Received: nan for 'bad'"),
        ({0: 3.0, 1: None}, "must be finite and >= 0. Received: None for 1"),
        ("balanced", "must be a dict, class -> weight. Received: 'balanced'"),
        ([1.0, 2.0], r"must be a dict, class -> weight. Received: \[1.0, 2.0\]"),
    ],
    ids=str,
)
def test_what_gives_not_each_class_a_weight(models, weights, message):
    with pytest.raises(ValueError, match=f"^`class_weight` {message}"):
        models["classifier"].fit(TEXTS, NUMBERS, class_weight=weights, verbose=0)


@pytest.mark.parametrize("name", ["tagger", "regressor"])
def test_what_has_no_classes_takes_no_weights_of_classes(models, name):
    """Keras would weigh by the first of several labels, and by numbers as if they were classes."""
    with pytest.raises(ValueError, match=r"^`class_weight` must be None for a .* give `sample_weight`"):
        models[name].fit(TEXTS, NUMBERS, class_weight={0: 1.0, 1: 2.0}, verbose=0)


@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_targets_in_one_column_may_follow_those_in_a_row(models, name):
    column = [[number] for number in NUMBERS]
    for y in (NUMBERS, tuple(NUMBERS), np.array(column), column, tf.constant(column)):
        models[name].fit(TEXTS, y, validation_data=(TEXTS, y), verbose=0)
    models[name].fit(data_set(TEXTS, column).batch(2), verbose=0)


class Lazy(collections.abc.Sequence):
    """A column of Hugging Face's datasets, as far as it is looked at."""

    def __init__(self, values):
        self._values = values

    def __getitem__(self, place):
        return self._values[place]

    def __len__(self):
        return len(self._values)


class Column:
    """A column or a table of pandas, polars or Arrow, as far as it is looked at."""

    def __init__(self, values, dtype=object):
        self._values, self._dtype = values, dtype

    def __array__(self, dtype=None, copy=None):
        return np.array(self._values, dtype or self._dtype)


@pytest.mark.parametrize("of", [Lazy, Column, lambda texts: np.array(texts, np.dtypes.StringDType())])
def test_columns_of_texts(models, of):
    assert [text.decode() for text in tf.constant(arrays.of_tables(of(TEXTS))).numpy()] == TEXTS
    expected = models["classifier"].evaluate(TEXTS, NUMBERS, verbose=0)
    assert models["classifier"].evaluate(of(TEXTS), of([NAMES[i] for i in NUMBERS]), verbose=0) == expected


@pytest.mark.parametrize(("width", "dtype"), [(1, object), (2, float), (3, bool)])
def test_tables_of_targets(backbone, tokenizer, width, dtype):
    """As pandas cuts them out of a table, or makes them of categories."""
    rows = np.eye(4, width).astype(dtype)
    tagger = MultiLabelClassifier(backbone.encoder_only(), width, TextClassifierPreprocessor(tokenizer, 8))
    tagger.compile(keras.optimizers.SGD(0.0))
    table, expected = Column(rows.tolist(), dtype), tagger.evaluate(TEXTS, np.eye(4, width), verbose=0)
    assert tagger.evaluate(Column(TEXTS), table, verbose=0) == expected
    history = tagger.fit(Column(TEXTS), table, validation_data=(Column(TEXTS), table), verbose=0).history
    assert history["val_loss"][0] == pytest.approx(expected, rel=1e-6)


def test_a_table_of_targets_that_do_not_suit(models):
    rows = np.eye(4, 3).tolist()
    message = r"^`y` must .*Received: numbers of the shape \(4, 3\)$"
    for call in (models["classifier"].fit, models["classifier"].evaluate):
        with pytest.raises(ValueError, match=message):
            call(TEXTS, Column(rows), verbose=0)
    names = Column([[NAMES[i]] for i in NUMBERS])
    assert models["classifier"].evaluate(TEXTS, names, verbose=0) == models["classifier"].evaluate(
        TEXTS, NUMBERS, verbose=0
    )


def test_columns_of_sources_and_targets(lm):
    pairs = {"encoder_text": Column(TEXTS), "decoder_text": Lazy(TEXTS)}
    lm.compile(keras.optimizers.SGD(0.0))
    lm.fit(pairs, validation_split=0.5, verbose=0)
    assert lm.evaluate(pairs, verbose=0) == lm.evaluate(dict.fromkeys(pairs, TEXTS), verbose=0)
    assert lm.predict(pairs, verbose=0).shape[0] == len(TEXTS)


def test_a_language_model_needs_no_targets(backbone, tokenizer):
    lm = PrefixLM(backbone.encoder_only(), PrefixLMPreprocessor(tokenizer, 8))
    lm.compile()
    lm.fit(TEXTS, verbose=0)
    with pytest.raises(ValueError, match=r"`x` must hold only texts\. Received: None at index 1"):
        lm.fit(["a", None], verbose=0)
    with pytest.raises(
        ValueError, match=r"^`x` and its weights must have as many entries each. Received: 4, 1"
    ):
        lm.fit(TEXTS, sample_weight=[1.0], verbose=0)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["a", None], "`inputs` must hold only texts. Received: None at index 1"),
        ([1, 2], "`inputs` must hold only texts. Received: 1 at index 0"),
        (("a", "b"), '`inputs` must be a text, a list of texts, or a dict with "encoder_text"'),
        ({"decoder_text": ["a"]}, '`inputs` must be a text, a list of texts, or a dict with "encoder_text"'),
        (
            {"encoder_text": ["a", "b"], "decoder_text": ["c"]},
            "The columns of `inputs` must have as many entries each. Received: 2, 1",
        ),
        (3, '`inputs` must be a text, a list of texts, or a dict with "encoder_text"'),
        (None, '`inputs` must be a text, a list of texts, or a dict with "encoder_text"'),
        ({"encoder_text": ["a"], "decodr_text": ["b"]}, 'and may have "decoder_text". Received: '),
        ({"encoder_text": [1, 2]}, "`inputs` must hold only texts. Received: 1 at index 0"),
        (data_set(TEXTS), "`inputs` must be a data set of batches: call its `batch`. Received: "),
        (
            {"encoder_text": ["a", "b"], "decoder_text": "c"},
            "`inputs` must be texts alone or lists, not both. Received: ",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_continued(lm, inputs, message):
    with pytest.raises(ValueError, match=message):
        lm.generate(inputs)


def test_what_cannot_be_answered(backbone, tokenizer):
    preprocessor = QuestionAnswererPreprocessor(tokenizer, sequence_length=32, max_answer_length=4)
    model = QuestionAnswerer(backbone.encoder_only(), preprocessor)
    with pytest.raises(ValueError, match=r"`questions` must be a list of texts\. Received: 'who'"):
        model.predict("who", "boa")  # not letter by letter
    with pytest.raises(ValueError, match=r"`contexts` must hold only texts\. Received: None at index 1"):
        model.predict(["who", "what"], ["a boat", None])
    with pytest.raises(ValueError, match=r"`batch_size` must be a whole number >= 1\. Received: 0"):
        model.predict(["who"], ["a boat"], batch_size=0)
    assert model.predict([], []) == []


@pytest.mark.parametrize("batch_size", [-1, 0, "8", 2.5, True], ids=repr)
def test_a_batch_has_a_number_of_examples(models, lm, backbone, tokenizer, batch_size):
    preprocessor = QuestionAnswererPreprocessor(tokenizer, sequence_length=32, max_answer_length=4)
    answerer = QuestionAnswerer(backbone.encoder_only(), preprocessor)
    pairs = {"encoder_text": TEXTS, "decoder_text": TEXTS}
    calls = [
        *(lambda model=model: model.predict(TEXTS, batch_size) for model in models.values()),
        *(lambda model=model: model.fit(TEXTS, NUMBERS, batch_size) for model in models.values()),
        *(lambda model=model: model.evaluate(TEXTS, NUMBERS, batch_size) for model in models.values()),
        lambda: lm.fit(pairs, batch_size=batch_size),
        lambda: lm.evaluate(pairs, batch_size=batch_size),
        lambda: lm.predict(pairs, batch_size=batch_size),
        lambda: lm.rank_labels(TEXTS, NAMES, batch_size),
        lambda: answerer.fit((TEXTS, TEXTS), TEXTS, batch_size),
        lambda: answerer.evaluate((TEXTS, TEXTS), TEXTS, batch_size),
        lambda: answerer.predict(TEXTS, TEXTS, batch_size),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"`batch_size` must be an? .* >= 1. Received: ") as error:
            call()
        assert str(error.value).endswith(repr(batch_size))
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "x",
    [TEXTS, (TEXTS, TEXTS), {"encoder_text": TEXTS}, {"text": TEXTS}, "a", data_set(TEXTS).batch(2), None],
    ids=repr,
)
def test_what_is_no_text_with_the_text_to_write(lm, x):
    message = r'^`x` must be a dict with "encoder_text" and "decoder_text", the texts to read .* Received: '
    for call in (lm.fit, lm.evaluate, lm.predict):
        with pytest.raises(ValueError, match=message) as error:
            call(x, verbose=0)
        assert "\n" not in str(error.value)
    pairs = {"encoder_text": TEXTS, "decoder_text": TEXTS}
    with pytest.raises(ValueError, match=message.replace("`x`", "`validation_data`")):
        lm.fit(pairs, validation_data=(x,), verbose=0)


def test_texts_with_texts_to_write_are_learned_from(lm):
    pairs = {"encoder_text": TEXTS, "decoder_text": TEXTS}
    lm.compile()
    lm.fit(pairs, batch_size=np.int64(2), validation_data=(pairs,), verbose=0)
    lm.evaluate(tf.data.Dataset.from_tensor_slices(pairs).batch(2), verbose=0)
    assert lm.predict(pairs, verbose=0).shape[0] == len(TEXTS)
