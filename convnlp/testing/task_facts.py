"""The facts of a task's class, and its optional methods: what it claims is true, and what it offers works."""

import dataclasses

import numpy as np

from convnlp import tasks
from convnlp.data import Shard
from convnlp.data.fields import ROLES
from convnlp.tasks import cross_fitting, rows, scored_fields
from convnlp.testing.requirements import ROUNDING, require, require_takes

_PENALTIES = (1.0, 0.01)  # few: each is a fit


class _Recorded:
    """A section of a config, which notes the names that are read of it."""

    def __init__(self, section):
        self._section, self.read = section, set()

    def __getattr__(self, name):
        self.read.add(name)
        return getattr(self._section, name)

    __getitem__ = __getattr__


class _RecordedConfig(_Recorded):
    """A config with a recorded section `task`."""

    def __init__(self, config):
        super().__init__(config)
        self.task = _Recorded(config.task)


def _first(case, found, batch_size, **order):
    return next(iter(case.task.batches(found, batch_size, **order)))


def config_fields_are_all_that_is_read(case):
    """With `config_fields`, `from_config` reads no other fields of `task`, and all of them exist."""
    cls, known = type(case.task), {*case.run_config.task}
    if cls.config_fields is None:
        return
    unknown = {*cls.config_fields} - known
    require(not unknown, f"`config_fields` names {sorted(unknown)}, which no config's `task` has")
    config = _RecordedConfig(case.run_config)
    cls.from_config(config, case.tokenizer, case.source)
    missing = sorted(name for name in config.task.read & known if not cls.reads(name))
    require(not missing, f"`config_fields` lacks {missing}, which `from_config` reads")


def roles_name_the_fields_of_the_data(case):
    """`found_fields` can be found in the data, and those of `text_roles` hold the texts."""
    cls, config = type(case.task), case.run_config.task.to_dict()
    unknown = {*cls.found_fields} - (ROLES.keys() & config.keys())
    require(not unknown, f"`found_fields` names {sorted(unknown)}, which are no roles of a field")
    needed = {*cls.open_roles(case.run_config)} - {*cls.found_fields}
    require(not needed, f"`open_roles` gives {sorted(needed)}, which `found_fields` lacks")
    texts = scored_fields.texts_of(config, cls.text_roles)
    require(texts == tuple(case.fields.texts), f"`text_roles` are of {texts}, not of {case.fields.texts}")


def scores_depend_on_nothing_but_scored_by(case):
    """`from_model` uses no other arguments of `Fields`, and all of them exist."""
    cls, read = type(case.task), set()
    known = {field.name for field in dataclasses.fields(tasks.Fields)}
    unknown = {*cls.scored_by} - known
    require(not unknown, f"`scored_by` names {sorted(unknown)}, which `Fields` lacks")

    class Recorded(tasks.Fields):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    given = Recorded(**vars(case.fields))
    read.clear()
    cls.from_model(case.untrained, case.source, given)
    missing = (read & known) - {*cls.scored_by, "options", "has_order"}  # of the training
    require(not missing, f"`scored_by` lacks {sorted(missing)}, which `from_model` uses")


def scored_fields_are_those_of_the_training(case):
    """`scored_fields` keeps what is given; if fields can be found, it knows those of the training."""
    cls, trained = type(case.task), case.run_config.task.to_dict()
    default = vars(tasks.Fields())
    given = {name: value for name, value in vars(case.fields).items() if value != default[name]}
    for asked in [given, {}] if cls.found_fields else [given]:
        found = cls.scored_fields(case.untrained, case.source, trained, asked)
        for name in ("texts", "label", "target"):
            value, expected = getattr(found, name), getattr(case.fields, name)
            require(value == expected, f"`{name}` of `scored_fields` must be {expected}; it is {value}")


def a_backbone_that_can_be_trained_is_taken(case):
    """`check_backbone` does not refuse it."""
    type(case.task).check_backbone(case.run_config, case.untrained.backbone)


def shares_and_lengths_are_those_of_the_batches(case):
    """`logits_per_token` is a share, and `decoder_length` the length of what a decoder is given."""
    share, length = case.task.logits_per_token, case.task.decoder_length
    require(0 <= share <= 1, f"`logits_per_token` must be in [0, 1]; it is {share}")
    specs = case.task.batches(case.found, 2).element_spec
    written = [name for name, spec in specs.items() if spec.shape[1:] == (length,)]
    require(written or not length, f"`decoder_length` is {length}, the length of none of {', '.join(specs)}")


def what_generates_has_generate(case):
    """With `generates`, the models can write text."""
    generate = getattr(type(case.task).model_cls, "generate", None)
    require(callable(generate) or not case.task.generates, "a model that `generates` must have `generate`")


def grouped_examples_count_once(case):
    """With `takes_group`, batches of similar length add up to the same, and can be trained on."""
    if not case.task.takes_group:
        return
    require_takes(case.task.batches, "group")
    expected = case.evaluation(case.untrained, len(case.records))
    grouped = case.evaluation(case.untrained, 2, group=2)
    np.testing.assert_allclose(grouped, expected, rtol=ROUNDING)
    _first(case, case.task.read(case.source, training=True), 2, training=True, group=2)


def workers_share_the_examples(case):
    """In evaluation, the batches of two workers together are those of one; in training, they differ."""
    require_takes(case.task.batches, "shard")
    shards = [Shard(count=2, index=index) for index in range(2)]
    whole = _first(case, case.found, 4)
    parts = [_first(case, case.found, 2, shard=shard) for shard in shards]
    for name, value in whole.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), value, err_msg=name)
    found = case.task.read(case.source, training=True)
    one, other = (_first(case, found, 2, training=True, shard=shard) for shard in shards)
    differ = any(not np.array_equal(one[name], other[name]) for name in one)
    require(differ, "two workers must train on different examples")


def training_ends_after_its_epochs(case):
    """With `num_epochs`, the batches of training end, and more epochs have more of them."""
    require_takes(case.task.batches, "num_epochs")
    found, most = case.task.read(case.source, training=True), 100 * len(case.records)
    counts = [
        sum(1 for _ in case.task.batches(found, 2, training=True, num_epochs=epochs).take(most))
        for epochs in (1, 2)
    ]
    require(0 < counts[0] < counts[1] < most, f"one and two epochs have {counts} batches, of at most {most}")


def what_is_read_trains_and_finishes_a_model(case):
    """`for_training` gives what `batches` takes, `begin` a model of the task, and `trained` two of them."""
    found = case.task.for_training(case.task.read(case.source, training=True))
    _first(case, found, 2, training=True)
    begun = case.task.begin(case.model(), found)
    require(isinstance(begun, case.task.model_cls), f"`begin` gives a {type(begun).__name__}")
    for model in case.task.trained(begun, found, case.found):
        require(isinstance(model, case.task.model_cls), f"`trained` gives a {type(model).__name__}")


def _fitted(case, found, unlabelled=None):
    """Returns what `Task.fitted` returns for a new model."""
    model, fold_of = case.model(), cross_fitting.folds(found) % 2  # two, because each is a fit
    features = rows.vectors_of(model, found, 4)
    more = {} if unlabelled is None else {"unlabelled": (unlabelled, rows.vectors_of(model, unlabelled, 4))}
    return case.task.fitted(model, found, features, fold_of, _PENALTIES, **more)


def heads_are_fitted(case):
    """With `fits_head`, there are weights for each penalty, and a model with outputs that can be scored."""
    if not case.task.fits_head:
        return
    task, found = case.task, case.found
    heads = task.linear_heads(rows.vectors_of(case.untrained, found, 4), found.labels, _PENALTIES)
    shapes = [(kernel.shape, bias.shape) for kernel, bias in heads]
    expected = [tuple(weight.shape for weight in case.untrained.head.get_weights())] * len(_PENALTIES)
    require(shapes == expected, f"the weights of `linear_heads` must be {expected}; they are {shapes}")
    model, _, outputs = _fitted(case, found)
    require(isinstance(model, task.model_cls), f"`fitted` gives a {type(model).__name__}")
    scores = task.scores(model, found, 4, outputs=outputs)
    require(
        {*task.known_metrics} <= {*scores}, f"only {sorted(scores)} are scored of the outputs of `fitted`"
    )


def heads_learn_from_texts_without_labels(case):
    """With `teaches_itself`, such texts can be read, and `fitted` says what came of them."""
    if not case.task.teaches_itself:
        return
    require_takes(case.task.fitted, "unlabelled")
    unlabelled = case.task.read_unlabelled(case.source)
    require(len(unlabelled) == len(case.records), f"{len(unlabelled)} of {len(case.records)} texts were read")
    _, chosen, _ = _fitted(case, case.found, unlabelled)
    require("self_training" in chosen, f"`fitted` says only {sorted(chosen)}, not self_training")


TASK_FACTS = (
    config_fields_are_all_that_is_read,
    roles_name_the_fields_of_the_data,
    scores_depend_on_nothing_but_scored_by,
    scored_fields_are_those_of_the_training,
    a_backbone_that_can_be_trained_is_taken,
    shares_and_lengths_are_those_of_the_batches,
    what_generates_has_generate,
    grouped_examples_count_once,
    workers_share_the_examples,
    training_ends_after_its_epochs,
    what_is_read_trains_and_finishes_a_model,
    heads_are_fitted,
    heads_learn_from_texts_without_labels,
)
