"""Shards of the data: the same batches for any number of workers, also when it changes on the way."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from convnlp.data import Shard, Source, pretraining
from convnlp.data import examples as examples_lib
from convnlp.training import shards

BATCH = 24  # rows of all workers together


class Characters:
    """A tokenizer of single characters, with an end token."""

    end_token_id = 1

    def vocabulary_size(self):
        return 256

    def tokenize(self, texts):
        return tf.cast(tf.strings.unicode_decode(texts, "UTF-8"), tf.int32)


def counted(num_shards, index, rows=BATCH):
    """Numbers of examples, each of which is in one shard, as a pipeline that shuffles gives them."""
    data = tf.data.Dataset.range(1000).shard(num_shards, index).shuffle(50, seed=1)
    return data.batch(rows // num_shards, drop_remainder=True).map(lambda x: {"number": x})


def batches_of(num_workers, num_shards, dataset, num_steps=1):
    """What each worker reads."""
    return [
        shards.Batches(
            shards.Sharded(
                {shard: dataset(shard) for shard in shards.read_by(worker, num_workers, num_shards)},
                num_shards,
            ),
            num_steps,
            worker,
            num_workers,
        )
        for worker in range(num_workers)
    ]


def step_of(workers):
    """The rows of one step, those of the workers one after the other."""
    own = [next(each) for each in workers]
    assert len({len(each["number"][0]) for each in own}) == 1  # each has as many as the others
    return joined(own)


def joined(batches):
    return np.concatenate([each["number"].numpy() for each in batches], axis=1)


def saved(workers, folder, num_workers, num_shards):
    """Saves the shards, each by the worker whose task that is."""
    for worker, batches in enumerate(workers):
        for shard, iterator in batches.iterators.items():
            if shards.saved_by(shard, num_workers, num_shards) == worker:
                path = folder / f"iterator-{shard}"
                assert not path.with_suffix(".index").exists()
                tf.train.Checkpoint(iterator=iterator).write(str(path))
    assert len(list(folder.glob("*.index"))) == num_shards


def restored(workers, folder):
    for batches in workers:
        for shard, iterator in batches.iterators.items():
            tf.train.Checkpoint(iterator=iterator).read(str(folder / f"iterator-{shard}")).assert_consumed()


@pytest.mark.parametrize("num_shards", [1, 3])
def test_batches_are_the_same_for_any_number_of_workers(tmp_path, num_shards):
    def fresh(num_workers):
        return batches_of(num_workers, num_shards, lambda shard: counted(num_shards, shard), num_steps=2)

    alone = fresh(num_shards)
    expected = [step_of(alone) for _ in range(8)]
    found, folder = [], None
    for number, num_workers in enumerate((num_shards, 2, 4, 6)):
        workers = fresh(num_workers)
        if folder:
            restored(workers, folder)
        found += [step_of(workers) for _ in range(2)]
        folder = tmp_path / str(number)
        folder.mkdir()
        saved(workers, folder, num_workers, num_shards)
    np.testing.assert_array_equal(found, expected)
    assert collections.Counter(np.ravel(found).tolist()).most_common(1)[0][1] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(2, 3), (4, 2)])
def test_every_document_comes_once_per_epoch(tmp_path, before, after):
    """Documents of one character, rows of one document and its end: a count of rows is one of documents."""
    count = 120
    path = tmp_path / "docs.txt"
    path.write_text("\n\n".join(chr(300 + i) for i in range(count)), encoding="utf-8")

    def dataset(shard):
        return pretraining.batches(
            Source(f"text:{path}"),
            Characters(),
            row_length=2,
            batch_size=BATCH // before,
            seed=3,
            shuffle_buffer=40,
            num_epochs=2,
            shard=Shard(before, shard),
            examples=lambda tokens, seed, shared_seed: {"number": tokens[:, 0]},
        )

    num_steps = 2 * count // BATCH
    alone = batches_of(before, before, dataset)
    expected = [step_of(alone) for _ in range(num_steps)]
    first, then = (batches_of(number, before, dataset) for number in (before, after))
    seen = [step_of(first) for _ in range(7)]
    saved(first, tmp_path, before, before)
    restored(then, tmp_path)
    seen += [step_of(then) for _ in range(num_steps - 7)]
    np.testing.assert_array_equal(seen, expected)
    assert collections.Counter(np.ravel(seen).tolist()) == {300 + i: 2 for i in range(count)}
    with pytest.raises(StopIteration):
        step_of(then)


@pytest.mark.parametrize("group", [None, 2])
def test_fine_tuning_sees_every_example_once_per_epoch(group):
    """Also where batches are as long as their longest text: shards of a step then differ in length."""
    lengths = [40, *(1 + (7 * i) % 32 for i in range(1, 2 * BATCH * 10))]  # one is longer than all others
    found = examples_lib.Examples(
        (tf.ragged.constant([[i + 1] * length for i, length in enumerate(lengths)], dtype=tf.int32),),
        (40,),
        np.arange(len(lengths)),
    )

    def dataset(shard):
        batches = examples_lib.labelled_batches(
            found, BATCH // 3, training=True, seed=1, shard=Shard(3, shard), group=group
        )
        return batches.map(lambda batch: batch | {"number": tf.cast(batch["label"], tf.int64)})

    num_steps = len(lengths) // BATCH // 2
    threes, twos = (batches_of(number, 3, dataset, num_steps=2) for number in (3, 2))
    they_differ = False
    for _ in range(2):  # epochs
        numbers = []
        for _ in range(num_steps):
            own = [next(each) for each in twos]
            alone = [next(each) for each in threes]
            they_differ |= len({each["token_ids"].shape[2] for each in alone}) > 1
            numbers.append(joined(own))
            np.testing.assert_array_equal(numbers[-1], joined(alone))
            for each in own:
                ids, mask = each["token_ids"].numpy(), each["padding_mask"].numpy()
                assert (ids[~mask] == 0).all()
                rows = np.ravel(each["label"])
                assert np.ravel(mask.sum(axis=2)).tolist() == [lengths[row] for row in rows]
                assert np.ravel(ids.max(axis=2)).tolist() == [row + 1 for row in rows]
        assert sorted(np.ravel(numbers)) == list(range(len(lengths)))
    assert they_differ == (group is not None)


def test_the_shards_of_another_worker_are_refused():
    with pytest.raises(ValueError, match=r"the shards \[1, 2\] of 3 for worker 1 of 2. Received: \[0, 1\]"):
        shards.Batches(shards.Sharded({0: None, 1: None}, 3), 1, 1, 2)


@pytest.mark.parametrize("num_shards", range(1, 9))
@pytest.mark.parametrize("num_workers", range(1, 9))
def test_every_shard_is_saved_by_one_that_reads_it(num_workers, num_shards):
    reads = {worker: shards.read_by(worker, num_workers, num_shards) for worker in range(num_workers)}
    for shard in range(num_shards):
        assert shard in reads[shards.saved_by(shard, num_workers, num_shards)]
    if num_workers == num_shards:
        assert all(list(reads[worker]) == [worker] for worker in range(num_workers))
