r"""Fits a linear head on a preset's frozen encoder, in a minute or two for some thousand texts.

    convnlp fit-head --config.data.source=csv:train.csv --config.data.test_source=csv:test.csv \
        --workdir=DIR

Takes what finetune takes and writes what it writes, so that the two can be compared. Each text goes
through the encoder once. Then a linear model is fitted to the means of all its layers (`pooling` "layers"),
with several penalties on the size of its weights: softmax regression for classes, a logistic regression per
label for several labels, ridge regression for numbers. The training examples choose the best penalty, and
how much a classifier's n-grams count, in five folds: each fold is answered by a model fitted to the others.
With more than 5,000 examples, only two folds of half that size are held out (`convnlp.tasks.cross_fitting`).
The final head is fitted to all examples.

With `task.unlabelled_source`, a classifier also learns from its own answers to these texts, once, as far as
the folds gain from it (`convnlp.tasks.classification.self_training`).

With few labels, every example is needed for fitting, so none are held out: without `data.validation_split`,
the validation scores are those of the answers to the folds, each answered as the other folds choose. If you
give a validation split, it is used neither for the choice nor for fitting; it scores the finished model. Of
the config, only `init_from`, `data`, `train.batch_size`, `train.dtype`, the fields of `task` that describe
the data, `task.unlabelled_source`, the options `ngram_buckets` and `class_weights` are used, and
`task.pooling` for pairs of texts ("pair") and encoders that merge positions. The other fields are kept in
config.json as they were given, and have no effect; a line names those that the command gives.
"""

import time

import numpy as np
from absl import flags, logging

from convnlp import programs, tasks
from convnlp.data import overlap, validation
from convnlp.finetuning import data, results
from convnlp.finetuning.outcome import LeftOut, Outcome
from convnlp.models.pooled_encoder import FIXED_POOLING, LEARNED_POOLING
from convnlp.runs import components, experiment, given_fields
from convnlp.tasks import cross_fitting, fields, rows
from convnlp.tasks.pooled_head import chosen_pooling

PENALTIES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)  # from the simplest model to the closest fit


def main(argv):
    """Flags -> run."""
    del argv
    with experiment.begun(fields.open_fields, has_steps=False) as begun:
        config, given = begun[0], given_fields.given()
        given_fields.check_test_split(config, given)
        if ignored := given_fields.without_effect_on_a_head(config, given):
            logging.warning("without effect, since only a head is fitted: %s", ", ".join(ignored))
        run(*begun)


def run(config, workdir, strategy):
    """Config -> data -> encoder -> pooled vectors -> head -> scores and preset.

    `strategy` is what `convnlp.runs.experiment.prepare` returned for this config and directory.

    Raises:
        ValueError: if the config names no preset, if its task has no linear head to fit or cannot learn from
            the texts without labels that the config names, or if there are several replicas.
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
    if config.task.unlabelled_source and not tasks.task_named(config.task.kind).teaches_itself:
        kinds = ", ".join(name for name, task in tasks.TASKS.items() if task.teaches_itself)
        raise ValueError(
            f"`task.unlabelled_source` must be empty here unless `task.kind` is {kinds}. Received: "
            f"task.unlabelled_source={config.task.unlabelled_source!r}, task.kind={config.task.kind!r}"
        )
    tasks.check_options(config)
    tokenizer = components.tokenizer(config)
    dtype = components.dtype_policy(config, strategy)
    backbone = components.backbone(config, tokenizer.vocabulary_size(), dtype)
    tasks.task_named(config.task.kind).check_backbone(config, backbone)
    num_texts = 2 if config.task.second_text_field else 1
    pooling = pooling_for(backbone.reading_stack, config.task.pooling, num_texts)
    train, held_out = data.read_sources(config, workdir)
    names = fields.open_fields(config)
    fields.take(config, train)
    fields.take_length(config, tokenizer, train, backbone)
    experiment.write_resolved(config, workdir, strategy, names)
    config = config.copy_and_resolve_references()
    config.task.pooling = pooling
    task = tasks.build_task(config, tokenizer, train)
    model = task.model(backbone)
    found = task.read(train)
    data.check_classes(found, train)
    held_out = {name: task.read(source) for name, source in held_out.items()}
    fold_of = cross_fitting.folds(found, overlap.hashes(found, overlap.Pieces(tokenizer)))
    num_overlapping = data.report_overlap(found, held_out, tokenizer)
    texts, more = None, {}  # without labels
    if config.task.unlabelled_source:
        texts = data.read_unlabelled(config, task, [found, *held_out.values()], tokenizer)

    started = time.time(), time.process_time()
    logging.warning("reading %s texts with the encoder", f"{len(found):,}")
    features = rows.vectors_of(model, found, config.train.batch_size)
    if texts is not None:
        logging.warning("reading %s texts without labels with the encoder", f"{len(texts):,}")
        more = {"unlabelled": (texts, rows.vectors_of(model, texts, config.train.batch_size))}
    logging.warning("fitting the head; reading took %.0f s", time.time() - started[0])
    model, chosen, outputs = task.fitted(model, found, features, fold_of, PENALTIES, **more)
    if "self_training" in chosen:
        print(chosen["self_training"])
        chosen["self_training"] = chosen["self_training"]._asdict()
    summary = {
        **chosen,
        "num_examples": len(found),
        "num_folds": len(np.unique(fold_of[fold_of >= 0])),
        "seconds": time.time() - started[0],
        "cpu_seconds": time.process_time() - started[1],
    }
    left_out = None
    if "validation" not in held_out:
        left_out = LeftOut(validation.take(found, fold_of >= 0), outputs=outputs)
    outcome = Outcome(task, model, tokenizer, found, held_out, num_overlapping, summary, left_out)
    results.save(config, workdir, outcome)
    experiment.finish(workdir)


def pooling_for(encoder, pooling, num_texts):
    """Returns the pooling that the head is fitted to, and logs if another was asked for.

    Args:
        encoder: `Encoder`.
        pooling: str, the `task.pooling` of the config.
        num_texts: int, the texts of an example.

    Returns:
        "layers"; "pair" if that is asked for or "auto" stands for it; for an encoder that merges positions,
        the pooling of the config.

    Raises:
        ValueError: if `pooling` has weights, which would not be fitted.
    """
    given, pooling = pooling, chosen_pooling(pooling, encoder, num_texts)
    if encoder.pool_factor == 1:
        pooling = pooling if pooling == "pair" else "layers"
        if given not in ("auto", pooling):
            message = "without effect, since only a head is fitted: task.pooling=%s; it is %s instead"
            logging.warning(message, given, pooling)
        return pooling
    if pooling in LEARNED_POOLING:
        raise ValueError(
            f"`task.pooling` must be one of {', '.join(FIXED_POOLING)} if only the head is fitted. "
            f"Received: {pooling!r}"
        )
    return pooling


if __name__ == "__main__":
    # Not on import, so that one process can import several programs.
    experiment.define_flags(default_config="finetune_classification")
    flags.adopt_module_key_flags(experiment)
    programs.run(main)
