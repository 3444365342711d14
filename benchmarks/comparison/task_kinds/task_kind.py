"""The contract of a kind of task: all that differs between comparisons of classifiers and of others."""

import abc
from typing import ClassVar


class TaskKind(abc.ABC):
    """What a comparison asks about the kind of its task."""

    name: ClassVar[str]  # its key in `KINDS` and in `convnlp.tasks.TASKS`
    # Fields of `benchmarks.comparison.tasks.Data` that are not settings of a cell. One more or less would be
    # another cell for everything that is finished.
    left_out: ClassVar[tuple] = ("target_length",)
    is_measured: ClassVar[bool] = False  # whether a model's speed can be measured, as `measuring.Model`
    chooses_own_rate: ClassVar[bool] = False  # whether no other task can choose its learning rate
    keeps_presets: ClassVar[bool] = False  # whether fine-tuned models are kept, to be evaluated elsewhere
    metrics: ClassVar[dict]  # score of a fine-tuning, one of them "accuracy" -> metric of `convnlp.finetune`
    curve: ClassVar[str]  # the metric of a learning curve
    # (what is added to the task's name, score, key of each example's scores) per column of a table
    columns: ClassVar[tuple] = (("", "accuracy", "hits"),)
    # What the notes below a table call the model, the score, and the measure of the best step.
    model_words: ClassVar[str] = "encoder alone"
    score_words: ClassVar[str]
    best_words: ClassVar[str]

    def check_mixer(self, mixer):
        """Checks that a row can be fine-tuned for the task.

        Args:
            mixer: str.

        Raises:
            ValueError: if it cannot.
        """
        del mixer  # by default, any row can

    @abc.abstractmethod
    def set_task(self, config, plan, data, fields):
        """Sets what a config of fine-tuning says of the task.

        Args:
            config: ConfigDict, as from `configs/finetune_classification.py`, with the row's model.
            plan: `benchmarks.comparison.plan.Plan`.
            data: `benchmarks.comparison.tasks.Data`.
            fields: dict, the fields of `config.task` that the row sets.
        """

    @abc.abstractmethod
    def hits(self, model, source, texts, target, batch_size):
        """Returns the lengths of the examples, and which the model gets right.

        Args:
            model: of the class that the task has for models.
            source: `convnlp.data.Source`.
            texts: tuple of one or two names of fields.
            target: str, the field of the correct answer.
            batch_size: int.

        Returns:
            dict, "lengths" and "hits" -> lists of ints, and more lists if `columns` names them.
        """
