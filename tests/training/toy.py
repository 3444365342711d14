"""A model of one embedding and one layer with dropout: trains in a second, in this process or in its own.

    python -m tests.training.toy STRATEGY WORKDIR DROPOUT FUNCTION:N [extras | tokens:DIR]

FUNCTION:N is a moment to die at, or "": `kill -9` of itself in the N-th call of that function of the loop.
With "extras" all that is off by default is on. With "tokens:DIR" it trains on the token cache of
`tests.data.huge_cache`, and WORKDIR.reads-WORKER has a line for each row that this process has read.
"""

import os
import signal
import sys

import keras
import ml_collections
import tensorflow as tf

from convnlp.data import Shard, Source, pretraining
from convnlp.training import checkpoints, graphs, loop, metrics, optimizers, shards, stages, storage
from convnlp.training import strategy as strategy_lib
from tests.data import huge_cache

VOCABULARY, LENGTH, BATCH = 16, 4, 8
NUM_STEPS = 20
OPTIMIZER = ml_collections.ConfigDict(
    {
        "name": "adamw",
        "schedule": "warmup_linear",
        "learning_rate": 0.05,
        "warmup_steps": 2,
        "decay_steps": 0,
        "weight_decay": 0.01,
        "beta_2": 0.98,
    }
)


class Toy:
    """Model, optimizer, data and losses under a strategy."""

    def __init__(self, strategy=None, dropout=0.1, optimizer=OPTIMIZER):
        keras.utils.set_random_seed(1)
        self.strategy = strategy or strategy_lib.build("one_device")
        with self.strategy.scope():
            self.embedding = keras.layers.Embedding(VOCABULARY, 8)
            self.head = keras.layers.Dense(VOCABULARY)
            self.model = keras.Sequential([keras.Input((LENGTH,), dtype="int32"), self.embedding, self.head])
            self.optimizer = optimizers.build(
                optimizer, NUM_STEPS, lambda v: 2 if "embedding" in v.path else 0
            )
        self.dropout = dropout

    def loss_fn(self, batch, seed=None):
        """Guesses each token from itself, through dropout that `seed` decides on."""
        hidden = self.embedding(batch["token_ids"])
        if seed is not None and self.dropout:
            hidden *= tf.cast(tf.random.stateless_uniform(tf.shape(hidden), seed) >= self.dropout, tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["token_ids"], self.head(hidden))
        weights = tf.cast(batch["padding_mask"], tf.float32)
        return {"loss_sum": tf.reduce_sum(losses * weights), "weight": tf.reduce_sum(weights)}

    def dataset(self, shard=0, length=LENGTH, batch_size=BATCH):
        """Endless shuffled batches; row i has i % 3 pads."""

        def row(i):
            seed = tf.stack([i, tf.constant(shard, tf.int64)])
            return {
                "token_ids": tf.random.stateless_uniform([length], seed, 0, VOCABULARY, tf.int32),
                "padding_mask": tf.range(length, dtype=tf.int64) >= i % 3,
            }

        data = tf.data.Dataset.range(10**6).map(row).shuffle(50, seed=1)
        return data.batch(batch_size, drop_remainder=True)

    def sharded(self, workdir=None, first=0, batch_size=BATCH, **arguments):
        """The shards of this worker: as many in all as the run in `workdir` had workers at the beginning."""
        worker, num_workers = strategy_lib.workers(self.strategy)
        count = (workdir and checkpoints.num_shards(workdir)) or num_workers
        return shards.Sharded(
            {
                shard: self.dataset(first + shard, batch_size=batch_size // count, **arguments)
                for shard in shards.read_by(worker, num_workers, count)
            },
            count,
        )

    def cached(self, source, workdir=None):
        """The shards of this worker of a token cache, with pads that a seed decides on."""
        worker, num_workers = strategy_lib.workers(self.strategy)
        count = checkpoints.num_shards(workdir) or num_workers

        def examples(tokens, seed, shared_seed):
            mask = tf.random.stateless_uniform(tf.shape(tokens), seed) < 0.7
            return {"token_ids": tokens, "padding_mask": mask}

        return shards.Sharded(
            {
                index: pretraining.batches(
                    Source(source),
                    huge_cache.TOKENIZER,
                    row_length=LENGTH,
                    examples=examples,
                    batch_size=BATCH // count,
                    seed=1,
                    shard=Shard(count, index),
                )
                for index in shards.read_by(worker, num_workers, count)
            },
            count,
        )

    def later_stages(self, workdir=None):
        """Longer rows in larger batches from step 8 on, where a checkpoint is due, others from step 14."""
        return [
            stages.Stage(8, self.sharded(workdir, length=6, batch_size=16), self.loss_fn),
            stages.Stage(14, self.sharded(workdir, first=7, length=6), self.loss_fn),
        ]

    def train(self, workdir, **arguments):
        """`loop.train` with small numbers; `arguments` override them."""
        evaluation = graphs.evaluation(self.strategy, self.loss_fn)
        held_out = self.dataset(shard=99).take(2)
        held_out = strategy_lib.own_rows(
            self.strategy, held_out
        ).cache()  # the shuffling would differ in each evaluation
        defaults = {
            "dataset": self.sharded(workdir),
            "loss_fn": self.loss_fn,
            "num_steps": NUM_STEPS,
            "steps_per_call": 2,
            "checkpoint_every": 4,
            "eval_every": 10,
            "clip_norm": 1.0,
            "evaluate": lambda: {f"valid/{name}": value for name, value in evaluation(held_out).items()},
        }
        return loop.train(
            workdir=str(workdir),
            strategy=self.strategy,
            model=self.model,
            optimizer=self.optimizer,
            **{**defaults, **arguments},
        )


def with_all_extras(strategy, workdir=None):
    """A toy, and the arguments of its `train` for all that is off by default."""
    toy = Toy(strategy, optimizer=ml_collections.ConfigDict({**OPTIMIZER, "layer_decay": 0.5}))
    return toy, {"accumulate_steps": 2, "ema_momentum": 0.8, "later_stages": toy.later_stages(workdir)}


def die_at(moment):
    """Replaces a function by one that kills this process in its N-th call."""
    name, _, count = moment.partition(":")
    owners = {
        "write_json": storage,
        "rename": storage,
        "write": metrics.Metrics,
        "_prune": checkpoints.Checkpoints,
    }
    original, calls = getattr(owners[name], name), []

    def wrapper(*args, **kwargs):
        calls.append(None)
        if len(calls) == int(count):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(owners[name], name, wrapper)


def main(strategy, workdir, dropout, moment, extras=""):
    """Trains to the end, or to the moment."""
    tf.config.experimental.enable_op_determinism()
    num_virtual_devices = 2 if strategy == "mirrored" else 0
    strategy = strategy_lib.build(strategy, num_virtual_devices=num_virtual_devices)
    with huge_cache.spelt(VOCABULARY) as starts:
        toy, arguments = Toy(strategy, float(dropout)), {}
        if extras == "extras":
            toy, arguments = with_all_extras(strategy, workdir)
        elif extras:
            arguments = {"dataset": toy.cached(extras, workdir)}
        if moment:
            die_at(moment)
        toy.train(workdir, **arguments)
    if extras.startswith("tokens:"):
        with open(f"{workdir}.reads-{strategy_lib.workers(strategy)[0]}", "w", encoding="utf-8") as file:
            file.writelines(f"{start}\n" for start in starts)


if __name__ == "__main__":
    main(*sys.argv[1:])
