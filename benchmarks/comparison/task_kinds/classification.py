"""Texts or pairs of texts with a class."""

from typing import ClassVar

import tensorflow as tf

from benchmarks.comparison.task_kinds.task_kind import TaskKind
from convnlp import tasks


class Classification(TaskKind):
    """A classifier of texts, whose encoder can also be measured."""

    name = "classification"
    left_out = ("kind", "target_length")
    is_measured = True
    metrics: ClassVar = {"accuracy": "accuracy"}
    curve = "accuracy"
    score_words = "test accuracies"
    best_words = "validation accuracy"

    def set_task(self, config, plan, data, fields):
        """Sets the fields of the data, a head without n-grams, and what the row sets."""
        for name in ("label_names", "text_field", "second_text_field", "label_field"):
            config.task[name] = getattr(data, name)
        config.task.options.ngram_buckets = 0  # the mixer is the only variable
        config.task.pooling = "mean_max"
        config.task.update(fields)

    def hits(self, model, source, texts, target, batch_size):
        """Returns "lengths" and "hits": whether the most probable class is the right one."""
        task = tasks.Classification.from_model(model, source, tasks.Fields(texts, target))
        predict = tf.function(model, autograph=False)
        lengths, hits = [], []
        for batch in task.batches(task.read(source), batch_size):
            logits = predict({name: batch[name] for name in ("token_ids", "padding_mask")}).numpy()
            real = batch["weight"].numpy() > 0
            lengths += batch["padding_mask"].numpy().sum(1)[real].tolist()
            hits += (logits.argmax(1) == batch["label"].numpy())[real].astype(int).tolist()
        return {"lengths": lengths, "hits": hits}
