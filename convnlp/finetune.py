r"""Fine-tunes a preset, or trains from random weights, on labelled texts or pairs of texts.

    convnlp finetune --config.data.source=csv:train.csv --config.data.test_source=csv:test.csv \
        --workdir=DIR

Without --config it takes `finetune_classification`, which starts from the preset that ships with the package.

Writes what pretrain writes. preset/ is a model for task.kind, such as a `TextClassifier`
("classification") or a `Seq2SeqLM` ("text_to_text"), with the weights of the best evaluation. results.json
holds its scores on the validation and test data, and what the training took. report.html shows these and more
about the data and the model; report.json holds the same.
"""

import tensorflow as tf
from absl import flags

from convnlp import adaptation, programs, tasks
from convnlp.data import validation
from convnlp.finetuning import data, results, steps
from convnlp.finetuning.outcome import LeftOut, Outcome
from convnlp.models.reading import mixes_any_length
from convnlp.runs import components, estimate, experiment, given_fields, stages
from convnlp.tasks import fields
from convnlp.training import checkpoints, graphs, loop, optimizers
from convnlp.training import strategy as strategy_lib
from convnlp.training.shards import Sharded
from convnlp.training.stages import Stage


def main(argv):
    """Flags -> run."""
    del argv
    with experiment.begun(steps.open_fields) as begun:
        given = given_fields.given()
        given_fields.check_counts(begun[0], given)
        given_fields.check_test_split(begun[0], given)
        given_fields.report_unread(begun[0], given, "finetune")
        args = flags.FLAGS
        run(*begun, finish=args.finish, resume_with_changes=args.resume_with_changes)


def run(config, workdir, strategy, finish=False, resume_with_changes=False):
    """Config -> tokenizer -> data -> model -> optimizer -> training -> scores and preset.

    `strategy` is what `convnlp.runs.experiment.prepare` returned for this config and directory. With
    `finish`, training stops here: the scores and the preset are those of the best evaluation so far.
    `resume_with_changes` is what `prepare` was given; it is also for the training on unlabelled text.
    """
    worker, num_workers = strategy_lib.workers(strategy)
    tasks.check_options(config)
    tokenizer = components.tokenizer(config)
    with strategy.scope():  # before the slow reading of the data, so that a bad preset is refused at once
        dtype = components.dtype_policy(config, strategy)
        backbone = components.backbone(config, tokenizer.vocabulary_size(), dtype)
    tasks.task_named(config.task.kind).check_backbone(config, backbone)

    # Data. All of it is read, and so checked, before the first step. Every worker trains on its own shard and
    # evaluates on all held-out examples.
    train, held_out = data.read_sources(config, workdir)
    names = steps.open_fields(config)
    fields.take(config, train)
    fields.take_length(config, tokenizer, train, backbone)
    task = tasks.build_task(config, tokenizer, train)
    found, held_out, is_trained_on = data.read_examples(task, train, held_out, tokenizer)
    num_overlapping = data.report_overlap(found, held_out, tokenizer) if worker == 0 else {}
    is_adapted = bool(config.task.unlabelled_source) and not task.has_teachers
    if is_adapted:
        adaptation.check(config, backbone)
    labelled, scored = found, held_out.values()
    found = _for_training(config, task, found, scored, tokenizer)  # may take long: teachers are asked
    batch_size = config.train.batch_size // num_workers
    groups = config.data.group_by_length and task.takes_group and mixes_any_length(backbone)
    group, one = ({"group": config.train.steps_per_call}, {"group": 1}) if groups else ({}, {})
    own_shards = experiment.own_shards(workdir, strategy)
    parts = [*_parts(config, tokenizer, train, is_trained_on, task, found, scored, own_shards, group)]
    validation_batches = task.batches(held_out["validation"], batch_size, **one).cache()
    steps.resolve(config, len(found))
    experiment.write_resolved(config, workdir, strategy, names)

    # Model and optimizer.
    if is_adapted:
        start = config.copy_and_resolve_references()
        longest = backbone.encoder.longest_text()
        start.init_from = adaptation.run(config, workdir, strategy, longest, finish, resume_with_changes)
        with strategy.scope():
            backbone = components.backbone(start, tokenizer.vocabulary_size(), dtype)
    with strategy.scope():
        model = task.model(backbone)
        optimizer = optimizers.build(config.optimizer, config.train.num_steps, model.backbone.depth_of)
    if not checkpoints.steps(workdir):
        model = task.begin(model, found)
        backbones = {id(variable) for variable in model.backbone.variables}
        strategy_lib.agree(strategy, [v for v in model.trainable_variables if id(v) not in backbones])
    loss_fn = task.loss(model)
    evaluation = graphs.evaluation(strategy, lambda batch: loss_fn(batch, None, training=False))

    # Training.
    expected = None
    if not finish:
        length = mean_length(found, groups)
        counts = length, task.logits_per_token, [task.decoder_length]
        expected = estimate.report(config, strategy, model.backbone, *counts)
    first, *later = (Stage(step, batches, own.loss(model)) for step, batches, own in parts)
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
        **experiment.loop_arguments(config, workdir),
    )
    summary |= {} if expected is None else {"estimated_seconds": expected.seconds}

    if worker == 0:
        ours = is_trained_on is not None  # a validation split that the user gives stays unseen
        judged, model = task.trained(model, found, held_out["validation"], learns=ours)
        left_out = None if judged is model else LeftOut(held_out["validation"], model=judged)
        outcome = Outcome(task, model, tokenizer, labelled, held_out, num_overlapping, summary, left_out)
        results.save(config, workdir, outcome)
    strategy_lib.any_worker(strategy, False)  # a worker that ends early takes the others with it
    experiment.finish(workdir)


def _for_training(config, task, found, scored, tokenizer):
    """Returns what is trained on; texts without labels that teachers answer come last."""
    if not (config.task.unlabelled_source and task.has_teachers):
        return task.for_training(found)
    return task.for_training(found, data.read_unlabelled(config, task, [found, *scored], tokenizer))


def _parts(config, tokenizer, train, is_trained_on, task, found, scored, own_shards, group):
    """Yields (first step, data, task) for each stage; `found` is what `task` has read and trains on."""
    read, count = {config.data.input_length: (task, found)}, own_shards[0].count
    for stage in stages.of(config):
        if stage.input_length not in read:
            own = tasks.build_task(stages.config_of(config, stage), tokenizer, train)
            again = own.read(train, training=True)
            again = again if is_trained_on is None else validation.take(again, is_trained_on)
            read[stage.input_length] = own, _for_training(config, own, again, scored, tokenizer)
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


if __name__ == "__main__":
    # Not on import, so that one process can import several programs.
    experiment.define_flags(default_config="finetune_classification")
    experiment.define_finish_flag()
    flags.adopt_module_key_flags(experiment)
    programs.run(main)
