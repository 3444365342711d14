"""Questions with a context: what is read, trained, scored and answered, and what the reference notices."""

import json
import pathlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from convnlp import finetune, tasks
from convnlp.configs import common, finetune_squad
from convnlp.data import Source, SourceError, validation
from convnlp.finetuning import results, steps
from convnlp.models import QuestionAnswerer, Seq2SeqBackbone, Tokenizer
from convnlp.report import data_facts
from convnlp.runs import experiment
from convnlp.tasks import Fields, QuestionAnswering, fields, scores
from convnlp.tasks.question_answering import SpanAnswers
from convnlp.tasks.rows import TEXT, signature
from convnlp.testing import task_checks
from convnlp.training import loop
from tests import corpus
from tests.models.test_question_answerer import marked
from tests.task_table import TASK_TABLE

TOKENIZER = Tokenizer(corpus.tiny_proto())
LENGTH, LONGEST = 16, 3


def write(folder, *rows, names=("question", "context", "answers")):
    records = [dict(zip(names, row, strict=True)) for row in rows]
    return Source(f"jsonl:{corpus.write_jsonl(folder / 'a.jsonl', records)}")


def build(source=None, **options):
    config = common.get_config()
    config.data.input_length = LENGTH
    config.task.kind = "question_answering"
    config.task.head_dropout = 0.0
    config.task.options.update({"max_answer_length": LONGEST, "stride": 4, **options})
    return tasks.build_task(config, TOKENIZER, source)


def small_model(task):
    backbone = Seq2SeqBackbone(TOKENIZER.vocabulary_size(), 1, 2, 8, 16, num_decoder_layers=0)
    return task.model(backbone)


ROWS = [
    ("who", "the river the old river", ["the mountain", "old"]),
    ("what", "the old river " * 6 + "finds the market", "market"),  # which begins behind the first window
    ("where", "the old river", "a valley"),
    ("when", "the old river", ["the old river paints"]),
]


def texts_of(batch):
    """The tokens between the places of the labels; "" at the end of the question."""
    found = []
    for ids, (first, last) in zip(batch["token_ids"].numpy(), batch["label"].numpy(), strict=True):
        assert (first == last == ids.tolist().index(1)) or first > ids.tolist().index(1)
        found.append(TOKENIZER.detokenize([ids[first : last + 1]])[0])
    return found


def test_what_is_learned_of_an_example(tmp_path, caplog):
    source, task = write(tmp_path, *ROWS), build()
    found = task.read(source)
    assert "2 of 4 examples (50.0%) have no answer of at most 3 tokens that is in" in caplog.text
    assert len(found) == 4
    assert found.texts["answers"][0].split("\x1e") == ["the mountain", "old"]
    assert task.read(source, training=True).texts == {}
    (batch,) = task.batches(found, 4)
    assert texts_of(batch) == ["old", "market", "", ""]
    assert batch["weight"].numpy().tolist() == [1, 1, 0, 0]
    trained = task.for_training(found)
    assert len(trained) > 4  # the windows of the second, and none of the last two
    (batch,) = task.batches(trained, len(trained))
    learned = texts_of(batch)
    assert set(learned) == {"old", "market", ""}
    assert learned[0] == "old"
    assert batch["weight"].numpy().all()


def test_the_longest_answer_counts_in_tokens_with_both_ends(tmp_path):
    source = write(tmp_path, ("who", "the river the old river", "old river"))
    first, last = build(max_answer_length=3).read(source).columns[1][0].numpy()
    for longest, is_usable in ((last - first + 1, True), (last - first, False)):
        spans = build(max_answer_length=int(longest)).read(source).columns[1]
        assert spans.row_lengths().numpy().tolist() == [2 * is_usable]


def test_the_loss_is_the_mean_of_both_pointers_and_a_span_is_right_if_both_are():
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=[4, 2, 6]), random.integers(0, 6, [4, 2])
    is_right, weights = [[True, True], [True, False], [True, True], [False, True]], [1.0, 2.0, 0.0, 1.0]
    logits[np.arange(4)[:, None], np.arange(2), labels] = np.where(is_right, 9.0, -9.0)
    batch = {"token_ids": None, "padding_mask": None, "weight": tf.constant(weights)}
    batch["label"] = tf.constant(labels, tf.int32)
    loss = build().loss(lambda inputs, training: tf.constant(logits, tf.float32))
    result, nats = loss(batch, tf.constant([1, 2])), 0.0
    for row, places, weight in zip(logits, labels, weights, strict=True):
        for pointer, place in zip(row, places, strict=True):
            nats += weight * (np.log(np.exp(pointer).sum()) - pointer[place]) / 2
    np.testing.assert_allclose(result["loss_sum"], nats, rtol=1e-5)
    assert result["weight"] == 4
    assert result["span_accuracy"] == (1, 4)


def test_an_answer_may_be_the_first_token_of_its_context(tmp_path):
    task, context = build(), "river finds the old mountain"
    first = TOKENIZER.detokenize([TOKENIZER(context).numpy()[:1]])[0]
    found = task.read(write(tmp_path, ("who", context, context.split()[0])))
    assert first == "river"
    assert found.columns[1].to_list() == [[0, 0]]
    (batch,) = task.batches(found, 1)
    assert (texts_of(batch), batch["weight"].numpy().tolist()) == (["river"], [1])


def test_validation_needs_an_answer_that_stands_in_its_context(tmp_path, caplog):
    task, source = build(), write(tmp_path, *ROWS[2:])
    with pytest.raises(
        ValueError, match=r"`data.validation_source` must .*`task.answers_field`.*none in 2 e"
    ):
        task.batches(task.read(source), 2)
    assert "count in the scores alone" in caplog.text
    assert "training" not in caplog.text
    task.read(source, training=True)
    assert "take no part in training" in caplog.text


def test_answers_that_stand_nowhere_cannot_be_trained_on(tmp_path):
    task = build()
    found = task.read(write(tmp_path, *ROWS[2:]))
    with pytest.raises(
        ValueError, match=r"must hold answers that stand in their contexts.* none in 2 examples"
    ):
        task.for_training(found)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("who", "the river", []), "line 1: `answers` must be a string or a non-empty list"),
        (("who", "the river", [1]), "line 1: `answers` must be a string or a non-empty list"),
        (("who", None, "river"), "line 1: `context` must be a string"),
    ],
)
def test_records_that_are_none(tmp_path, row, message):
    with pytest.raises(SourceError, match=message):
        build().read(write(tmp_path, row))


def test_answers_may_stand_as_the_hub_has_them(tmp_path):
    answers = {"text": ["the mountain", "old"], "answer_start": [3, 14]}
    found, plain = (
        build().read(write(tmp_path, ("who", ROWS[0][1], given))) for given in (answers, answers["text"])
    )
    assert found.texts == plain.texts
    assert found.columns[1].to_list() == plain.columns[1].to_list() != [[]]
    with pytest.raises(SourceError, match="line 1: `answers` must be a string or a non-empty list"):
        build().read(write(tmp_path, ("who", "the river", {"text": [], "answer_start": []})))


def test_a_context_is_trained_on_or_held_out(tmp_path):
    rows = [(f"who {i}", f"the river {i // 4}", "river") for i in range(80)]
    found = build().read(write(tmp_path, *rows))
    held_out = validation.choose(found)
    contexts = np.array(found.texts["context"])
    assert 0.1 < held_out.mean() < 0.3
    assert not set(contexts[held_out]) & set(contexts[~held_out])
    assert len(validation.take(found, held_out).groups) == held_out.sum()


def test_scores_are_squads_with_the_best_of_the_answers(tmp_path, monkeypatch):
    task = build()
    found = task.read(write(tmp_path, *ROWS[:3]))
    given = ["The mountain!", "paints the market", ""]
    answered = [{"answer": text, "score": 0.5} for text in given]
    monkeypatch.setattr(QuestionAnswering, "outputs", lambda *_: answered)
    expected = {
        "squad_exact_match": 1 / 3,
        "squad_f1": (1 + scores.squad_f1("paints the market", "paints")) / 3,
        "num_examples": 3.0,
    }
    assert task.scores(None, found) == pytest.approx(expected)
    kinds, mistakes = task.review(None, found).sections
    assert kinds.rows == [["(others)", 3, pytest.approx(1 / 3), pytest.approx(expected["squad_f1"])]]
    assert [(row["text"], row["wanted"], row["found"]) for row in mistakes.rows] == [
        ("where", "a valley", "")
    ]


def test_scores_are_of_what_is_exported(tmp_path):
    task = build()
    found, model = task.read(write(tmp_path, *ROWS)), small_model(task)
    answers = model.predict(found.texts["question"], found.texts["context"])
    assert [each["answer"] for each in task.outputs(model, found, 2)] == [each["answer"] for each in answers]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 0}, "`stride` of question_answering must be an integer >= 1"),
        ({"question_summary": 1}, "`question_summary` of question_answering must be True or False"),
        ({"max_answer_length": 4}, "`max_answer_length` must be at most a quarter of sequence_length - 2"),
        ({"strides": 4}, r"has no option `strides`.*did you mean stride\?"),
    ],
)
def test_options_out_of_their_range(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


@pytest.mark.parametrize("is_summed_up", [False, True])
def test_the_model_has_the_options_of_the_task(is_summed_up):
    model = small_model(build(question_summary=is_summed_up))
    assert model.question_summary == is_summed_up
    preprocessor = model.preprocessor
    assert (preprocessor.sequence_length, preprocessor.stride) == (LENGTH, 4)
    assert preprocessor.max_answer_length == LONGEST


RECORDED = {"kind": "question_answering", "question_field": "q", "context_field": "c", "answers_field": "a"}


@pytest.mark.parametrize(
    ("recorded", "names", "given", "expected"),
    [
        (RECORDED, ("q", "c", "a"), {}, Fields(("q", "c"), target="a")),
        (RECORDED, ("question", "passage", "a"), {}, Fields(("question", "passage"), target="a")),
        ({}, ("query", "context", "answer"), {}, Fields(("query", "context"), target="answer")),
        ({}, ("x", "y", "answers"), {"texts": ("x", "y")}, Fields(("x", "y"), target="answers")),
        (RECORDED, ("q", "c", "z"), {"target": "z"}, Fields(("q", "c"), target="z")),
    ],
)
def test_the_fields_of_a_preset(tmp_path, recorded, names, given, expected):
    (tmp_path / "experiment.json").write_text(json.dumps({"task": recorded}))
    source = write(tmp_path, ROWS[0], names=names)
    model = object.__new__(QuestionAnswerer)
    assert fields.of_preset(model, str(tmp_path), source, **given) == expected
    if recorded and {*names} >= {"q", "c"}:
        assert fields.texts_of_preset(str(tmp_path), source) == ("q", "c")


def test_two_fields_are_needed():
    with pytest.raises(ValueError, match=r"`text_fields` must be two fields .* Received: \['text'\]"):
        QuestionAnswering.from_model(None, None, Fields())


def changed(outputs, **changes):
    return {**outputs, **{name: change(outputs[name]) for name, change in changes.items()}}


def test_the_reference_notices_a_wrong_answer():
    keras.utils.set_random_seed(1)
    task = build(question_summary=True)
    answers = SpanAnswers(small_model(task))
    reference, signatures = answers.reference(), answers.signatures()[0]
    context = "Grüße from the old captain, who paints the river " * 3
    inputs = {"question": np.array([b"who", b""]), "context": np.array([context.encode(), b""])}
    outputs = {name: value.numpy() for name, value in signatures["serving_default"](**inputs).items()}
    assert reference.error("serving_default", inputs, outputs) < 1e-5
    start, end = outputs["start"][0], outputs["end"][0]
    for changes in (
        {"answer": lambda text: np.array([context[start : end + 1].encode(), b""], object)},
        {"score": lambda score: score + 0.1},
        {"start": lambda at: at + 1, "end": lambda at: at + 1},  # in bytes, behind two letters of two
        {"start": lambda at: at * 0, "end": lambda at: at * 0 + 50},  # longer than any answer
    ):
        wrong = changed(outputs, **changes)
        if "answer" not in changes:  # so that it is that of its place
            wrong["answer"] = np.array([context[wrong["start"][0] : wrong["end"][0]].encode(), b""], object)
        assert reference.error("serving_default", inputs, wrong) > 0.01
    worse = (0, 5) if start else (6, 10)  # a word, but not the best one
    wrong = {**outputs, "start": np.array([worse[0], 0]), "end": np.array([worse[1], 0])}
    wrong["answer"] = np.array([context[slice(*worse)].encode(), b""], object)
    assert reference.error("serving_default", inputs, wrong) > 1e-3

    ids = answers.preprocess((inputs["question"], inputs["context"]))["token_ids"].numpy()
    outputs = {name: value.numpy() for name, value in signatures["ids"](token_ids=tf.constant(ids)).items()}
    assert reference.error("ids", {"token_ids": ids}, outputs) < 1e-5
    for name in ("start_token", "end_token"):
        wrong = changed(outputs, **{name: lambda place: np.array([1, 0])})  # in the question
        assert reference.error("ids", {"token_ids": ids}, wrong) > 1e-3


def test_spans_of_two_outputs_are_the_same_if_their_best_ones_are():
    """The first place that a pointer may choose is the end of the question, and no answer."""
    answers = object.__new__(SpanAnswers)
    answers.model = types.SimpleNamespace(preprocessor=types.SimpleNamespace(max_answer_length=2))
    right = np.full([1, 2, 6], -1e4)
    right[0, :, 1:5] = [[8.0, 1.0, 5.0, 0.0], [8.0, 0.0, 1.0, 4.0]]  # best: from place 3 to place 4
    surer, longer, shorter = right.copy(), right.copy(), right.copy()
    surer[0, 0, 3] += 2
    longer[0, 0, 2] += 9  # a span from place 2 to place 4 would be too long, so it ends at place 3
    shorter[0, 1, 3] += 4
    for outputs, is_same in ((right, 1.0), (surer, 1.0), (longer, 0.0), (shorter, 0.0)):
        flat = [np.reshape(each, [1, 12]) for each in (outputs, right)]
        assert answers.compare(*flat)["same_span"] == is_same
    mixed = [np.reshape(np.concatenate(each), [2, 12]) for each in ((surer, longer), (right, right))]
    assert answers.compare(*mixed) == {"largest_error": 9.0, "same_span": 0.5}


class SwapsTheTexts(SpanAnswers):
    def signatures(self, max_length=None):
        signatures, rows = super().signatures(max_length)
        pair = signature(
            lambda text, text_pair: self.model.answer(text_pair, text), text=TEXT, text_pair=TEXT
        )
        return {**signatures, "pair": pair}, rows


class PointsOneTokenTooFar(SpanAnswers):
    def answer(self, rows):
        found = super().answer(rows)
        return {**found, "end_token": found["end_token"] + 1}


class ReadsTheQuestionAlone(SpanAnswers):
    text_inputs = ("question",)


DEFECTS = {
    SwapsTheTexts: "signatures_answer_as_the_reference",
    PointsOneTokenTooFar: "signatures_answer_as_the_reference",
    ReadsTheQuestionAlone: "answers_become_rows",
}


@pytest.mark.parametrize("answers", DEFECTS)
def test_the_suite_notices_a_defect(answers, monkeypatch):
    checks = task_checks("question_answering", TOKENIZER, **TASK_TABLE["question_answering"])
    (check,) = (each for each in checks if each.function.__name__ == DEFECTS[answers])
    monkeypatch.setattr(QuestionAnswering, "answers", classmethod(lambda cls, model: answers(model)))
    with pytest.raises(AssertionError):
        check()


def config_of(folder, **more):
    """A run with a tiny model, on the folder's train/a.jsonl."""
    (folder / "spm.model").write_bytes(corpus.tiny_proto())
    config = finetune_squad.get_config("dynamic_conv")
    config.model.update({"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2})
    config.update_from_flattened_dict(
        {
            "model.kernel_size": (3,),
            "model.dropout": 0.0,
            "tokenizer": str(folder / "spm.model"),
            "data.source": f"jsonl:{folder}/train/a.jsonl",
            "train.deterministic": False,  # a setting of the whole process
            "task.head_dropout": 0.0,
            **more,
        }
    )
    config.task.options.max_answer_length = 8
    return config


def run(config, workdir):
    finetune.run(config, workdir, experiment.prepare(config, workdir, open_fields=steps.open_fields(config)))


def test_the_report_is_on_the_questions_and_not_their_windows(tmp_path, monkeypatch):
    (tmp_path / "train").mkdir()
    rows = [(f"where {i}", f"{'the river ' * 20}the garden {i}", ["garden"]) for i in range(6)]
    write(tmp_path / "train", *rows)
    outcomes = []
    monkeypatch.setattr(loop, "train", lambda **_: {})
    monkeypatch.setattr(results, "save", lambda config, workdir, outcome: outcomes.append(outcome))
    more = {"data.input_length": 48, "data.validation_split": "train", "train.batch_size": 2}
    run(config_of(tmp_path, **more), str(tmp_path / "run"))
    facts = data_facts.of_split(outcomes[0].train, outcomes[0].tokenizer)
    assert (facts["num_examples"], facts["cut"]) == (6, 0)


@pytest.mark.slow
def test_a_table_becomes_a_preset(tmp_path):
    for name, count, seed in (("train", 256, 1), ("test", 60, 2)):
        (tmp_path / name).mkdir()
        write(
            tmp_path / name, *zip(*marked(count, seed), strict=True), names=("question", "passage", "answer")
        )
    more = {
        "data.test_source": f"jsonl:{tmp_path}/test/a.jsonl",
        "data.input_length": 48,
        "train.batch_size": 32,
        "train.steps_per_call": 9,
        "task.num_epochs": 12.0,
        "optimizer.learning_rate": 1e-2,
    }
    workdir = str(tmp_path / "run")
    config = config_of(tmp_path, **more)
    run(config, workdir)
    reached = json.loads((tmp_path / "run" / "results.json").read_text())["test"]
    assert reached["num_examples"] == 60
    assert reached["squad_f1"] >= reached["squad_exact_match"] > 0.8  # a guess among the words has 1/3
    model = tasks.load(f"{workdir}/preset")
    source = Source(config.data.test_source)
    found = fields.of_preset(model, f"{workdir}/preset", source)
    assert found == Fields(("question", "passage"), target="answer")
    task = tasks.task_of(model).from_model(model, source, found)
    assert task.scores(model, task.read(source)) == pytest.approx(reached)
    report = json.loads(pathlib.Path(workdir, "report.json").read_text())
    assert report["sections"][0]["title"] == "By the kind of question"
