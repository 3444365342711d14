"""The contract of a task: what a backbone is fine-tuned for, and what the resulting model answers."""

import abc
import dataclasses
from typing import ClassVar

from convnlp import options
from convnlp.tasks import cross_fitting
from convnlp.tasks.review import Review
from convnlp.tasks.scored_fields import Fields, with_label


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(abc.ABC):
    """What a backbone is fine-tuned for: its examples, model, loss and scores.

    A subclass is a frozen dataclass, made from a config to train a model, or from a model to score it. It
    holds everything that differs between tasks: the programs, the export and the suite of `convnlp.testing`
    ask it and guess nothing from a model.

    Fields made by `convnlp.tasks.option`, each with a default, are the task's own options, which
    `task.options` of a config sets.

    Raises:
        ValueError: if an option breaks its rule.
    """

    name: ClassVar[str]  # its key in TASKS
    model_cls: ClassVar[type]  # of its models, by which `task_of` recognises a preset
    best: ClassVar[tuple]  # ("valid/" + a metric of the loss, "min" or "max"): which step is the best
    takes_group: ClassVar[bool] = False  # whether `batches` can group by length
    logits_per_token: ClassVar[float] = 0.0  # as in `convnlp.objectives.Objective`
    generates: ClassVar[bool] = False  # whether its models write text, by `generate`
    fits_head: ClassVar[bool] = False  # whether it has `linear_heads`, for a model whose last layer is `head`
    teaches_itself: ClassVar[bool] = False  # whether `fitted` also learns from texts without labels
    metrics: ClassVar[tuple]  # names of all possible scores, except num_examples
    share_metrics: ClassVar[tuple] = ()  # the scores that are a share of the examples
    # Fields of a config's `task` that name fields of the data, and are found in the data if not given: keys
    # of `convnlp.data.fields.ROLES`.
    found_fields: ClassVar[tuple] = ()
    text_roles: ClassVar[tuple] = ("text_field", "second_text_field")  # those for its texts, one or two
    # Fields of a config's `task` that `from_config` reads; None if that is not known. See `reads`.
    config_fields: ClassVar[tuple | None] = None
    # The arguments of `Fields` that have an effect on its scores, so that a user may give them.
    scored_by: ClassVar[tuple] = ("texts", "label", "label_names", "label_threshold", "target")
    edge_metrics: ClassVar[tuple] = ()  # names of the scores that the output of a TFLite file has

    def __post_init__(self):
        options.check_values(type(self), vars(self))

    @classmethod
    @abc.abstractmethod
    def from_config(cls, config, tokenizer, train):
        """Returns the task of an experiment; its options may be left out, since `build_task` sets them.

        A task that checks other fields against an option when it is made passes `config.task.options`.

        Args:
            config: ConfigDict, see `configs/common.py`.
            tokenizer: `convnlp.models.Tokenizer`.
            train: `convnlp.data.Source`, which may name the classes if the config does not.

        Raises:
            ValueError: if fields of the config contradict each other.
            SourceError: if the source would have to name classes, but does not.
        """

    @classmethod
    @abc.abstractmethod
    def from_model(cls, model, source, fields):
        """Returns the task that a model was made for.

        Args:
            model: a `model_cls` with its preprocessor.
            source: `convnlp.data.Source`, the data to score on.
            fields: `Fields`.

        Raises:
            ValueError: if the fields do not fit the task.
        """

    @classmethod
    @abc.abstractmethod
    def answers(cls, model):
        """Returns the `Answers` of a model once it is exported."""

    @classmethod
    def reads(cls, field):
        """Returns whether a field of a config's `task`, such as "label_field", has an effect on this task."""
        of_all = ("kind", "num_epochs", "options", "unlabelled_source")
        return cls.config_fields is None or field in (*cls.config_fields, *of_all)

    @classmethod
    def open_roles(cls, config):
        """Returns those of `found_fields` that this config needs; by default, all of them."""
        return cls.found_fields

    @classmethod
    def check_backbone(cls, config, backbone):
        """Refuses a backbone on which the task's model could not be built.

        By default, it must take inputs of `data.input_length` tokens, if that is given. A program
        calls it as soon as it has the backbone: to read the data, ask teachers or adapt the backbone may take
        long.

        Args:
            config: ConfigDict, see `configs/common.py`.
            backbone: `convnlp.models.Seq2SeqBackbone`.

        Raises:
            ValueError: if the config asks for what the backbone cannot do; the message names the field, the
                rule and the value.
        """
        if config.data.input_length is not None:
            backbone.require_length(_side(backbone), "data.input_length", config.data.input_length)

    @classmethod
    def longest_input(cls, config, backbone):
        """Returns the most tokens that `data.input_length` can be, or None for any number.

        Args:
            config: ConfigDict, see `configs/common.py`.
            backbone: `convnlp.models.Seq2SeqBackbone`.
        """
        return backbone.longest_text(_side(backbone))

    @classmethod
    def scored_fields(cls, model, source, trained, given):
        """Returns the `Fields` to score a model on: those given, else those of its training, else the data's.

        By default, the fields are looked for if "text_field" or "label_field" is one of `found_fields`; see
        `with_label`.

        Args:
            model: a `model_cls`.
            source: `convnlp.data.Source`, the data to score on.
            trained: dict, the `task` of the config that the model was trained by; empty if it is not known.
            given: dict, those arguments of `Fields` that the user gives.

        Raises:
            SourceError: if it is not clear which fields are meant.
        """
        if not {"text_field", "label_field"} & {*cls.found_fields}:
            return Fields(**given)
        return with_label(source, trained, given, cls.text_roles, "label_field" in cls.found_fields)

    @property
    def decoder_length(self):
        """The number of tokens that a decoder writes; 0 without a decoder."""
        return 0

    @property
    def known_metrics(self):
        """Those of `metrics` that apply to these fields and classes."""
        return self.metrics

    @abc.abstractmethod
    def read(self, source, training=False):
        """Reads and checks all examples of a `Source`; returns `convnlp.data.examples.Examples`.

        Args:
            source: `Source`.
            training: bool. Whether they are only trained on, so that what scores need can be left out.
        """

    def read_unlabelled(self, source):
        """Reads texts without labels; returns `convnlp.data.examples.Examples`.

        A task that `teaches_itself` or `has_teachers` has this; the default does not.
        """
        raise NotImplementedError

    @property
    def has_teachers(self):
        """Whether `for_training` can learn from texts without labels, because other models answer them."""
        return False

    def for_training(self, found):
        """Returns what is trained on: by default, what was read; a task may add to it.

        A task that `has_teachers` also takes `unlabelled`: what `read_unlabelled` returned, or None. It comes
        last in what is returned.

        Args:
            found: what `read` returned, without the held-out examples.
        """
        return found

    @abc.abstractmethod
    def batches(self, found, batch_size, *, training=False, **order):
        """Makes batches of what was read: a tf.data.Dataset of dicts of static shapes.

        Args:
            found: what `read` returned.
            batch_size: int, B, of this worker.
            training: bool. False: all examples once, in order; what fills up the last batch does not count.
            **order: `seed`, `num_epochs` and `shard` of `convnlp.data.batching.order`. A task that
                `takes_group` also takes `group`, like `convnlp.data.batching.labelled_batches`; then each
                batch is as long as its longest text.
        """

    @abc.abstractmethod
    def model(self, backbone):
        """Returns an untrained model of `model_cls` around a backbone."""

    def begin(self, model, found):
        """Returns a model as its training starts; by default, unchanged. A resumed run does not ask for it.

        Args:
            model: what `model` returned, whose weights may be changed in place.
            found: what it will be trained on.
        """
        return model

    def trained(self, model, found, held_out, learns=False):
        """Finishes a trained model; by default, returns it unchanged.

        Args:
            model: what `model` returned, now trained.
            found: what it was trained on.
            held_out: what `read` returned of the examples that it was not trained on.
            learns: bool. Whether the model to keep may also learn from `held_out`. Defaults to False.

        Returns:
            (model to score on `held_out`, which it has used only to choose, model to keep); they may be the
            same.
        """
        return model, model

    @abc.abstractmethod
    def loss(self, model):
        """Returns `loss_fn(batch, seed, training=True)` for `convnlp.training.loop`."""

    def linear_heads(self, features, labels, penalties):
        """Returns the weights with which the model's `head` fits best to fixed vectors.

        A task that `fits_head` has this and `head_rank`; the default has neither.

        Args:
            features: float array [N,D], the input of the `head` for each example.
            labels: array [N,...], labels of the examples.
            penalties: sequence of float, on the size of the weights.

        Returns:
            list of pairs, one per penalty: float32 [D,U] and [U], the weights of the `head`.
        """
        raise NotImplementedError

    def head_rank(self, outputs, labels):
        """Rates the outputs [N,U] of a `head` on held-out examples: a tuple, larger is better."""
        raise NotImplementedError

    def fitted(self, model, found, features, fold_of, penalties):
        """Returns the model whose `head` fits best, and how it answers held-out examples.

        The penalty is the one whose answers to held-out examples have the highest `head_rank`; the head is
        then fitted to all examples.

        Args:
            model: what `model` returned.
            found: `Examples`, n of them.
            features: float array [n,D], the input of the `head` for each example.
            fold_of: int array [n], see `cross_fitting.folds`.
            penalties: sequence of float, on the size of the weights.

        Returns:
            (the model; dict, what was chosen; float array [h,U], outputs as `scores` takes them for the
            held-out examples, from a fit without them, with the penalty that the other folds choose).

        A task that `teaches_itself` also takes `unlabelled`: (`Examples`, their features [u,D]), or None. If
        it is given, what was chosen has "self_training", a named tuple whose `str` says what came of it.
        """
        labels = found.labels
        outputs = cross_fitting.in_turn(
            lambda is_seen, is_asked: [
                features[is_asked] @ kernel + bias
                for kernel, bias in self.linear_heads(features[is_seen], labels[is_seen], penalties)
            ],
            fold_of,
        )
        held = labels[fold_of >= 0]

        def best(is_seen):
            ranks = [self.head_rank(each[is_seen], held[is_seen]) for each in outputs]
            return max(range(len(ranks)), key=ranks.__getitem__)

        answers = cross_fitting.in_turn(
            lambda is_seen, is_asked: outputs[best(is_seen)][is_asked], fold_of[fold_of >= 0]
        )
        penalty = penalties[best(slice(None))]
        (weights,) = self.linear_heads(features, labels, [penalty])
        model.head.set_weights(weights)
        return model, {"penalty": penalty}, answers

    @abc.abstractmethod
    def scores(self, model, found, batch_size=32, outputs=None):
        """Scores a model on what was read: dict of floats by `known_metrics`, and "num_examples".

        Args:
            model: a `model_cls`.
            found: what `read` returned, n examples.
            batch_size: int, examples per batch if the model is asked. Default 32.
            outputs: what `outputs` returned for these examples, or None (default), to ask the model. If the
                task `fits_head`, they may be those of any model, a float array [n,U].
        """

    def review(self, model, found, batch_size=32, outputs=None, is_own=True):
        """Returns what a run's report shows besides the scores: a `convnlp.tasks.review.Review`.

        The default has no section. Takes the arguments of `scores`, and `is_own`, a bool: whether `outputs`
        are those of this model, so that it can be asked for reasons. Default True.
        """
        return Review()

    def mistakes(self, model, found, outputs):
        """Returns the examples with another answer than their label, the most doubtful labels first.

        Args:
            model: a `model_cls`.
            found: what `read` returned.
            outputs: what `outputs` returned for these examples, or those of another model; see `scores`.

        Returns:
            list of (int, the example's index; dict, name of a column -> the answer). The default is empty.
        """
        return []

    def outputs(self, model, found, batch_size=32):
        """Returns what `scores` and `review` take as `outputs`, so that the model is asked only once.

        By default there are none, and both ask the model themselves.
        """
        return None  # noqa: RET501

    def edge_scores(self, outputs, found):
        """Scores a TFLite file on what was read; the default has no scores.

        Args:
            outputs: float array [N,...], what `Answers.edge` returns for each example, in order.
            found: what `read` returned.

        Returns:
            dict of floats by `edge_metrics`.
        """
        return {}


def _side(backbone):
    """Returns the name of the stack that reads an input."""
    return "encoder" if backbone.num_layers else "decoder"
