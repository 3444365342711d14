"""Several labels per text, and numbers: what is read, scored, trained and given by the models."""

import json
import tracemalloc

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import finetune, tasks
from convnlp.configs import common, finetune_classification
from convnlp.data import MultiLabel, Source, SourceError, sources
from convnlp.export import edge_model
from convnlp.finetuning import steps
from convnlp.models import (
    MultiLabelClassifier,
    Seq2SeqBackbone,
    TextClassifierPreprocessor,
    TextRegressor,
    Tokenizer,
)
from convnlp.runs import experiment
from convnlp.tasks import Fields, fields, scores
from tests import corpus
from tests.data.test_formats import write_hf, write_table

TOKENIZER = Tokenizer(corpus.tiny_proto())
NAMES = ("arts", "food, drinks", "sports")


def write(folder, labels, **columns):
    rows = [{"text": f"text {i}", "label": label} for i, label in enumerate(labels)]
    if columns:
        rows = [
            {"text": f"text {i}", **dict(zip(columns, row, strict=True))}
            for i, row in enumerate(zip(*columns.values(), strict=True))
        ]
    return Source(f"csv:{write_table(folder / 'a.csv', rows)}")


def build(source, kind, **values):
    config = common.get_config()
    config.data.input_length = 8
    config.update_from_flattened_dict({"task.kind": kind, **values})
    return tasks.build_task(config, TOKENIZER, source)


@pytest.mark.parametrize(
    ("label", "value", "expected"),
    [
        (MultiLabel("l", NAMES), ["arts", "sports"], (1, 0, 1)),
        (MultiLabel("l", NAMES), [], (0, 0, 0)),
        (MultiLabel("l", NAMES), "", (0, 0, 0)),
        (MultiLabel("l", NAMES), [2, 0], (1, 0, 1)),
        (MultiLabel("l", NAMES), "food, drinks; arts", (1, 1, 0)),
        (MultiLabel("l", NAMES), "sports|arts", (1, 0, 1)),
        (MultiLabel("l", NAMES, "/"), "sports/arts", (1, 0, 1)),
        (MultiLabel(NAMES, NAMES), (1, False, 0.5), (1, 0, 1)),
    ],
)
def test_several_labels_are_zeros_and_ones(label, value, expected):
    assert label.parse(value) == expected


@pytest.mark.parametrize(
    ("label", "value", "message"),
    [
        (MultiLabel("l", NAMES), ["music"], "l 'music' is not one of the 3 labels"),
        (MultiLabel("l", NAMES), "arts,music", "l 'music' is not one of the 3 labels"),
        (MultiLabel("l", NAMES), ["Arts"], "l 'Arts' is not one of the 3 labels; did you mean 'arts'"),
        (MultiLabel("l", NAMES), [3], "l 3 is not one of the 3 labels"),
        (MultiLabel("l", NAMES), [["arts"]], r"l \['arts'\] is not one of the 3 labels"),
        (MultiLabel("l", NAMES), ["arts", {"name": "arts"}], "l {'name': 'arts'} is not one of the 3 labels"),
        (MultiLabel("l", NAMES), 1, "`l` must be a list of labels, or a string of labels with separators"),
        (MultiLabel("l", NAMES), None, "`l` must be a list of labels"),
        (MultiLabel(NAMES, NAMES), (1, 2, 0), r"`food, drinks` must be a number in \[0, 1\]"),
        (MultiLabel(NAMES, NAMES), (1, None, 0), r"`food, drinks` must be a number in \[0, 1\]"),
        (MultiLabel(NAMES, NAMES), (1, float("nan"), 0), r"`food, drinks` must be a number in \[0, 1\]"),
    ],
)
def test_what_is_no_set_of_labels(label, value, message):
    with pytest.raises(ValueError, match=message):
        label.parse(value)


@pytest.mark.parametrize(("kind", "given"), [("classification", "cba"), ("multi_label", ["c,b", "b", "a"])])
def test_labels_that_a_slice_lacks_are_labels(tmp_path, kind, given):
    source = write(tmp_path, given)
    assert build(Source(source.name, "train[:2]"), kind).label.names == ("a", "b", "c")


@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression"])
def test_the_texts_of_a_pair_are_read_in_their_order(tmp_path, kind):
    source = write(tmp_path, [], label=[0, 1], one=["the river", "a"], other=["garden", "b"])
    names = {"task.text_field": "one", "task.second_text_field": "other", "task.label_names": ("0", "1")}
    task = build(source, kind, **(names if kind != "regression" else {**names, "task.label_names": ()}))
    model = task.model(Seq2SeqBackbone(TOKENIZER.vocabulary_size(), 1, 2, 8, 16, num_decoder_layers=0))
    again = tasks.task_of(model).from_model(model, source, Fields(("one", "other")))
    expected = [*TOKENIZER("the river").numpy(), 1, *TOKENIZER("garden").numpy(), 1]
    for each in (task, again):
        assert each.read(source).columns[0][0].numpy().tolist() == expected


def test_what_reaches_the_threshold_is_the_second_of_two_classes(tmp_path):
    task = build(write(tmp_path, [0.2, 0.5, 0.9]), "classification", **{"task.label_threshold": 0.5})
    assert task.label.names == ("0", "1")
    assert task.read(write(tmp_path, [0.2, 0.5, 0.9])).labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression", "question_answering"])
def test_the_head_drops_as_many_units_as_the_config_says(tmp_path, kind):
    source = write(tmp_path, ["a", "b"] if kind == "multi_label" else [0, 1])
    more = {"data.input_length": 16, "task.options.max_answer_length": 2} if kind[0] == "q" else {}
    task = build(source, kind, **{"task.head_dropout": 0.25, **more})
    backbone = Seq2SeqBackbone(TOKENIZER.vocabulary_size(), 1, 2, 8, 16, num_decoder_layers=0)
    assert task.model(backbone).dropout == 0.25


@pytest.mark.parametrize(
    ("labels", "names", "expected"),
    [
        (["b,a", "", "c"], ("a", "b", "c"), [[1, 1, 0], [0, 0, 0], [0, 0, 1]]),
        (["b; a, c", "a, c"], ("a, c", "b"), [[1, 1], [1, 0]]),
        (["['b', 'a']", "[]"], ("a", "b"), [[1, 1], [0, 0]]),
        ([" ['b', 'a, c'] ", "('b',)", "{'b'}", "()"], ("a, c", "b"), [[1, 1], [0, 1], [0, 1], [0, 0]]),
        (["(none)", "('b')", "{b}"], ("('b')", "(none)", "{b}"), [[0, 1, 0], [1, 0, 0], [0, 0, 1]]),
        (["b|a", "c"], ("a", "b", "c"), [[1, 1, 0], [0, 0, 1]]),
    ],
)
def test_labels_in_one_column(tmp_path, labels, names, expected):
    values = {"task.options.separator": ";"} if "a, c" in names else {}
    source = write(tmp_path, labels)
    task = build(source, "multi_label", **values)
    assert task.label.names == names
    found = task.read(source)
    assert found.labels.dtype == np.float32
    np.testing.assert_array_equal(found.labels, expected)


@pytest.mark.parametrize(
    ("columns", "options", "names", "expected"),
    [
        ({"label": ["a/b", "b"]}, {"separator": "/"}, ("a", "b"), [[1, 1], [0, 1]]),
        ({"x": [1, 0], "y": [1, 1]}, {"label_fields": ["x", "y"]}, ("a", "b"), [[1, 1], [0, 1]]),
    ],
    ids=["separator", "label_fields"],
)
def test_a_model_is_scored_with_the_options_of_its_training(tmp_path, columns, options, names, expected):
    source = write(tmp_path, [], text=["the river", "a clock"], **columns)
    values = {f"task.options.{name}": value for name, value in options.items()}
    task = build(source, "multi_label", **{"task.label_names": names, **values})
    model = task.model(Seq2SeqBackbone(TOKENIZER.vocabulary_size(), 1, 2, 8, 16, num_decoder_layers=0))
    (tmp_path / "experiment.json").write_text(json.dumps({"task": {"options": options}}))
    again = type(task).from_model(model, source, fields.of_preset(model, str(tmp_path), source))
    for each in (task, again):
        np.testing.assert_array_equal(each.read(source).labels, expected)


def test_a_missing_value_is_no_label(tmp_path):
    with pytest.raises(SourceError, match=r"line 3: label is missing\. Received: ' NaN'"):
        sources.multi_label_names(write(tmp_path, ["a,b", " NaN"]))


def test_the_texts_are_not_kept_while_labels_are_looked_for(tmp_path):
    rows = [{"text": "x" * 50_000, "label": ["a", "b"][i % 2 :]} for i in range(300)]
    source = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    tracemalloc.start()
    try:
        assert sources.multi_label_names(source)[0] == ("a", "b")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000  # of 15 MB
    finally:
        tracemalloc.stop()


def test_labels_in_columns_of_their_own(tmp_path):
    source = write(tmp_path, [], toxic=["1", "0", "true"], insult=["0.7", "0", "false"])
    task = build(source, "multi_label", **{"task.options.label_fields": ("toxic", "insult")})
    np.testing.assert_array_equal(task.read(source).labels, [[1, 1], [0, 0], [1, 0]])
    backbone = Seq2SeqBackbone(TOKENIZER.vocabulary_size(), 1, 2, 8, 16, num_decoder_layers=0)
    model = task.model(backbone)
    again = tasks.MultiLabelClassification.from_model(model, source, Fields())
    np.testing.assert_array_equal(again.read(source).labels, [[1, 1], [0, 0], [1, 0]])
    assert fields.of_preset(model, str(tmp_path), source) == Fields()  # no label is missed
    write_table(tmp_path / "a.csv", [{"text": "x", "toxic": "", "insult": "0"}])
    with pytest.raises(SourceError, match="line 2: `toxic` must be a number"):
        task.read(source)


@pytest.mark.parametrize(
    ("names", "expected"),
    [(("1", "2", "3"), [[1, 1, 0], [0, 0, 1]]), (("3", "2", "1"), [[0, 1, 1], [1, 0, 0]])],
)
def test_integers_are_names_if_names_are_integers(tmp_path, names, expected):
    """They are in a list as they are in the string of a table."""
    rows = [{"text": "a", "label": label} for label in ([1, 2], [3])]
    listed = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    for source in (write(tmp_path, ["1|2", "3"]), listed):
        task = build(source, "multi_label", **{"task.label_names": names})
        np.testing.assert_array_equal(task.read(source).labels, expected)


def test_the_labels_of_hugging_face_have_names(tmp_path):
    rows = [{"text": "a", "label": [0, 2]}, {"text": "b", "label": [1]}]
    names = {"names": ["x", "y", "z"], "_type": "ClassLabel"}
    for number, feature in enumerate(({"feature": names, "_type": "Sequence"}, [names])):
        write_hf(tmp_path / f"saved{number}", rows, feature=feature)
        source = Source(f"hf:{tmp_path}/saved{number}")
        assert sources.multi_label_names(source) == (("x", "y", "z"), ",")
        np.testing.assert_array_equal(
            build(source, "multi_label").read(source).labels, [[1, 0, 1], [0, 1, 0]]
        )


def test_few_of_many_labels_of_hugging_face(tmp_path):
    names = [f"n{number}" for number in range(28)]
    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
    rows = [{"text": "a", "label": [27]}, {"text": "b", "label": [3]}]
    write_hf(tmp_path / "saved", rows, feature=feature)
    source = Source(f"hf:{tmp_path}/saved")
    assert sources.multi_label_names(source)[0] == tuple(names)
    label = MultiLabel("label", ("n3", "n27", "other"), has_order=False)  # as a model knows them
    found = [row["label"].tolist() for row in sources.read(source, ("text",), label).as_numpy_iterator()]
    assert found == [[0, 1, 0], [1, 0, 0]]
    rows = Source(f"jsonl:{corpus.write_jsonl(tmp_path / 'a.jsonl', rows)}")
    with pytest.raises(
        SourceError, match=r"`label` has the label 27, but only 2 have examples; list the names"
    ):
        sources.multi_label_names(rows)
    with pytest.raises(
        SourceError, match=r"label 27 is not one of the 3 labels .* in the order of the integers"
    ):
        sources.check(rows, ("text",), label)


def test_two_separators_are_pointed_out(tmp_path, caplog):
    labels = ["Food, drinks|Travel", "Travel", "Food, drinks"]
    assert sources.multi_label_names(write(tmp_path, labels))[1] == ","
    (line,) = caplog.messages
    assert "label has , in 'Food, drinks|Travel', which separates labels, and | in" in line
    assert sources.multi_label_names(write(tmp_path, labels), separator="|")[0] == ("Food, drinks", "Travel")
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (["a", "b\ud83d"], "line 2: label holds half of a surrogate pair at character 2"),
        (["a", ""], "line 2: `label` must hold names or integers. Received: \\['a', ''\\]"),
    ],
    ids=repr,
)
def test_names_that_no_report_could_hold(tmp_path, label, message):
    rows = [{"text": "x", "label": ["a"]}, {"text": "y", "label": label}]
    path = corpus.write_jsonl(tmp_path / "a.jsonl", rows)
    with pytest.raises(SourceError, match=message):
        sources.multi_label_names(Source(f"jsonl:{path}"))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["", ""], "`label` must hold labels: .*Received: 0 different values in 2 examples"),
        ([f"a title {i}" for i in range(200)], "Received: 200 different values in 200 examples"),
        (["[0, 'a']"], "`label` must hold labels: either names only or integers"),
        (["[0, 1.5]"], "line 2: `label` must hold names or integers"),
        (["[0, ]]"], "line 2: `label` must be a list"),
        (["['a', ' ']", "['b' 'c']"], "line 3: `label` must be a list with commas .* which NumPy does not"),
    ],
)
def test_labels_that_are_none(tmp_path, labels, message):
    with pytest.raises(SourceError, match=message):
        build(write(tmp_path, labels), "multi_label")


def test_integers_are_not_scored_as_places_among_names_that_were_found(tmp_path):
    """Neither by the run nor, later, by its model, unless its names were listed."""
    train, test = tmp_path / "train", tmp_path / "test"
    train.mkdir()
    test.mkdir()
    named, numbered = write(train, ["good", "bad", "good"]), write(test, ["0", "1"])
    message = r"label 0 is not one of the 2 classes \['bad', 'good'\]; if integers stand for them"
    found = build(named, "classification")
    listed = build(named, "classification", **{"task.label_names": ("bad", "good")})
    with pytest.raises(SourceError, match=message):
        found.read(numbered)
    assert listed.read(numbered).labels.tolist() == [0, 1]
    model = listed.model(Seq2SeqBackbone(TOKENIZER.vocabulary_size(), 1, 2, 8, 16, num_decoder_layers=0))
    for names, is_read in (((), False), (("bad", "good"), True)):
        trained = {"kind": "classification", "text_field": "text", "label_names": names}
        (tmp_path / "experiment.json").write_text(json.dumps({"task": trained}))
        for given, also in ((None, is_read), (("good", "bad"), True)):
            asked = fields.of_preset(model, str(tmp_path), numbered, label_names=given)
            task = type(found).from_model(model, numbered, asked)
            if also:
                assert task.read(numbered).labels.tolist() == [0, 1]
            else:
                with pytest.raises(SourceError, match=message):
                    task.read(numbered)


def loss_of(task, outputs, labels, weights):
    """What the loss says about a model with these outputs."""
    batch = {"token_ids": None, "padding_mask": None}
    batch |= {"label": tf.constant(labels, tf.float32), "weight": tf.constant(weights, tf.float32)}
    return task.loss(lambda inputs, training: tf.constant(outputs, tf.float32))(batch, tf.constant([1, 2]))


def test_the_loss_of_several_labels_is_that_of_a_plain_loop(tmp_path):
    random, weights = np.random.default_rng(0), [1.0, 0.0, 2.0, 1.0, 0.0]
    logits, labels = random.normal(size=[5, 3]), random.integers(0, 2, [5, 3])
    logits[3] = np.where(labels[3], [2.0, 1.0, 0.0], -1.0)  # all right; a probability of one half is a label
    labels[3, 2], logits[3, 2] = 1, 0.0
    result = loss_of(build(write(tmp_path, ["a,b,c"]), "multi_label"), logits, labels, weights)
    nats = right = hits = both = 0.0
    for row, wanted, weight in zip(logits, labels, weights, strict=True):
        p = 1 / (1 + np.exp(-row))
        nats -= weight * np.mean([np.log(a if y else 1 - a) for a, y in zip(p, wanted, strict=True)])
        right += weight * all((a >= 0.5) == y for a, y in zip(p, wanted, strict=True))
        hits += weight * sum(a >= 0.5 and y for a, y in zip(p, wanted, strict=True))
        both += weight * (sum(p >= 0.5) + sum(wanted))
    np.testing.assert_allclose(result["loss_sum"], nats, rtol=1e-5)
    assert result["weight"] == 4
    assert result["accuracy"] == (right, 4)
    assert 0 < right < 4
    assert result["f1_micro"] == (2 * hits, both)


def test_the_loss_of_numbers_is_in_units_of_their_deviation(tmp_path):
    given = [10.0, 50.0, 90.0, 90.0]
    task = build(write(tmp_path, given), "regression")
    assert (task.mean, task.scale) == (60.0, pytest.approx(np.std(given)))
    found, weights = np.array([12.0, 0.0, 95.0, 70.0]), np.array([1.0, 0.0, 2.0, 1.0])
    result = loss_of(task, found[:, None], given, weights)
    expected = np.sum(weights * ((found - given) / np.std(given)) ** 2)
    np.testing.assert_allclose(result["loss_sum"], expected, rtol=1e-5)
    assert result["weight"] == 4
    assert build(write(tmp_path, [5, 5]), "regression").scale == 1  # which nothing may be divided by 0 for


def test_the_scores_of_several_labels_equal_the_definitions():
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=[40, 3]).astype("float32"), random.integers(0, 2, [40, 3])
    logits[:5] = 0  # a probability of one half
    found = scores.of_several_labels(logits, labels.astype("float32"))
    predicted, p = logits >= 0, 1 / (1 + np.exp(-logits))
    counts = [(np.sum(a & b), np.sum(a) + np.sum(b)) for a, b in zip(predicted.T, labels.T == 1, strict=True)]
    assert found["accuracy"] == pytest.approx(
        np.mean([(a == b).all() for a, b in zip(predicted, labels, strict=True)])
    )
    assert found["f1_macro"] == pytest.approx(np.mean([2 * hits / both for hits, both in counts]))
    assert found["f1_micro"] == pytest.approx(2 * sum(h for h, _ in counts) / sum(b for _, b in counts))
    assert found["loss"] == pytest.approx(-np.mean(np.log(np.where(labels, p, 1 - p))))
    nothing = scores.of_several_labels(-np.ones([2, 3]), np.zeros([2, 3]))
    assert (nothing["f1_micro"], nothing["f1_macro"], nothing["accuracy"]) == (0, 0, 1)


def test_the_scores_of_numbers_equal_the_definitions():
    wanted, found = np.array([1.0, 2.0, 2.0, 5.0]), np.array([2.0, 1.0, 3.0, 9.0])
    result = scores.of_numbers(found, wanted)
    assert result["pearson"] == pytest.approx(np.corrcoef(found, wanted)[0, 1])
    assert result["spearman"] == pytest.approx(np.corrcoef([1, 0, 2, 3], [0, 1.5, 1.5, 3])[0, 1])
    assert result["mae"] == pytest.approx(7 / 4)
    assert result["rmse"] == pytest.approx(np.sqrt(19 / 4))


@pytest.mark.parametrize("wanted", [[0.1, 0.1, 0.1], [0.2, 0.3, 0.5]])
def test_numbers_that_do_not_vary_are_not_correlated(wanted):
    result = scores.of_numbers([0.1, 0.1, 0.1], wanted)  # whose mean is not exactly 0.1
    assert (result["pearson"], result["spearman"]) == (0, 0)


OPINIONS = corpus.reviews(64)
TABLES = {
    "multi_label": [
        {"review": row["text"], "labels": "good,film" if row["label"] else "film"} for row in OPINIONS
    ],
    "regression": [{"review": row["text"], "stars": 150 + 300 * row["label"]} for row in OPINIONS],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
def test_a_table_becomes_a_preset(tmp_path, kind):
    (tmp_path / "spm.model").write_bytes(corpus.tiny_proto())
    source = f"csv:{write_table(tmp_path / 'a.csv', TABLES[kind])}"
    config = finetune_classification.get_config("dynamic_conv")
    config.model.update({"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2})
    config.update_from_flattened_dict(
        {
            "model.kernel_size": (3,),
            "tokenizer": str(tmp_path / "spm.model"),
            "data.source": source,
            "data.test_source": source,
            "data.input_length": 24,
            "train.batch_size": 8,
            "train.steps_per_call": 6,
            "train.deterministic": False,  # a setting of the whole process
            "task.kind": kind,
            "task.num_epochs": 12.0,
            "optimizer.learning_rate": 0.02,
        }
    )
    workdir = str(tmp_path / "run")
    strategy = experiment.prepare(config, workdir, open_fields=steps.open_fields(config))
    finetune.run(config, workdir, strategy)
    results = json.loads((tmp_path / "run" / "results.json").read_text())["test"]
    assert results["num_examples"] == 64
    if kind == "multi_label":
        assert results["accuracy"] > 0.8
    else:
        assert results["spearman"] > 0.7  # of 0.87, the most for two different numbers
    model = tasks.load(f"{workdir}/preset")
    found = fields.of_preset(model, f"{workdir}/preset", Source(source))
    assert (found.texts, found.label) == (("review",), "labels" if kind == "multi_label" else "stars")
    answer = tasks.task_of(model).answers(model).signatures()[0]["serving_default"]
    good, bad = (next(r["text"] for r in OPINIONS if r["label"] == label) for label in (1, 0))
    answers = answer(text=tf.constant([good, bad]))
    if kind == "multi_label":
        assert answers["labels"].numpy().tolist() == [[b"film", b"good"], [b"film", b""]]
    else:
        high, low = answers["score"].numpy()
        assert high > 300 > low


@pytest.mark.slow
@pytest.mark.parametrize("cls", [MultiLabelClassifier, TextRegressor])
def test_the_models_of_keras(cls):
    backbone = Seq2SeqBackbone(TOKENIZER.vocabulary_size(), 1, 2, 8, 16, num_decoder_layers=0)
    preprocessor = TextClassifierPreprocessor(TOKENIZER, 8)
    several = cls is MultiLabelClassifier
    more = {"num_classes": 3, "labels": list("abc")} if several else {"mean": 5.0, "scale": 2.0}
    model = cls(backbone, preprocessor=preprocessor, **more)
    model.compile()
    y = np.eye(3)[[0, 1, 2, 0]] if several else np.array([4.0, 5, 6, 7])
    history = model.fit(["a river", "a boat", "the clock", "the house"], y, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert model.predict(["a river"], verbose=0).shape == (1, 3 if several else 1)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(model))
    assert again.get_config()["dropout"] == 0.3
    for name, value in more.items():
        assert getattr(again, name) == value
    with pytest.raises(ValueError, match="`droput` is not an argument"):
        cls(backbone, preprocessor=preprocessor, **more, droput=0.1)
    with pytest.raises(ValueError, match="`pooling` must be one of mean, max"):
        cls(backbone, preprocessor=preprocessor, **more, pooling="sum")
    with pytest.raises(ValueError, match="`x` must hold at least one example"):
        model.fit([], [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": 0.0}, "`scale` positive. Received: mean=0.0, scale=0.0"),
        ({"mean": float("nan")}, "`mean` must"),
        ({"mean": None}, "`mean` must be finite and `scale` positive. Received: mean=None, scale=1.0"),
        ({"scale": "2"}, "`scale` positive. Received: mean=0.0, scale='2'"),
    ],
)
def test_the_scale_of_a_regressor(arguments, message):
    with pytest.raises(ValueError, match=message):
        TextRegressor(None, **arguments)


def test_several_labels_on_the_edge():
    model = object.__new__(edge_model.EdgeModel)
    model.facts = {"labels": ["a", "b"], "output": "probabilities"}
    model.token_ids = lambda texts, pairs=None: texts
    model.run = lambda texts: np.array([[0.9, 0.5], [0.1, 0.2]])
    assert model.predict(["x", "y"]) == [
        {"labels": ["a", "b"], "scores": {"a": 0.9, "b": 0.5}},
        {"labels": [], "scores": {"a": 0.1, "b": 0.2}},
    ]


def test_an_output_that_is_a_tasks_own_is_no_logits():
    model = object.__new__(edge_model.EdgeModel)
    model.facts = {"labels": ["a", "b"], "output": "stars"}
    model.token_ids = lambda texts, pairs=None: texts
    model.run = lambda texts: np.array([[0.9, 0.5]])
    assert model.predict(["x"]) == [{"stars": [0.9, 0.5]}]
