"""Questions with a text that holds their answers."""

from typing import ClassVar

from benchmarks.comparison.task_kinds.task_kind import TaskKind
from convnlp import tasks


class QuestionAnswering(TaskKind):
    """A model that points at the answer in a text, scored as SQuAD does."""

    name = "question_answering"
    metrics: ClassVar = {"accuracy": "squad_exact_match", "f1": "squad_f1"}
    curve = "span_accuracy"
    columns = ((", F1", "f1", "f1s"), (", exact match", "accuracy", "hits"))
    score_words = "exact matches on test data"
    best_words = "share of validation questions with the right span"

    def set_task(self, config, plan, data, fields):
        """Sets the fields of question answering.

        Where a classifier pools a pair of texts, this task uses a summary of the question. So
        `task.pooling=pair` adds that summary, as in `configs/finetune_squad.py`; without it, only the mixer
        relates the two texts. Head dropout is the same as in that config.
        """
        config.task.kind = self.name
        config.task.question_field, config.task.context_field = data.text_field, data.second_text_field
        config.task.answers_field = data.label_field
        config.task.head_dropout = 0.1
        config.task.options.question_summary = fields.get("pooling") == "pair"

    def hits(self, model, source, texts, target, batch_size):
        """Counts SQuAD's exact matches of the model as it is exported: over all windows of a long text.

        It also returns "f1s", a list of floats.
        """
        task = tasks.QuestionAnswering.from_model(model, source, tasks.Fields(texts, target=target))
        found = task.read(source)
        each = task.scores_of_each(model, found, batch_size)
        return {
            "lengths": found.columns[0].row_lengths().numpy().tolist(),
            "hits": [int(value) for value in each["squad_exact_match"]],
            "f1s": each["squad_f1"],
        }
