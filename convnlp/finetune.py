r"""Fine-tunes a preset, or trains from random weights, on labelled texts or on pairs of texts.

    python -m convnlp.finetune --config=configs/finetune_classification.py --workdir=DIR \
        --config.init_from=PRESET --config.data.source=jsonl:train.jsonl \
        --config.data.test_source=jsonl:test.jsonl

Writes what pretrain writes; preset/ is a `TextClassifier` (task.kind "classification") or a `Seq2SeqLM`
("text_to_text") with the weights of the best evaluation, and results.json holds its scores on the
validation and test data and what the training took.
"""

from absl import flags

from convnlp import experiment, losses, programs, scores
from convnlp.data import sources, tasks
from convnlp.data.schema import Label
from convnlp.models import (
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
)
from convnlp.training import checkpoints, loop, optimizers
from convnlp.training import strategy as strategy_lib


class Classification:
    """One text, or a pair, to a class.

    Args:
        config: the experiment.
        tokenizer: a `Tokenizer`.
        batch_size: int, of one worker.
    """

    best = ("valid/accuracy", "max")

    def __init__(self, config, tokenizer, batch_size):
        self._config, self._tokenizer, self._batch_size = config, tokenizer, batch_size
        self._names = tuple(config.task.label_names) or sources.label_names(
            config.data.source,
            config.data.split.partition("[")[0],  # the whole split: a slice may lack a rare class
            config.task.label_field,
            data_dir=config.data.data_dir or None,
        )

    def batches(self, source, split, training, **arguments):
        """Batches of a split, see `convnlp.data.tasks`."""
        task = self._config.task
        return tasks.classification_batches(
            source,
            self._tokenizer,
            sequence_length=self._config.data.input_length,
            batch_size=self._batch_size,
            training=training,
            split=split,
            text_fields=tuple(filter(None, (task.text_field, task.second_text_field))),
            label_field=task.label_field,
            label_names=self._names,
            data_dir=self._config.data.data_dir or None,
            **arguments,
        )

    def model(self, backbone):
        """The classifier, a new head on the backbone's encoder."""
        return TextClassifier(
            backbone,
            num_classes=len(self._names),
            preprocessor=TextClassifierPreprocessor(self._tokenizer, self._config.data.input_length),
            pooling=self._config.task.pooling,
            dropout=self._config.task.head_dropout,
            labels=list(self._names),
        )

    def loss(self, classifier):
        """The loss function for the loop."""
        return losses.classification_loss(classifier)

    def scores(self, classifier, source, split):
        """Accuracy, F1 and loss on all of a split."""
        return scores.classification_scores(classifier, self.batches(source, split, training=False))


class TextToText:
    """A text to a text, which may be the name of a class.

    Args:
        config: the experiment.
        tokenizer: a `Tokenizer`.
        batch_size: int, of one worker.
    """

    best = ("valid/loss", "min")

    def __init__(self, config, tokenizer, batch_size):
        self._config, self._tokenizer, self._batch_size = config, tokenizer, batch_size
        self._names = tuple(config.task.label_names) or None

    def batches(self, source, split, training, **arguments):
        """Batches of a split, see `convnlp.data.tasks`."""
        return tasks.text_to_text_batches(
            source,
            self._tokenizer,
            input_length=self._config.data.input_length,
            target_length=self._config.data.target_length,
            batch_size=self._batch_size,
            training=training,
            split=split,
            input_field=self._config.task.input_field,
            target_field=self._config.task.target_field,
            label_names=self._names,
            pack=self._config.task.pack and training,
            data_dir=self._config.data.data_dir or None,
            **arguments,
        )

    def model(self, backbone):
        """The language model around the backbone."""
        lengths = self._config.data.input_length, self._config.data.target_length
        return Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(self._tokenizer, *lengths))

    def loss(self, lm):
        """The loss function for the loop."""
        return losses.text_to_text_loss(lm.backbone)

    def scores(self, lm, source, split):
        """Exact match of greedy decoding, and ranked accuracy where targets are classes, on a split."""
        field, target, names = self._config.task.input_field, self._config.task.target_field, self._names
        label = Label(target, names=names) if names else None
        fields = (field,) if names else (field, target)
        rows = sources.read(source, split, fields, label, data_dir=self._config.data.data_dir or None)
        inputs, targets = [], []
        for row in rows.as_numpy_iterator():
            inputs.append(row[field].decode())
            targets.append(names[row["label"]] if names else row[target].decode())
        return scores.text_to_text_scores(lm, inputs, targets, names)


TASKS = {"classification": Classification, "text_to_text": TextToText}


def main(argv):
    """Flags -> run."""
    del argv
    run(*experiment.start())


def run(config, workdir, strategy):
    """Config -> tokenizer -> data -> model -> optimizer -> training -> scores and preset.

    `strategy` is what `convnlp.experiment.prepare` returned for this config and directory.
    """
    worker, num_workers = strategy_lib.workers(strategy)
    if config.task.kind not in TASKS:
        raise ValueError(f"`task.kind` must be one of {', '.join(TASKS)}. Received: {config.task.kind!r}")
    tokenizer = experiment.tokenizer(config)
    task = TASKS[config.task.kind](config, tokenizer, config.train.batch_size // num_workers)
    with strategy.scope():  # before the data is read, which takes longer than to refuse a preset
        dtype = experiment.dtype_policy(config, strategy)
        backbone = experiment.backbone(config, tokenizer.vocabulary_size(), dtype)

    # Data. Every worker trains on its own shard and evaluates on all of the held-out examples.
    splits = {
        "validation": (config.data.validation_source or config.data.source, config.data.validation_split),
        "test": (config.data.test_source, config.data.test_split),
    }
    train_split = (config.data.source, config.data.split, True)
    shard = {"seed": config.seed, "num_shards": num_workers, "shard_index": worker}
    dataset = task.batches(*train_split, **shard)
    held_out = task.batches(*splits["validation"], training=False).cache()
    steps = experiment.loop_arguments(config)
    if config.task.num_epochs:
        counted = task.batches(*train_split, **shard, num_epochs=config.task.num_epochs)
        steps.update(_epoch_steps(counted, config))
    with config.unlocked():
        config.optimizer.warmup_steps = config.optimizer.warmup_steps or steps["num_steps"] // 10

    # Model and optimizer.
    with strategy.scope():
        model = task.model(backbone)
        optimizer = optimizers.build(config.optimizer, steps["num_steps"])
    loss_fn = task.loss(model)
    evaluation = loop.evaluation(strategy, lambda batch: loss_fn(batch, None, training=False))

    # Training.
    facts = loop.train(
        workdir=workdir,
        strategy=strategy,
        model=model,
        optimizer=optimizer,
        loss_fn=loss_fn,
        dataset=dataset,
        evaluate=lambda: {f"valid/{name}": value for name, value in evaluation(held_out).items()},
        best=task.best,
        **steps,
    )

    # Scores, preset and model card.
    if worker == 0:
        results = {name: task.scores(model, *split) for name, split in splits.items() if split[0]}
        target_length = config.data.target_length if config.task.kind == "text_to_text" else 0
        card = experiment.card(config, facts, model.backbone, target_length)
        card["objective"] = config.task.kind
        card["scores"] = {
            f"{s} {name}": value for s, values in results.items() for name, value in values.items()
        }
        experiment.save_preset(model, workdir, card)
        checkpoints.write_json(f"{workdir}/results.json", {**facts, **results})
        for name, value in card["scores"].items():
            print(f"{name}: {value:.4f}")
    strategy_lib.any_worker(strategy, False)  # one that ends before the others takes them with it


def _epoch_steps(dataset, config):
    """Step counts for `task.num_epochs`, with an evaluation and a checkpoint after each epoch."""
    num_steps, per_call = int(dataset.cardinality()), config.train.steps_per_call
    if num_steps < 0:
        raise ValueError("`task.num_epochs` must be 0 with `task.pack`; set `train.num_steps`")
    calls = max(1, num_steps // per_call)
    every = per_call * max(1, round(calls / config.task.num_epochs))
    return {"num_steps": calls * per_call, "eval_every": every, "checkpoint_every": every}


if __name__ == "__main__":
    experiment.define_flags()  # not on import, so that a process can import several programs
    flags.adopt_module_key_flags(experiment)
    programs.run(main)
