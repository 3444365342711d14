r"""Fine-tunes a preset, or trains from random weights, on labelled texts or on pairs of texts.

    python -m convnlp.finetune --config=configs/finetune_classification.py --workdir=DIR \
        --config.init_from=PRESET --config.data.source=jsonl:train.jsonl \
        --config.data.test_source=jsonl:test.jsonl

Writes what pretrain writes; preset/ is a `TextClassifier` (task.kind "classification") or a `Seq2SeqLM`
("text_to_text") with the weights of the best evaluation, and results.json holds its scores on the
validation and test data and what the training took.
"""

from absl import flags

from convnlp import config_rules, experiment, losses, outputs, programs, scores
from convnlp.data import Label, Shard, Source, examples, sources, tasks
from convnlp.models import (
    Seq2SeqLM,
    Seq2SeqLMPreprocessor,
    TextClassifier,
    TextClassifierPreprocessor,
)
from convnlp.training import loop, optimizers, storage
from convnlp.training import strategy as strategy_lib


class Classification:
    """One text, or a pair, to a class.

    Args:
        config: the experiment.
        tokenizer: a `Tokenizer`.
        batch_size: int, of one worker.
        train: `Source`, which names the classes where the config does not.
    """

    best = ("valid/accuracy", "max")

    def __init__(self, config, tokenizer, batch_size, train):
        self._config, self._tokenizer, self._batch_size = config, tokenizer, batch_size
        field = config.task.label_field
        # The whole split: a slice may lack a rare class.
        names = tuple(config.task.label_names) or sources.label_names(train.whole, field)
        self._label = Label(field, names=names)

    def read(self, source, training):
        """All examples of a `Source`, each of them checked."""
        del training
        task = self._config.task
        fields = tuple(filter(None, (task.text_field, task.second_text_field)))
        return tasks.read_classification(
            source, self._tokenizer, self._label, self._config.data.input_length, fields
        )

    def batches(self, found, training, **order):
        """Batches of what was read, see `convnlp.data.tasks`."""
        return tasks.classification_batches(found, self._batch_size, training=training, **order)

    def model(self, backbone):
        """The classifier, a new head on the backbone's encoder."""
        return TextClassifier(
            backbone,
            num_classes=self._label.num_classes,
            preprocessor=TextClassifierPreprocessor(self._tokenizer, self._config.data.input_length),
            pooling=self._config.task.pooling,
            dropout=self._config.task.head_dropout,
            labels=list(self._label.names),
        )

    def loss(self, classifier):
        """The loss function for the loop."""
        return losses.classification_loss(classifier)

    def scores(self, classifier, found):
        """Accuracy, F1 and loss on all of what was read."""
        return scores.classification_scores(classifier, self.batches(found, training=False))


class TextToText:
    """A text to a text, which may be the name of a class.

    Args:
        config: the experiment.
        tokenizer: a `Tokenizer`.
        batch_size: int, of one worker.
        train: `Source`, not looked at.
    """

    best = ("valid/loss", "min")

    def __init__(self, config, tokenizer, batch_size, train):
        del train
        self._config, self._tokenizer, self._batch_size = config, tokenizer, batch_size
        self._names = tuple(config.task.label_names) or None

    def read(self, source, training):
        """All examples of a `Source`, each of them checked; the texts too, which only scores need."""
        return tasks.read_text_to_text(
            source,
            self._tokenizer,
            input_length=self._config.data.input_length,
            target_length=self._config.data.target_length,
            input_field=self._config.task.input_field,
            target_field=self._config.task.target_field,
            label_names=self._names,
            keep_texts=not training,
        )

    def batches(self, found, training, **order):
        """Batches of what was read, see `convnlp.data.tasks`."""
        return tasks.text_to_text_batches(
            found,
            self._batch_size,
            start_token_id=self._tokenizer.start_token_id,
            training=training,
            pack=self._config.task.pack and training,
            **order,
        )

    def model(self, backbone):
        """The language model around the backbone."""
        lengths = self._config.data.input_length, self._config.data.target_length
        return Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(self._tokenizer, *lengths))

    def loss(self, lm):
        """The loss function for the loop."""
        return losses.text_to_text_loss(lm.backbone)

    def scores(self, lm, found):
        """Exact match of greedy decoding, and ranked accuracy where targets are classes."""
        inputs, targets = (
            found.texts[field] for field in (self._config.task.input_field, self._config.task.target_field)
        )
        return scores.text_to_text_scores(lm, inputs, targets, self._names)


TASKS = {"classification": Classification, "text_to_text": TextToText}


def main(argv):
    """Flags -> run."""
    del argv
    run(*experiment.start(open_fields))


def run(config, workdir, strategy):
    """Config -> tokenizer -> data -> model -> optimizer -> training -> scores and preset.

    `strategy` is what `convnlp.experiment.prepare` returned for this config and directory.
    """
    worker, num_workers = strategy_lib.workers(strategy)
    tokenizer = experiment.tokenizer(config)
    with strategy.scope():  # before the data is read, which takes longer than to refuse a preset
        dtype = experiment.dtype_policy(config, strategy)
        backbone = experiment.backbone(config, tokenizer.vocabulary_size(), dtype)

    # Data, all of it read and so checked before the first step. Every worker trains on its own shard and
    # evaluates on all of the held-out examples.
    data = config.data
    train = Source(data.source, data.split, data.data_dir)
    held_out = {
        "validation": Source(data.validation_source or data.source, data.validation_split, data.data_dir)
    }
    if data.test_source:
        held_out["test"] = Source(data.test_source, data.test_split, data.data_dir)
    paths = [path for source in (train, *held_out.values()) for path in sources.paths(source)]
    outputs.check_run_folder(workdir, config.init_from, paths)
    task = TASKS[config.task.kind](config, tokenizer, config.train.batch_size // num_workers, train)
    held_out = {name: task.read(source, training=False) for name, source in held_out.items()}
    found = task.read(train, training=True)
    dataset = task.batches(found, training=True, seed=config.seed, shard=Shard(num_workers, worker))
    validation = task.batches(held_out["validation"], training=False).cache()
    names = open_fields(config)
    resolve_steps(config, len(found))
    experiment.write_resolved(config, workdir, strategy, names)

    # Model and optimizer.
    with strategy.scope():
        model = task.model(backbone)
        optimizer = optimizers.build(config.optimizer, config.train.num_steps)
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
        evaluate=lambda: {f"valid/{name}": value for name, value in evaluation(validation).items()},
        best=task.best,
        **experiment.loop_arguments(config),
    )

    # Scores, preset and model card.
    if worker == 0:
        results = {name: task.scores(model, found) for name, found in held_out.items()}
        target_length = config.data.target_length if config.task.kind == "text_to_text" else 0
        card = experiment.card(config, facts, model.backbone, target_length)
        card["objective"] = config.task.kind
        card["scores"] = {
            f"{s} {name}": value for s, values in results.items() for name, value in values.items()
        }
        experiment.save_preset(model, workdir, card)
        storage.write_json(f"{workdir}/results.json", {**facts, **results})
        for name, value in card["scores"].items():
            print(f"{name}: {value:.4f}")
    strategy_lib.any_worker(strategy, False)  # one that ends before the others takes them with it
    experiment.finish(workdir)


def open_fields(config):
    """Names of the fields that `resolve_steps` will set."""
    counts = ("train.num_steps", "train.eval_every", "train.checkpoint_every") * bool(config.task.num_epochs)
    return counts + ("optimizer.warmup_steps",) * (not config.optimizer.warmup_steps)


def resolve_steps(config, num_examples):
    """Sets the counts that the config leaves to the data, so that it says what is run.

    With `task.num_epochs` there are an evaluation and a checkpoint after each epoch. A warm-up of 0 becomes a
    tenth of the steps.

    Args:
        config: the experiment; changed.
        num_examples: int, of the training data.

    Raises:
        ValueError: if there are more steps than a run can count.
    """
    num_steps, num_epochs, per_call = (
        config.train.num_steps,
        config.task.num_epochs,
        config.train.steps_per_call,
    )
    if num_epochs:
        num_batches = examples.num_batches(num_examples, config.train.batch_size, num_epochs)
        calls = max(1, num_batches // per_call)
        every = per_call * max(1, round(calls / num_epochs))
        num_steps = calls * per_call
        if num_steps >= config_rules.MAX_STEPS:
            raise ValueError(
                f"`task.num_epochs` must give fewer than {config_rules.MAX_STEPS} steps. "
                f"Received: task.num_epochs={num_epochs}, {num_examples} examples"
            )
        config.train.update({"num_steps": num_steps, "eval_every": every, "checkpoint_every": every})
    config.optimizer.warmup_steps = config.optimizer.warmup_steps or num_steps // 10


if __name__ == "__main__":
    experiment.define_flags()  # not on import, so that a process can import several programs
    flags.adopt_module_key_flags(experiment)
    programs.run(main)
