r"""Pre-trains an encoder-decoder on raw text.

    convnlp pretrain --config=pretrain_c4:dynamic_conv,base --workdir=DIR \
        --strategy=mirrored

Writes config.json, checkpoints/, metrics.jsonl (the same bytes for the same config), times.jsonl,
tensorboard/ and, at the end, preset/ with the weights of the best validation loss. The preset is a
`Seq2SeqLM`; without a decoder, it is a `PrefixLM` if prefix_lm is among the objectives, else a
`Seq2SeqBackbone` and its tokenizer. If the run is killed at any moment, the same command continues it as if
nothing had happened; SIGTERM, SIGINT and SIGHUP save first. The directory may be a URL. It is locked while
the run lives, and shared by the workers of multi_worker.
"""

import tensorflow as tf
from absl import flags

from convnlp import outputs, programs
from convnlp.data import Source, fields, sources
from convnlp.models import Seq2SeqLM, Seq2SeqLMPreprocessor
from convnlp.objectives import SHARED_OPTIONS, build_objectives, pretraining_batches, pretraining_loss
from convnlp.runs import components, estimate, experiment, given_fields, run_preset, stages
from convnlp.training import graphs, loop, optimizers
from convnlp.training import strategy as strategy_lib
from convnlp.training.shards import Sharded
from convnlp.training.stages import Stage


def main(argv):
    """Flags -> run."""
    del argv
    with experiment.begun(open_fields) as begun:
        given_fields.report_unread(begun[0], given_fields.given(), "pretrain")
        run(*begun, finish=flags.FLAGS.finish)


def open_fields(config):
    """Returns the names of the fields that `run` may set: the one of the text, if the config names none."""
    return ("task.text_field",) * (config.task.text_field == fields.ROLES["text_field"].default)


def run(config, workdir, strategy, finish=False):
    """Config -> tokenizer -> data -> model -> optimizer -> training -> preset and model card.

    `strategy` is what `convnlp.runs.experiment.prepare` returned for this config and directory. With
    `finish`, training stops here: the scores and the preset are those of the best evaluation so far.

    Raises:
        ValueError: if the config does not name the text on which the training is evaluated.
    """
    if not config.data.validation_split:
        raise ValueError(
            "`data.validation_split` must name the split on which the training is evaluated. "
            "Received: data.validation_split=''"
        )
    worker, _ = strategy_lib.workers(strategy)
    tokenizer = components.tokenizer(config)

    # Model and optimizer.
    objectives = objectives_of(config)
    with strategy.scope():
        dtype = components.dtype_policy(config, strategy)
        backbone = components.backbone(config, tokenizer.vocabulary_size(), dtype)
        if config.objective.freeze_encoder:
            freeze_encoder(config, backbone, objectives)
        optimizer = optimizers.build(config.optimizer, config.train.num_steps, backbone.depth_of)
    check_lengths(config, backbone, objectives)
    loss_fn = pretraining_loss(backbone, objectives)
    evaluation = graphs.evaluation(strategy, lambda batch: loss_fn(batch, None, training=False))

    # Data, checked before the first step. Every worker trains on its own shard and evaluates its part of each
    # held-out batch.
    train = Source(config.data.source, config.data.split, config.data.data_dir)
    held_out_name = config.data.validation_source or config.data.source
    held_out_source = Source(held_out_name, config.data.validation_split, config.data.data_dir)
    own_shards = experiment.own_shards(workdir, strategy)
    paths = [*sources.paths(train), *sources.paths(held_out_source)]
    outputs.check_run_folder(workdir, config.init_from, paths)
    if names := open_fields(config):
        config.task.text_field = fields.text(train)
        experiment.write_resolved(config, workdir, strategy, names)
    field = config.task.text_field
    sources.check(held_out_source, (field,))
    for shard in own_shards:
        sources.check(train, (field,), shard=shard)
    first, *later = _stages(config, backbone, tokenizer, train, own_shards)
    held_out = pretraining_batches(
        held_out_source,
        tokenizer,
        objectives,
        field=field,
        shuffle_buffer=0,
        num_epochs=1,
        batch_size=config.train.batch_size,
        seed=config.seed,
    )
    held_out = strategy_lib.own_rows(strategy, held_out.take(config.train.eval_batches)).cache()

    # Training.
    if not finish:
        logits_per_token = sum(each.logits_per_token for each in objectives)
        target_lengths = [each.target_length for each in objectives]
        estimate.report(config, strategy, backbone, None, logits_per_token, target_lengths)
    summary = loop.train(
        workdir=workdir,
        strategy=strategy,
        model=backbone,
        optimizer=optimizer,
        loss_fn=first.loss_fn,
        dataset=first.dataset,
        later_stages=later,
        evaluate=lambda: {f"valid/{name}": value for name, value in evaluation(held_out).items()},
        samples=_samples(objectives, backbone, tokenizer, held_out, config.train.num_samples, strategy),
        finish=finish,
        **experiment.loop_arguments(config, workdir),
    )

    # Preset and model card.
    held_out_scores = evaluation(held_out)
    if worker == 0:
        target_length = _target_length(config, backbone, objectives)
        card = run_preset.card(config, summary, backbone, target_length)
        card["objective"] = " + ".join(config.objective.names)
        card["scores"] = {f"held-out {name}": value for name, value in held_out_scores.items()}
        model = _model(objectives, backbone, tokenizer, (config.data.input_length, target_length))
        run_preset.save(model, workdir, card, tokenizer)
    strategy_lib.any_worker(strategy, False)  # a worker that ends early takes the others with it
    experiment.finish(workdir)


def freeze_encoder(config, backbone, objectives):
    """Freezes the encoder and the embedding, which stay the same bit for bit; only the decoder is trained.

    Raises:
        ValueError: if these weights are random, if there is no such decoder, or if an objective does not
            train it.
    """

    def require(holds, argument, rule, value):
        if not holds:
            raise ValueError(
                f"`{argument}` must {rule} if objective.freeze_encoder is true. "
                f"Received: {argument}={value!r}"
            )

    require(config.init_from, "init_from", "name a preset, whose encoder is kept,", config.init_from)
    layers = backbone.num_layers, backbone.num_decoder_layers
    require(layers[0], "num_layers", "be at least 1", layers[0])
    require(layers[1], "model.num_decoder_layers", "be at least 1", layers[1])
    trains = all(each.target_length for each in objectives)
    require(trains, "objective.names", "all train a decoder", config.objective.names)
    for layer in filter(None, (backbone.token_embedding, backbone.position_layer, backbone.encoder)):
        layer.trainable = False


def check_lengths(config, backbone, objectives):
    """Refuses a backbone that cannot take the rows of the objectives, or the targets of what will be saved.

    Raises:
        ValueError: names the field that gives the length.
    """
    for each in objectives:
        is_own = "input_length" in config.objective.options.get(each.name, {})
        name = f"objective.options.{each.name}.input_length" if is_own else "data.input_length"
        backbone.require_length("encoder" if backbone.num_layers else "decoder", name, each.input_length)
    if backbone.decoder is None:
        return
    target_length = _target_length(config, backbone, objectives)
    writers = [each.name for each in objectives if each.target_length == target_length]
    name = f"target_length of {writers[0]}" if writers else "data.target_length"
    backbone.require_length("decoder", name, target_length)
    if not backbone.num_layers:  # one row holds both
        length = config.data.input_length + target_length
        backbone.require_length("decoder", f"data.input_length + {name}", length)


def _target_length(config, backbone, objectives):
    """Returns the number of tokens that the model writes once it is saved; 0 without a decoder."""
    if backbone.decoder is None:
        return 0
    return max(each.target_length for each in objectives) or config.data.target_length


def _stages(config, backbone, tokenizer, train, own_shards):
    """Returns what each stage of the run trains on; each continues in the text where the last one ended."""
    num_tokens, count = 0, own_shards[0].count
    for stage in stages.of(config):
        objectives = objectives_of(stages.config_of(config, stage))
        batch_size = stage.batch_size // count
        datasets = {
            shard.index: pretraining_batches(
                train,
                tokenizer,
                objectives,
                field=config.task.text_field,
                shuffle_buffer=config.data.shuffle_buffer,
                skip_tokens=num_tokens,
                shard=shard,
                batch_size=batch_size,
                seed=stage.seed,
            )
            for shard in own_shards
        }
        data = Sharded(datasets, count)
        yield Stage(stage.first_step, data, pretraining_loss(backbone, objectives))
        num_tokens += stage.num_steps * batch_size * max(each.row_length for each in objectives)


def objectives_of(config):
    """Returns the objectives of a config, a tuple of `convnlp.objectives.Objective`."""
    objective = config.objective
    shared = {name: objective[name] for name in SHARED_OPTIONS}
    return build_objectives(objective.names, config.data.input_length, objective.options.to_dict(), **shared)


def _model(objectives, backbone, tokenizer, lengths):
    """Returns the model to save: an objective's own, else a language model, or an encoder alone."""
    for objective in objectives:
        model = objective.model(backbone, tokenizer)
        if model is not None:
            return model
    return Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, *lengths)) if backbone.decoder else backbone


def _samples(objectives, backbone, tokenizer, held_out, count, strategy):
    """Returns a function that shows what the objectives predict for `count` held-out examples.

    Returns None if `count` is 0, and on a TPU, which runs nothing outside `strategy.run`.
    """
    if not count or isinstance(strategy, tf.distribute.TPUStrategy):
        return None
    predictors = [found for each in objectives if (found := each.predictor(backbone, tokenizer))]
    if not predictors:
        return None

    def samples():
        batch = {name: values[:count] for name, values in next(iter(held_out)).items()}
        rows = [row for predict in predictors for row in predict(batch)]
        return "\n".join(f"  input: {x}\n  target: {y}\n  prediction: {z}" for x, y, z in rows)

    return samples


if __name__ == "__main__":
    experiment.define_flags()  # not on import, so that one process can import several programs
    experiment.define_finish_flag()
    flags.adopt_module_key_flags(experiment)
    programs.run(main)
