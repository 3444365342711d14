"""The contract of a `Task`, point by point; docs/your_own_task.md shows how to use it."""

import dataclasses
import functools
import json
import pathlib
import tempfile
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from convnlp import tasks
from convnlp.configs import common
from convnlp.data import Source
from convnlp.models import Seq2SeqBackbone
from convnlp.prediction import asking, rows
from convnlp.testing.learning import require_falling, require_seeded_dropout
from convnlp.testing.requirements import ROUNDING, require, require_takes
from convnlp.testing.task_facts import TASK_FACTS

LENGTH = 16


@dataclasses.dataclass(frozen=True, eq=False)
class TaskCase:
    """A task, and the records to test it on.

    Args:
        name: str, a key of `convnlp.tasks.TASKS`.
        tokenizer: `convnlp.models.Tokenizer`.
        records: list of dicts, at least five.
        config: dict, field of the config -> value, such as `{"task.label_field": "topic"}`.
        fields: `convnlp.tasks.Fields` of the same records.
    """

    name: str
    tokenizer: object
    records: list
    config: dict
    fields: tasks.Fields

    @functools.cached_property
    def folder(self):
        """The directory of the records, which lives as long as the case."""
        directory = tempfile.TemporaryDirectory()
        lines = "".join(f"{json.dumps(record)}\n" for record in self.records)
        pathlib.Path(directory.name, "records.jsonl").write_text(lines, encoding="utf-8")
        return directory

    @property
    def source(self):
        return Source(f"jsonl:{self.folder.name}/records.jsonl")

    @functools.cached_property
    def run_config(self):
        """The whole config, with short rows."""
        config = common.get_config()
        config.data.input_length = config.data.target_length = LENGTH
        config.update_from_flattened_dict({"task.kind": self.name, "task.head_dropout": 0.0, **self.config})
        return config

    @functools.cached_property
    def task(self):
        """The task as its config makes it."""
        return tasks.build_task(self.run_config, self.tokenizer, self.source)

    @functools.cached_property
    def found(self):
        """All records, read for evaluation."""
        return self.task.read(self.source)

    def model(self, seed=0, dropout=0.0):
        """Returns a tiny model of the task."""
        keras.utils.set_random_seed(seed)
        size = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
        layers = {"num_decoder_layers": int(self.task.decoder_length > 0), "mixer": "lightweight_conv"}
        vocabulary = self.tokenizer.vocabulary_size()
        size |= {"dropout": dropout, "max_sequence_length": 4 * LENGTH}
        backbone = Seq2SeqBackbone(vocabulary, **size, **layers)
        return self.task.model(backbone)

    @functools.cached_property
    def untrained(self):
        """One model for all checks that do not change its weights."""
        return self.model()

    def evaluation(self, model, batch_size, **order):
        """Returns the sums of the loss and of the weights over all examples."""
        loss_fn = self.task.loss(model)
        sums = np.zeros(2)
        for batch in self.task.batches(self.found, batch_size, **order):
            values = loss_fn(batch, None, training=False)
            sums += [values["loss_sum"], values["weight"]]
        return sums

    def __str__(self):
        return self.name


def batches_have_static_shapes(case):
    """Batches of training and evaluation have B rows, known when the graph is traced."""
    require_takes(case.task.batches, "training")
    found = case.found
    require(len(found) == len(case.records), f"{len(found)} of {len(case.records)} records were read")
    for training in (True, False):
        for name, spec in case.task.batches(found, 4, training=training).element_spec.items():
            good = spec.shape.is_fully_defined() and spec.shape[0] == 4
            require(good, f"{name} must have a static shape [4,...]; it has {spec.shape}")


def training_follows_the_seed(case):
    """The same seed gives the same batches; another seed gives others."""
    require_takes(case.task.batches, "seed")
    found = case.task.read(case.source, training=True)

    def first(seed):
        batch = next(iter(case.task.batches(found, 4, training=True, seed=seed)))
        return [value.numpy().tolist() for value in batch.values()]

    require(first(1) == first(1), "the same seed must give the same batch")
    require(any(first(seed) != first(1) for seed in range(2, 8)), "other seeds must give other batches")


def every_example_counts_once(case):
    """The batch size does not matter: rows that fill up the last batch do not count."""
    model = case.untrained
    expected = case.evaluation(model, len(case.records))
    require(expected[1] > 0, "the examples must have targets")
    for batch_size in (2, 3):
        np.testing.assert_allclose(case.evaluation(model, batch_size), expected, rtol=ROUNDING)


def the_best_step_can_be_told(case):
    """`best` names a metric of the loss, or the loss itself."""
    name, direction = case.task.best
    batch = next(iter(case.task.batches(case.found, 2)))
    metrics = {"valid/loss"} | {f"valid/{key}" for key in case.task.loss(case.untrained)(batch, None, False)}
    require(name in metrics - {"valid/loss_sum", "valid/weight"}, f"{name} is none of {sorted(metrics)}")
    require(direction in ("min", "max"), f"the direction must be min or max; it is {direction}")


def loss_falls(case):
    """A tiny model learns a few examples by heart."""
    model, task = case.model(), case.task
    batch = next(iter(task.batches(task.read(case.source, training=True), 4, training=True)))
    loss = task.loss(model)
    require_falling(model, lambda: loss(batch, tf.constant([0, 0]), training=True))


def dropout_follows_the_seed(case):
    """Dropout is active in training alone, and the same for the same seed, so that a resumed run repeats."""
    task = case.task
    batch = next(iter(task.batches(task.read(case.source, training=True), 4, training=True)))
    require_seeded_dropout(task.loss(case.model(dropout=0.5)), batch)


def scores_are_the_known_ones(case):
    """The scores have the known names and are finite, and the number of examples is right."""
    task = case.task
    require_takes(task.scores, "outputs")
    scores = task.scores(case.untrained, case.found, 3, outputs=None)
    require(set(scores) == {*task.known_metrics, "num_examples"}, f"{sorted(scores)} are scored")
    require(set(task.known_metrics) <= set(task.metrics), "`known_metrics` must be of `metrics`")
    require(all(np.isfinite(value) for value in scores.values()), f"{scores} must be finite")
    require(scores["num_examples"] == len(case.records), f"{scores['num_examples']} examples are scored")
    require(set(task.share_metrics) <= set(task.metrics), "`share_metrics` must be of `metrics`")
    for name in set(task.share_metrics) & set(scores):
        count = scores[name] * len(case.records)
        is_whole = abs(count - round(count)) < ROUNDING * len(case.records)
        require(is_whole and 0 <= scores[name] <= 1, f"{name} is {scores[name]}, no share of the examples")


def outputs_score_as_their_model(case):
    """`scores` and `review` take the `outputs` of a model, if there are any, instead of asking it."""
    model, task = case.untrained, case.task
    require_takes(task.review, "outputs", "is_own")
    outputs = task.outputs(model, case.found, 3)
    task.review(model, case.found, 3, outputs=outputs, is_own=outputs is None)
    if outputs is None:
        return
    expected = task.scores(model, case.found, 3)
    for name, value in task.scores(model, case.found, 3, outputs=outputs).items():
        np.testing.assert_allclose(value, expected[name], rtol=ROUNDING, err_msg=name)


def a_saved_model_is_known_and_scores_the_same(case):
    """`load` finds a model's class, `task_of` its task, and `from_model` scores as the config's task does."""
    model, task = case.untrained, case.task
    require(tasks.task_of(model) is type(task), f"task_of gives {tasks.task_of(model).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        model.save_to_preset(f"{folder}/preset")
        loaded = tasks.load(f"{folder}/preset")
    require(type(loaded) is task.model_cls, f"a {type(loaded).__name__} was loaded")
    again = tasks.task_of(loaded).from_model(loaded, case.source, case.fields)
    scores = again.scores(loaded, again.read(case.source), 4)
    expected = task.scores(model, case.found, 4)
    for name, value in scores.items():
        np.testing.assert_allclose(value, expected[name], rtol=ROUNDING, err_msg=name)


def signatures_answer_as_the_reference(case):
    """Checks signatures of texts, pairs and ids, and the edge output, for texts of different lengths."""
    model = case.untrained
    answers = tasks.task_of(model).answers(model)
    signatures, rows = answers.signatures()
    reference = answers.reference()
    texts = ["", "the river", "the old captain repairs the engine of the boat " * 3]
    require({"serving_default", "ids"} <= set(signatures), f"there are {sorted(signatures)} only")
    for name in sorted(signatures, key=lambda name: name != "ids"):  # some references remember the ids' texts
        known = answers.request(name, texts, rows)
        asked = [spec.name for spec in signatures[name].input_signature]
        require(set(asked) <= set(known), f"`request` gives {name} no {sorted(set(asked) - set(known))}")
        inputs = {key: known[key] for key in asked}
        tensors = {key: tf.constant(value) for key, value in inputs.items()}
        outputs = {key: value.numpy() for key, value in signatures[name](**tensors).items()}
        error = reference.error(name, inputs, outputs)
        require(error < ROUNDING, f"{name} differs from the reference by {error}")
        for key, value in outputs.items():
            count = len(next(iter(inputs.values())))
            require(len(value) == count, f"{name} gives {key} of {value.shape} for {count} texts")
        for key, value in signatures[name](**{key: value[:0] for key, value in tensors.items()}).items():
            require(len(value) == 0, f"{name} gives {key} of {value.shape} for no text")
    columns = [tf.constant(texts), tf.constant(texts[::-1])][: len(answers.text_inputs)]
    edge = answers.edge(answers.rows.of_texts(tuple(columns) if len(columns) == 2 else columns[0])).numpy()
    require(edge.ndim == 2, f"`edge` must give [B,N]; its shape is {edge.shape}")
    asked = {name: text.numpy() for name, text in zip(("text", "text_pair"), columns, strict=False)}
    np.testing.assert_allclose(edge, reference.edge(asked), atol=ROUNDING)


def answers_become_rows(case):
    """An example's answer, in JSON's form, becomes a row of a table: columns with plain values."""
    model = case.untrained
    answers = tasks.task_of(model).answers(model)
    serve = answers.signatures()[0]["serving_default"]
    names = [spec.name for spec in serve.input_signature]
    require(set(names) == set(answers.text_inputs), f"{names} are asked, and `text_inputs` are others")
    (answer,) = asking.in_batches(serve, names, [(b"the river",) * len(names)], 1)
    for threshold in (None, *[0.7] * answers.takes_threshold):
        row = answers.row(rows.as_json(answer), threshold)
        require(row, "`row` gives no columns")
        try:
            is_kept = json.loads(rows.json_line(row)) == row
        except TypeError:
            is_kept = False
        require(is_kept, f"`row` gives what JSON does not keep: {row}")
        scores = row.get("scores", {})
        require(set(scores) <= set(answers.labels or ()), f"there are scores of {sorted(scores)}")


def the_edge_is_compared_and_scored(case):
    """Equal outputs do not differ, and edge outputs have the scores that the task names, like the model."""
    model, task = case.untrained, case.task
    answers = task.answers(model)
    columns = tuple([record[field] for record in case.records] for field in case.fields.texts)
    outputs = answers.edge(answers.preprocess(columns if len(columns) == 2 else columns[0])).numpy()
    largest = [answers.compare(outputs, outputs + shift)["largest_error"] for shift in (0.0, 2.0)]
    require(largest[0] == 0, f"`compare` finds a largest error of {largest[0]} between equal outputs")
    require(abs(largest[1] - 2) < ROUNDING, f"`compare` finds {largest[1]} where all differ by 2")
    scores = task.edge_scores(outputs, case.found)
    require(set(scores) == set(task.edge_metrics), f"{sorted(scores)} are scored on the edge")
    expected = task.scores(model, case.found, 4) if scores else {}
    for name in scores.keys() & expected:
        np.testing.assert_allclose(scores[name], expected[name], rtol=ROUNDING, err_msg=name)


TASK_SUITE = (
    batches_have_static_shapes,
    training_follows_the_seed,
    every_example_counts_once,
    the_best_step_can_be_told,
    loss_falls,
    dropout_follows_the_seed,
    scores_are_the_known_ones,
    outputs_score_as_their_model,
    a_saved_model_is_known_and_scores_the_same,
    signatures_answer_as_the_reference,
    answers_become_rows,
    the_edge_is_compared_and_scored,
    *TASK_FACTS,
)


@dataclasses.dataclass(frozen=True)
class TaskCheck:
    """One check on one case; calling it raises AssertionError if the task fails it."""

    function: Callable
    case: TaskCase

    def __call__(self):
        self.function(self.case)

    def __str__(self):
        return f"{self.function.__name__}-{self.case}"


def task_checks(name, tokenizer, records, config=None, fields=None):
    """Returns all checks of a task.

    Under pytest: `@pytest.mark.parametrize("check", task_checks("my_task", ...), ids=str)`.

    Args:
        name: str, registered by `convnlp.tasks.register_task`.
        tokenizer: `convnlp.models.Tokenizer`.
        records: list of at least five dicts, labelled examples.
        config: dict, fields of the config that name the records' fields.
        fields: `convnlp.tasks.Fields`, which also names them. Defaults to `Fields()`.

    Returns:
        List of functions without arguments.

    Raises:
        ValueError: if there is no such task, or if there are too few records.
    """
    tasks.task_named(name)
    if len(records) < 5:
        raise ValueError(f"`records` must be at least five. Received: {len(records)}")
    case = TaskCase(name, tokenizer, records, config or {}, fields or tasks.Fields())
    return [TaskCheck(function, case) for function in TASK_SUITE]
