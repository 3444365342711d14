r"""Fits a linear head on a preset's frozen encoder: in seconds, where fine-tuning takes minutes.

    python -m convnlp.fit_head --config.data.source=csv:train.csv --config.data.test_source=csv:test.csv \
        --workdir=DIR

Takes what finetune takes and writes what it writes, so that the two can be compared. Each text goes
through the encoder once; then a linear model on the means of all its layers (`pooling` "layers") is fitted
by several penalties on the size of its weights, and the best on the validation examples is kept: softmax
regression by accuracy, of several labels the logistic regression of each by macro-F1, of numbers ridge
regression by the squared error.
Of the config it uses `init_from`, `data`, `train.batch_size`, `train.dtype`, and of `task` what it says of
the data; an encoder that merges positions is pooled as `task.pooling` says. The other fields stand in
config.json as they were given, and have no effect.
"""

import time

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from convnlp import experiment, finetune, programs, tasks
from convnlp.models.pooled_encoder import FIXED_POOLING, LEARNED_POOLING
from convnlp.tasks import fields, rows

PENALTIES = (1.0, 0.1, 0.01, 1e-3, 1e-4)  # from the simplest model to the one that fits best


def main(argv):
    """Flags -> run."""
    del argv
    run(*experiment.start(fields.open_fields))


def run(config, workdir, strategy):
    """Config -> data -> encoder -> pooled vectors -> head -> scores and preset.

    `strategy` is what `convnlp.experiment.prepare` returned for this config and directory.

    Raises:
        ValueError: if the config starts from no preset, its task has no linear head to fit, or there are
            several replicas.
    """
    if not config.init_from:
        raise ValueError("`init_from` must name a preset, whose encoder is used. Received: init_from=''")
    if strategy.num_replicas_in_sync > 1:
        raise ValueError(
            f"`strategy` must have one replica. Received: {strategy.num_replicas_in_sync} replicas"
        )
    if not tasks.task_named(config.task.kind).fits_head:
        kinds = ", ".join(name for name, task in tasks.TASKS.items() if task.fits_head)
        raise ValueError(f"`task.kind` must be one of {kinds}. Received: {config.task.kind!r}")
    tasks.check_options(config)
    tokenizer = experiment.tokenizer(config)
    dtype = experiment.dtype_policy(config, strategy)
    backbone = experiment.backbone(config, tokenizer.vocabulary_size(), dtype)
    train, held_out = finetune.read_sources(config, workdir)
    names = fields.open_fields(config)
    fields.take(config, train)
    fields.take_length(config, tokenizer, train, backbone)
    experiment.write_resolved(config, workdir, strategy, names)
    config = config.copy_and_resolve_references()
    config.task.pooling = pooling_for(backbone.encoder, config.task.pooling)
    task = tasks.build_task(config, tokenizer, train)
    model = task.model(backbone)
    found, held_out, _ = finetune.read_examples(task, train, held_out)
    trained_on = finetune.report_overlap(found, held_out, tokenizer)

    started = time.time(), time.process_time()
    encode = encoder(model)
    batch_size = config.train.batch_size
    group = {"group": 1} if task.takes_group and rows.mixes_any_length(backbone) else {}
    features, labels = encode(task.batches(found, batch_size, **group))
    validation = encode(task.batches(held_out["validation"], batch_size, **group))
    heads = task.linear_heads(features, labels, PENALTIES)
    held_features, held_labels = validation
    ranks = [task.head_rank(held_features @ kernel + bias, held_labels) for kernel, bias in heads]
    best = max(range(len(heads)), key=ranks.__getitem__)
    model.head.set_weights(heads[best])
    model = task.trained(model, found, held_out["validation"])
    summary = {
        "penalty": PENALTIES[best],
        "num_examples": len(labels),
        "seconds": time.time() - started[0],
        "cpu_seconds": time.process_time() - started[1],
    }
    finetune.save(config, workdir, task, model, tokenizer, found, held_out, trained_on, summary)
    experiment.finish(workdir)


def pooling_for(encoder, pooling):
    """What the head is fitted to.

    Args:
        encoder: `Encoder`.
        pooling: str, the `task.pooling` of the config.

    Returns:
        "layers"; of an encoder that merges positions, `pooling`.

    Raises:
        ValueError: if that has weights, which are not fitted.
    """
    if encoder.pool_factor == 1:
        return "layers"
    if pooling in LEARNED_POOLING:
        raise ValueError(
            f"`task.pooling` must be one of {', '.join(FIXED_POOLING)} where the head alone is fitted. "
            f"Received: {pooling!r}"
        )
    return pooling


def encoder(model):
    """What turns batches of a task into the vectors that a model's head is given.

    Args:
        model: of a task that `fits_head`.

    Returns:
        Function of an iterable of batches -> (float32 [N,D], array [N,...]), pooled vectors and labels of the
        examples that are not there to fill up a batch.
    """
    pooled = keras.Model(model.inputs, model.head.input)
    call = tf.function(lambda inputs: pooled(inputs, training=False), reduce_retracing=True, autograph=False)

    def encode(batches):
        features, labels = [], []
        for batch in batches:
            is_real = batch["weight"].numpy() > 0
            vectors = call({name: batch[name] for name in ("token_ids", "padding_mask")})
            features.append(vectors.numpy()[is_real])
            labels.append(batch["label"].numpy()[is_real])
        return np.concatenate(features), np.concatenate(labels)

    return encode


if __name__ == "__main__":
    # Not on import, so that a process can import several programs.
    experiment.define_flags(default_config="finetune_classification")
    flags.adopt_module_key_flags(experiment)
    programs.run(main)
