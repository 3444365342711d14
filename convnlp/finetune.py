r"""Fine-tunes a preset, or trains from random weights, on labelled texts or pairs of texts.

    python -m convnlp.finetune --config.data.source=csv:train.csv --config.data.test_source=csv:test.csv \
        --workdir=DIR

Without --config it takes `finetune_classification`, which starts from the preset that ships with the package.

Writes what pretrain writes. preset/ is a `TextClassifier` (task.kind "classification") or a `Seq2SeqLM`
("text_to_text") with the weights of the best evaluation. results.json holds its scores on the validation and
test data, and what the training took. report.html shows these and more about the data and the model;
report.json holds the same.
"""

import typing

import numpy as np
import tensorflow as tf
from absl import flags, logging

from convnlp import (
    adaptation,
    components,
    config_rules,
    estimate,
    experiment,
    outputs,
    programs,
    report,
    run_preset,
    stages,
    tasks,
)
from convnlp.data import Source, examples, overlap, rules, sources, validation
from convnlp.tasks import fields, rows
from convnlp.training import graphs, loop, optimizers, storage
from convnlp.training import strategy as strategy_lib
from convnlp.training.shards import Sharded
from convnlp.training.stages import Stage

SHOWN_EXAMPLES = 60_000  # in a run whose epochs follow from the size of the data; repeats count


def main(argv):
    """Flags -> run."""
    del argv
    run(*experiment.start(open_fields), finish=flags.FLAGS.finish)


def run(config, workdir, strategy, finish=False):
    """Config -> tokenizer -> data -> model -> optimizer -> training -> scores and preset.

    `strategy` is what `convnlp.experiment.prepare` returned for this config and directory. With `finish`,
    training stops here: the scores and the preset are those of the best evaluation so far.
    """
    worker, num_workers = strategy_lib.workers(strategy)
    tasks.check_options(config)
    tokenizer = components.tokenizer(config)
    with strategy.scope():  # before the slow reading of the data, so that a bad preset is refused at once
        dtype = components.dtype_policy(config, strategy)
        backbone = components.backbone(config, tokenizer.vocabulary_size(), dtype)

    # Data. All of it is read, and so checked, before the first step. Every worker trains on its own shard and
    # evaluates on all held-out examples.
    train, held_out = read_sources(config, workdir)
    names = open_fields(config)
    fields.take(config, train)
    fields.take_length(config, tokenizer, train, backbone)
    task = tasks.build_task(config, tokenizer, train)
    found, held_out, is_trained_on = read_examples(task, train, held_out)
    trained_on = report_overlap(found, held_out, tokenizer) if worker == 0 else {}
    found = task.for_training(found)
    adaptation.check(config)
    batch_size = config.train.batch_size // num_workers
    groups = config.data.group_by_length and task.takes_group and rows.mixes_any_length(backbone)
    group, one = ({"group": config.train.steps_per_call}, {"group": 1}) if groups else ({}, {})
    own_shards = experiment.own_shards(workdir, strategy)
    parts = [*_parts(config, tokenizer, train, is_trained_on, task, found, own_shards, group)]
    validation_batches = task.batches(held_out["validation"], batch_size, **one).cache()
    resolve_steps(config, len(found))
    experiment.write_resolved(config, workdir, strategy, names)

    # Model and optimizer.
    if config.task.unlabelled_source:
        start = config.copy_and_resolve_references()
        start.init_from = adaptation.run(config, workdir, strategy, backbone.encoder.longest_text())
        with strategy.scope():
            backbone = components.backbone(start, tokenizer.vocabulary_size(), dtype)
    with strategy.scope():
        model = task.model(backbone)
        optimizer = optimizers.build(config.optimizer, config.train.num_steps, model.backbone.depth_of)
    loss_fn = task.loss(model)
    evaluation = graphs.evaluation(strategy, lambda batch: loss_fn(batch, None, training=False))

    # Training.
    expected = None
    if not finish:
        expected = estimate.report(config, strategy, model.backbone, mean_length(found, groups))
    first, *later = (Stage(step, data, own.loss(model)) for step, data, own in parts)
    summary = loop.train(
        workdir=workdir,
        strategy=strategy,
        model=model,
        optimizer=optimizer,
        loss_fn=first.loss_fn,
        dataset=first.dataset,
        later_stages=later,
        evaluate=lambda: {f"valid/{name}": value for name, value in evaluation(validation_batches).items()},
        best=task.best,
        finish=finish,
        **experiment.loop_arguments(config),
    )
    summary |= {} if expected is None else {"estimated_seconds": expected.seconds}

    if worker == 0:
        examples, left_out = held_out["validation"], None
        ours = is_trained_on is not None  # a validation split that the user gives stays unseen
        judged, model = task.trained(model, found, examples, learns=ours)
        if judged is not model:
            left_out = LeftOut(examples, model=judged)
        save(config, workdir, task, model, tokenizer, found, held_out, trained_on, summary, left_out)
    strategy_lib.any_worker(strategy, False)  # a worker that ends early takes the others with it
    experiment.finish(workdir)


def read_sources(config, workdir):
    """Returns the sources of an experiment, none of which may lie where the run writes.

    Returns:
        (`Source` to train on, dict of `Source`: "validation" and "test", if the config has them).

    Raises:
        ValueError: if a file lies in the run's directory; the message names it.
    """
    data = config.data
    train = Source(data.source, data.split, data.data_dir)
    held_out = {}
    if data.validation_split:
        name = data.validation_source or data.source
        held_out["validation"] = Source(name, data.validation_split, data.data_dir)
    if data.test_source:
        held_out["test"] = Source(data.test_source, data.test_split, data.data_dir)
    paths = [path for source in (train, *held_out.values()) for path in sources.paths(source)]
    outputs.check_run_folder(workdir, config.init_from, paths)
    return train, held_out


def read_examples(task, train, held_out):
    """Reads all examples; without a validation source, some training examples are held out for validation.

    Args:
        task: `Task`.
        train: `Source`.
        held_out: dict, name -> `Source`.

    Returns:
        (`Examples` to train on, dict name -> `Examples` that includes "validation", bool array that says
        which examples of `train` are trained on, or None for all).

    Raises:
        SourceError: if a source or any of its examples is wrong, or if there are too few to hold any out.
    """
    found_held_out = {name: task.read(source) for name, source in held_out.items()}
    if "validation" in held_out:
        return task.read(train, training=True), found_held_out, None
    found = task.read(train)
    is_held_out = validation.choose(found)
    found_held_out["validation"] = validation.take(found, is_held_out)
    return validation.take(found, ~is_held_out), found_held_out, ~is_held_out


def report_overlap(found, held_out, tokenizer):
    """Logs how many validation and test examples are equal, or nearly equal, to a training example.

    Args:
        found: `Examples` to train on.
        held_out: dict, name -> `Examples`.
        tokenizer: their `Tokenizer`.

    Returns:
        dict, name -> number of such examples.
    """
    pieces, counts = overlap.Pieces(tokenizer), {}
    for name, others in held_out.items():
        is_found = overlap.near_duplicates(others, found, pieces)
        counts[name] = count = int(is_found.sum())
        if count:
            tokens = others.columns[0][int(is_found.argmax())]
            logging.warning(
                "%d of %d %s examples (%.1f%%) are equal or nearly equal to a training example, such as %s",
                count,
                len(others),
                name,
                100 * count / len(others),
                rules.short(tokenizer.detokenize(tokens)),
            )
    return counts


class LeftOut(typing.NamedTuple):
    """Answers to held-out examples that the final model has learned from after all.

    Attributes:
        examples: `Examples`, n of them.
        model: the model before it had seen them; None, the default, if there were several.
        outputs: float array [n,U] of the answers of several heads, each of which had not seen the example.
            Default None: what `model` answers.
    """

    examples: examples.Examples
    model: typing.Any = None
    outputs: np.ndarray | None = None

    @property
    def answers(self):
        """Returns these outputs as keyword arguments of `Task.scores` and `Task.review`."""
        return {} if self.outputs is None else {"outputs": self.outputs}


def save(config, workdir, task, model, tokenizer, found, held_out, trained_on, summary, left_out=None):
    """Scores a model, and writes its preset with a model card, results.json and the report of the run.

    Args:
        config: the experiment.
        workdir: directory of the run.
        task: `Task`.
        model: its trained model.
        tokenizer: `Tokenizer`.
        found: `Examples` that were trained on.
        held_out: dict, name -> what `task.read` returned.
        trained_on: dict, what `report_overlap` returned.
        summary: dict, what the training took; see `run_preset.card`.
        left_out: `LeftOut`, which gives the validation scores if the model has learned from the validation
            examples. Default None.
    """
    size = config.train.batch_size
    results = {
        name: task.scores(model, each, size)
        for name, each in held_out.items()
        if left_out is None or name != "validation"
    }
    if left_out is not None:
        asked = left_out.model or model
        results["validation"] = task.scores(asked, left_out.examples, size, **left_out.answers)
    card = run_preset.card(config, summary, model.backbone, task.decoder_length)
    card["objective"] = task.name
    named = [(f"{s} {name}", name, v, values) for s, values in results.items() for name, v in values.items()]
    card["scores"] = {
        title: {"value": value, "num_examples": int(values["num_examples"])}
        if name in task.share_metrics and 0 <= value <= 1 and values["num_examples"] >= 1
        else value
        for title, name, value, values in named
    }
    run_preset.save(model, workdir, card)
    storage.write_json(f"{workdir}/results.json", {**summary, **results})
    for title, _, value, _ in named:
        print(f"{title}: {value:.4f}")
    report.write(
        workdir, task, model, tokenizer, found, held_out, trained_on, results, summary, card, left_out
    )
    print(f"report: {workdir}/report.html")


def _parts(config, tokenizer, train, is_trained_on, task, found, own_shards, group):
    """Yields (first step, data, task) for each stage; `found` is what `task` has read and trains on."""
    read, count = {config.data.input_length: (task, found)}, own_shards[0].count
    for stage in stages.of(config):
        if stage.input_length not in read:
            own = tasks.build_task(stages.config_of(config, stage), tokenizer, train)
            again = own.read(train, training=True)
            again = again if is_trained_on is None else validation.take(again, is_trained_on)
            read[stage.input_length] = own, own.for_training(again)
        own, again = read[stage.input_length]
        batch_size = stage.batch_size // count
        datasets = {
            shard.index: own.batches(again, batch_size, training=True, seed=stage.seed, shard=shard, **group)
            for shard in own_shards
        }
        yield stage.first_step, Sharded(datasets, count), own


def mean_length(found, groups):
    """Returns the mean number of tokens per text if batches are grouped by length, else None."""
    lengths = found.columns[0].row_lengths()
    return float(tf.reduce_mean(tf.cast(lengths, tf.float32))) if groups else None


def open_fields(config):
    """Returns the names of the fields that `fields.take` and `resolve_steps` may set."""
    counts = ("train.num_steps", "train.eval_every", "train.checkpoint_every")
    names = counts * (config.task.num_epochs != 0) + ("task.num_epochs",) * (config.task.num_epochs is None)
    names += ("optimizer.warmup_steps",) * (not config.optimizer.warmup_steps)
    return names + fields.open_fields(config)


def resolve_steps(config, num_examples):
    """Sets the counts that the config leaves to the data, so that it says what is run.

    If the number of epochs comes from `task.num_epochs` or `epochs_for`, an evaluation and a checkpoint
    follow each epoch. A warm-up of 0 becomes a tenth of the steps.

    Args:
        config: the experiment, changed in place.
        num_examples: int, size of the training data.

    Raises:
        ValueError: if there are more steps than a run can count.
    """
    if config.task.num_epochs is None:
        config.task.num_epochs = epochs_for(num_examples)
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


def epochs_for(num_examples):
    """Returns how often to go through the data, 3 to 20 times, a float: the less data, the more often.

    Example:
    >>> [epochs_for(number) for number in (500, 6_000, 100_000)]
    [20.0, 10.0, 3.0]
    """
    return float(min(max(SHOWN_EXAMPLES / num_examples, 3.0), 20.0))


if __name__ == "__main__":
    # Not on import, so that one process can import several programs.
    experiment.define_flags(default_config="finetune_classification")
    experiment.define_finish_flag()
    flags.adopt_module_key_flags(experiment)
    programs.run(main)
