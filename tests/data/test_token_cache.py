"""A token cache: its files hold the text, its rows come once per epoch, any place is read at once."""

import ast
import collections
import itertools
import os
import pathlib
import resource
import shutil

import numpy as np
import pytest
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from convnlp.data import Shard, Source, SourceError, files, pretraining, sources, stored, token_writer
from convnlp.data.permutation import permute
from convnlp.data.token_cache import Rows, TokenCache
from convnlp.models import Tokenizer
from tests import corpus, remote
from tests.data import huge_cache

LENGTH = 32


@pytest.fixture(scope="module")
def cache(documents, tokenizer, tmp_path_factory):
    """A source of several shards, each of several blocks."""
    directory = tmp_path_factory.mktemp("caches") / "cache"
    write(documents, tokenizer, directory)
    return f"tokens:{directory}"


def write(source, tokenizer, directory, **arguments):
    """Writes a cache in small blocks, a part a file, and small shards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK_BYTES", 2000)
        patch.setattr(sources, "PART_BYTES", 1)
        return token_writer.write(
            Source(source), tokenizer, str(directory), **{"shard_tokens": 3000} | arguments
        )


def plain_tokens(tokenizer, source):
    """The tokens of each document with its end, file by file, in plain Python."""
    found = []
    for path in sources.paths(Source(source)):
        for _, (text,) in sources.records(Source(f"jsonl:{path}")):
            found.append([*np.asarray(tokenizer.tokenize(text.decode())).tolist(), tokenizer.end_token_id])
    return found


def flat(documents):
    return list(itertools.chain.from_iterable(documents))


def directory_of(cache):
    return cache.partition(":")[2]


def copied(cache, tmp_path):
    return shutil.copytree(directory_of(cache), tmp_path / "copy")


def contents(directory):
    directory = pathlib.Path(directory)
    return {name: (directory / name).read_bytes() for name in os.listdir(directory)}


# What is written.


def test_the_files_hold_every_document_with_its_end(cache, documents, tokenizer):
    expected = plain_tokens(tokenizer, documents)
    found = TokenCache(Source(cache))
    manifest = found.manifest
    assert (
        (manifest["documents"], manifest["tokens"])
        == (len(expected), len(flat(expected)))
        == (500, found.num_tokens)
    )
    assert len(manifest["shards"]) > 4
    assert manifest["inputs"]["files"] == 2
    arrays = [
        [np.load(f"{directory_of(cache)}/{shard['name']}.{kind}.npy") for kind in ("tokens", "ends")]
        for shard in manifest["shards"]
    ]
    assert {tokens.dtype.name for tokens, _ in arrays} == {"uint16"}
    assert [part.tolist() for tokens, ends in arrays for part in np.split(tokens, ends[:-1])] == expected


def test_a_cache_of_one_file_has_the_rows_that_are_cut_without_it(tmp_path, tokenizer):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in corpus.documents(50)])
    write(f"jsonl:{path}", tokenizer, tmp_path / "cache")
    blocks = sources.read_blocks(Source(f"jsonl:{path}"))
    expected = np.stack(list(pretraining.cut_rows(blocks, tokenizer, "text", LENGTH).as_numpy_iterator()))
    found = TokenCache(Source(f"tokens:{tmp_path}/cache"))
    np.testing.assert_array_equal(found.read(np.arange(len(expected)) * LENGTH, LENGTH), expected)


def test_a_large_vocabulary_has_wider_ids(tmp_path, tokenizer):
    wide = Tokenizer(corpus.tiny_proto(), num_sentinels=70_000)
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": "the old river"}])
    write(f"jsonl:{path}", wide, tmp_path / "cache")
    assert np.load(tmp_path / "cache" / "00000-0000.tokens.npy").dtype == np.int32
    found = TokenCache(Source(f"tokens:{tmp_path}/cache"))
    assert found.read([0], found.num_tokens).tolist() == [flat(plain_tokens(tokenizer, f"jsonl:{path}"))]


@pytest.mark.parametrize("kind", ["csv", "tfds"])
def test_other_sources_become_caches_too(tmp_path, tokenizer, kind, monkeypatch):
    texts = corpus.documents(12)
    (tmp_path / "a.csv").write_text("text\n" + "".join(f"{text}\n" for text in texts))
    source = Source(f"csv:{tmp_path}/a.csv", "train[:9]")
    if kind == "tfds":
        from convnlp import prepare_tfds

        prepare_tfds.prepare(source.name, "c4/en:3.1.0", str(tmp_path / "tfds"), {"train": "train"})
        source = Source("tfds:c4/en:3.1.0", "train[:9]", str(tmp_path / "tfds"))
        monkeypatch.setattr(sources, "PART_EXAMPLES", 4)
    manifest = token_writer.write(source, tokenizer, str(tmp_path / "cache"))
    assert [shard["documents"] for shard in manifest["shards"]] == ([9] if kind == "csv" else [4, 4, 1])
    found = TokenCache(Source(f"tokens:{tmp_path}/cache"))
    expected = flat([*np.asarray(tokenizer.tokenize(text)).tolist(), 1] for text in texts[:9])
    assert found.read([0], found.num_tokens).tolist() == [expected]


def test_files_of_a_bucket_are_read_through_tensorflow(tmp_path, tokenizer):
    texts = corpus.documents(40)
    for number in range(4):
        local = corpus.write_jsonl(
            tmp_path / f"{number}.jsonl.gz", [{"text": text} for text in texts[number::4]]
        )
        tf.io.gfile.copy(local, remote.url(f"bucket/web/part-{number}.jsonl.gz"), overwrite=True)
        local = corpus.write_jsonl(
            tmp_path / f"{number}.jsonl", [{"text": text} for text in texts[number::4]]
        )
        tf.io.gfile.copy(local, remote.url(f"bucket/plain/part-{number}.jsonl"), overwrite=True)
    for name in ("web/part-*.jsonl.gz", "plain/part-*.jsonl"):
        folder = tmp_path / name.partition("/")[0]
        assert write("jsonl:" + remote.url(f"bucket/{name}"), tokenizer, folder)["documents"] == 40
        found = TokenCache(Source(f"tokens:{folder}"))
        expected = flat(plain_tokens(tokenizer, f"jsonl:{tmp_path}/?.jsonl"))
        assert found.read([0], found.num_tokens).tolist() == [expected]
    message = "a token cache must be on a local disk, because it is mapped into memory"
    with pytest.raises(SourceError, match=message):
        TokenCache(Source("tokens:" + remote.url("bucket/cache")))
    with pytest.raises(ValueError, match=r"`output` must be on a local disk, .* Received: output=.*://"):
        write("jsonl:" + remote.url("bucket/plain/*"), tokenizer, remote.url("bucket/cache"))


def test_thousands_of_files_are_few_shards_and_few_open_files(tmp_path, tokenizer, monkeypatch):
    for number in range(1500):
        (tmp_path / f"{number:04d}.txt").write_text(f"the old river {number}")
    monkeypatch.setattr(sources, "PART_BYTES", 10_000)
    opened, at_a_time = [], []
    original = stored.open_stored

    def open_stored(path):
        opened.append(original(path))
        at_a_time.append(sum(not file.closed for file in opened))
        return opened[-1]

    monkeypatch.setattr(stored, "open_stored", open_stored)
    manifest = token_writer.write(Source(f"text:{tmp_path}/*.txt"), tokenizer, str(tmp_path / "cache"))
    assert manifest["documents"] == manifest["inputs"]["files"] == 1500
    assert len(manifest["shards"]) == 3
    assert len(opened) >= 1500
    assert max(at_a_time) <= files.OPEN_FILES
    found = TokenCache(Source(f"tokens:{tmp_path}/cache"))
    documents = (found.read([0], found.num_tokens) == tokenizer.end_token_id).sum()
    assert documents == 1500


# A run that is continued.


def test_shards_that_are_there_are_kept_and_damaged_ones_made_again(cache, documents, tokenizer, tmp_path):
    directory = copied(cache, tmp_path)
    whole = contents(directory)
    os.remove(directory / "manifest.json")
    os.remove(directory / "00000-0002.json")  # as if it had been killed between the two
    (directory / "00000-0001.tokens.npy").write_bytes(b"damaged")
    (directory / "00001-0000.ends.npy.partial").write_bytes(b"half of it")
    times = {name: os.stat(directory / name).st_mtime_ns for name in os.listdir(directory)}
    write(documents, tokenizer, directory)
    assert contents(directory) == whole
    kept = {
        name
        for name, time in times.items()
        if (directory / name).exists() and os.stat(directory / name).st_mtime_ns == time
    }
    assert {"00000-0000.tokens.npy", "00001-0000.tokens.npy"} <= kept
    assert "00000-0001.tokens.npy" not in kept


def test_another_job_is_refused(cache, documents, tokenizer, tmp_path):
    directory = copied(cache, tmp_path)
    before = contents(directory)
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": "the old river"}])
    for changed, message in [
        ({"source": f"jsonl:{path}"}, "was made with source='jsonl:.*Received: source='jsonl:"),
        ({"tokenizer": other_tokenizer()}, "was made with tokenizer='[0-9a-f.]+'"),
        ({"shard_tokens": 7}, "was made with shard_tokens=3000. Received: shard_tokens=7"),
        ({"shard_tokens": 0}, r"`shard_tokens` must be an integer in .* Received: shard_tokens=0"),
    ]:
        with pytest.raises(ValueError, match=message):
            write(**{"source": documents, "tokenizer": tokenizer, "directory": directory} | changed)
    assert contents(directory) == before
    with pytest.raises(ValueError, match=r"`output` must be a new or empty directory. .* holds a.jsonl"):
        write(documents, tokenizer, tmp_path)
    with pytest.raises(ValueError, match=r"`output` must be a new or empty directory. .* holds a.jsonl"):
        token_writer.check_directory(str(tmp_path))
    token_writer.check_directory(str(directory))


def other_tokenizer():
    model = sentencepiece_model_pb2.ModelProto.FromString(corpus.tiny_proto())
    model.pieces[50].piece += "x"
    return Tokenizer(model.SerializeToString())


def test_a_bad_record_is_named_and_what_is_whole_is_kept(tmp_path, tokenizer):
    rows = [{"text": text} for text in corpus.documents(60)]
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [*rows[:50], {"title": "none"}, *rows[50:]])
    with pytest.raises(SourceError, match=r"a.jsonl, line 51: no field 'text'"):
        write(f"jsonl:{path}", tokenizer, tmp_path / "cache", shard_tokens=500)
    assert (tmp_path / "cache" / "00000-0000.json").exists()
    with pytest.raises(SourceError, match="is not complete: run convnlp prepare-tokens again"):
        TokenCache(Source(f"tokens:{tmp_path}/cache"))


def test_a_full_disk_is_named_by_its_file(tmp_path, tokenizer):
    path = corpus.write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in corpus.documents(400)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*00000-0000\.tokens\.npy'"):
            write(f"jsonl:{path}", tokenizer, tmp_path / "cache")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


# What is read.


def test_pieces_from_anywhere_are_the_text(cache, documents, tokenizer):
    text = np.array(flat(plain_tokens(tokenizer, documents)))
    found = TokenCache(Source(cache))
    starts = np.linspace(0, len(text) - 1, 57).astype(int)
    for length in (1, 7, 5000):  # the last is more than a shard
        expected = [text[(start + np.arange(length)) % len(text)] for start in starts]
        np.testing.assert_array_equal(found.read(starts, length), expected)


def test_threads_that_read_parse_nothing(cache, monkeypatch):
    """Python 3.11's parser fails if two threads use it at once; the main thread traces functions with it."""
    found = TokenCache(Source(cache))
    expected = TokenCache(Source(cache)).read([0], found.num_tokens)

    def parse(*arguments, **settings):
        raise SystemError("AST constructor recursion depth mismatch")

    with monkeypatch.context() as patch:  # pytest parses, too
        patch.setattr(ast, "parse", parse)
        patch.setattr(ast, "literal_eval", parse)
        rows = found.read([0], found.num_tokens)
    np.testing.assert_array_equal(rows, expected)


def test_slices_are_disjoint_and_complete_and_taken_of_every_shard(cache, documents, tokenizer):
    expected = collections.Counter(map(tuple, plain_tokens(tokenizer, documents)))
    found = collections.Counter()
    for split in ("train[:20%]", "train[20%:]"):
        part = TokenCache(Source(cache, split))
        (tokens,) = part.read([0], part.num_tokens)
        ends = np.flatnonzero(tokens == tokenizer.end_token_id) + 1
        found.update(tuple(document.tolist()) for document in np.split(tokens, ends[:-1]))
    assert found == expected
    first = TokenCache(Source(cache, "train[:1]"))
    (tokens,) = first.read([0], first.num_tokens)
    assert (tokens == tokenizer.end_token_id).sum() == len(first.manifest["shards"])
    with pytest.raises(SourceError, match=r"split train\[1000:\] contains none of the 500 documents"):
        TokenCache(Source(cache, "train[1000:]"))


def test_splits_may_be_directories(cache, tmp_path):
    shutil.copytree(directory_of(cache), tmp_path / "valid")
    assert TokenCache(Source(f"tokens:{tmp_path}/{{split}}", "valid[:50%]")).num_tokens > 0
    with pytest.raises(SourceError, match="is not a token cache"):
        TokenCache(Source(f"tokens:{tmp_path}/{{split}}", "train"))
    with pytest.raises(SourceError, match=r"has no split 'valid': write \{split\}"):
        Source(cache, "valid")


def scramble(directory):
    path = directory / "00000-0001.tokens.npy"
    path.write_bytes(b"x" * path.stat().st_size)


def damage(name, content):
    def change(directory):
        if content is None:
            os.remove(directory / name)
        else:
            (directory / name).write_bytes(content)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            damage("00000-0001.tokens.npy", None),
            r"00000-0001.tokens.npy: must have \d+ bytes. Received: no such file",
        ),
        (
            damage("00000-0001.tokens.npy", b"x"),
            r"00000-0001.tokens.npy: must have \d+ bytes. Received: 1 bytes",
        ),
        (scramble, r"00000-0001.tokens.npy: cannot be read"),
        (damage("manifest.json", b"{"), r"manifest.json: cannot be read"),
        (damage("manifest.json", b"[]"), r"manifest.json: must hold a JSON object"),
        (
            damage("manifest.json", b'{"version": 9}'),
            r"manifest.json: must have version 1. Received: version=9",
        ),
        (damage("manifest.json", b'{"version": 1, "shards": []}'), r"manifest.json: .* a field is missing"),
        (damage("manifest.json", None), r"is not complete: run convnlp prepare-tokens again"),
    ],
)
def test_a_damaged_cache_is_one_line(cache, tmp_path, change, message):
    directory = copied(cache, tmp_path)
    change(directory)
    with pytest.raises(SourceError, match=message) as error:
        sources.check(Source(f"tokens:{directory}"))
    assert "\n" not in str(error.value)


def test_it_holds_no_text(cache):
    source = Source(cache)
    for read in (sources.read, sources.records, sources.parts, lambda source: sources.Sample(source, 1)):
        with pytest.raises(
            SourceError, match="holds token ids and no text; only convnlp pretrain can read it"
        ):
            read(source)
    assert sources.paths(source) == [f"{directory_of(cache)}/manifest.json"]


# Rows in the order of a training.


@pytest.mark.parametrize("num_workers", [1, 2, 3, 7])
def test_every_row_comes_once_per_epoch_with_any_number_of_workers(cache, num_workers):
    found = TokenCache(Source(cache))
    workers = [Rows(found, LENGTH, 5, Shard(num_workers, index)) for index in range(num_workers)]
    num_rows = workers[0].num_rows
    assert num_rows == found.num_tokens // LENGTH
    single = Rows(found, LENGTH, 5).starts(range(3 * num_rows))
    # Taken in turns the workers' places are those of one worker: every batch has the same rows.
    turns = [worker.starts(range(3 * num_rows)) for worker in workers]
    assert np.stack(turns, axis=1).reshape(-1)[: 3 * num_rows].tolist() == single.tolist()
    assert sum(worker.count(3) for worker in workers) == 3 * num_rows
    for epoch in np.split(single, 3):
        phase = epoch.min() % LENGTH
        assert np.sort(epoch).tolist() == sorted((phase + np.arange(num_rows) * LENGTH) % found.num_tokens)


def test_starts_are_the_equations(cache):
    found = TokenCache(Source(cache))
    rows = Rows(found, LENGTH, 5, Shard(3, 2))
    for place in (0, 1, 100, 10**6, 10**15):
        epoch, position = divmod(place * 3 + 2, rows.num_rows)
        phase = int(np.random.SeedSequence([5, epoch, 1]).generate_state(1, np.uint64)[0]) % LENGTH
        number = int(permute([position], rows.num_rows, (5, epoch))[0])
        assert rows.starts([place]).tolist() == [(phase + LENGTH * number) % found.num_tokens]


def test_epochs_and_seeds_differ_and_the_fixed_order_does_not(cache):
    found = TokenCache(Source(cache))
    rows = Rows(found, LENGTH, 5)
    epochs = np.split(rows.starts(range(4 * rows.num_rows)), 4)
    assert len({int(epoch[0]) for epoch in epochs}) == 4
    assert len({int(epoch.min()) % LENGTH for epoch in epochs}) > 1
    assert Rows(found, LENGTH, 6).starts(range(20)).tolist() != epochs[0][:20].tolist()
    fixed = Rows(found, LENGTH, None)
    first, second = np.split(fixed.starts(range(2 * fixed.num_rows)), 2)
    assert first.tolist() == second.tolist() != sorted(first.tolist())
    assert sorted(first.tolist()) == list(range(0, fixed.num_rows * LENGTH, LENGTH))


def batches(source, tokenizer, **arguments):
    """Batches that hold their tokens, and a number from each seed."""

    def examples(tokens, seed, shared_seed):
        own, shared = (
            tf.random.stateless_uniform([4], each, 0, 1000, tf.int32) for each in (seed, shared_seed)
        )
        return {"tokens": tokens, "own": own, "shared": shared}

    defaults = {"row_length": LENGTH, "batch_size": 4, "seed": 5, "examples": examples}
    return pretraining.batches(Source(source), tokenizer, **defaults | arguments)


def test_batches_have_these_rows_and_their_seeds(cache, tokenizer):
    rows = Rows(TokenCache(Source(cache)), LENGTH, 5)
    workers = [batches(cache, tokenizer, shard=Shard(2, i), batch_size=2).as_numpy_iterator() for i in (0, 1)]
    for number in range(5):
        one, other = next(workers[0]), next(workers[1])
        both = np.stack([one["tokens"], other["tokens"]], axis=1).reshape([4, LENGTH])
        np.testing.assert_array_equal(both, rows.at(range(4 * number, 4 * number + 4)))
        assert one["shared"].tolist() == other["shared"].tolist()
        assert one["own"].tolist() != other["own"].tolist()
    once = [batch["tokens"] for batch in batches(cache, tokenizer, num_epochs=1).as_numpy_iterator()]
    assert len(once) == rows.num_rows // 4
    with pytest.raises(SourceError, match="not enough text for 999999 rows of 32 tokens"):
        batches(cache, tokenizer, num_epochs=1, batch_size=999_999)
    with pytest.raises(SourceError, match="not enough text for a row of 9999999 tokens"):
        batches(cache, tokenizer, row_length=9_999_999)


def test_another_tokenizer_is_refused(cache):
    with pytest.raises(
        SourceError, match=r"was made with another tokenizer: the SHA-256 sum of its model is [0-9a-f]{12}"
    ):
        batches(cache, other_tokenizer())


# Going on in the middle.


def test_a_checkpoint_is_the_number_of_the_next_batch(cache, tokenizer, tmp_path):
    dataset = batches(cache, tokenizer)
    iterator = iter(dataset.batch(2))
    for _ in range(40):  # into the second epoch
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    assert os.path.getsize(f"{path}.data-00000-of-00001") < 8192  # a batch of the tests alone has 512 bytes
    wide = iter(batches(cache, tokenizer, batch_size=64).batch(2))
    next(wide)
    other = tf.train.Checkpoint(iterator=wide).write(str(tmp_path / "wide"))
    sizes = [os.path.getsize(f"{each}.data-00000-of-00001") for each in (path, other)]
    assert abs(sizes[0] - sizes[1]) < 64  # no rows are in it, which would be 8 kB each time
    again = iter(batches(cache, tokenizer).batch(2))
    tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
    for _ in range(40):
        here, there = next(iterator), next(again)
        for key in here:
            np.testing.assert_array_equal(here[key], there[key], err_msg=key)


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """10^8 documents, 5 * 10^10 tokens."""
    return huge_cache.write(tmp_path_factory.mktemp("huge") / "cache")


@pytest.mark.parametrize("num_workers", [1, 3])
def test_it_goes_on_in_the_middle_of_an_epoch_of_1e8_documents(huge, tmp_path, monkeypatch, num_workers):
    """What a resumed run reads does not depend on how far it had come."""
    shard = Shard(num_workers, num_workers - 1)
    length, batch, middle = 512, 8, 5_000_000 // num_workers  # some 4/10 of the first epoch

    def dataset():
        return batches(huge, huge_cache.TOKENIZER, row_length=length, batch_size=batch, shard=shard)

    counter = tf.data.Dataset.counter
    with monkeypatch.context() as patch:  # as if so many batches had been read
        patch.setattr(tf.data.Dataset, "counter", lambda dtype: counter(start=middle - 1, dtype=dtype))
        run = iter(dataset())
        next(run)
        path = tf.train.Checkpoint(iterator=run).write(str(tmp_path / "checkpoint"))
        del run
    with huge_cache.spelt() as starts:
        again = iter(dataset())
        tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
        found = [next(again)["tokens"].numpy() for _ in range(3)]
        del again
        num_read = len(starts)
    assert (
        3 * batch <= num_read <= 1000 * batch
    )  # three, and what is made ahead; before it lie 10**6 and more

    num_rows = huge_cache.NUM_TOKENS // length
    phase = int(np.random.SeedSequence([5, 0, 1]).generate_state(1, np.uint64)[0]) % length
    places = (middle * batch + np.arange(3 * batch)) * num_workers + num_workers - 1
    assert places.max() < num_rows
    expected = phase + length * permute(places, num_rows, (5, 0))
    assert {*expected.tolist()} <= {*starts}
    before = phase + length * permute(np.arange(places.min() - 20_000, places.min()), num_rows, (5, 0))
    assert {*before.tolist()}.isdisjoint(starts)
    text = huge_cache.spell(expected[:, None] + np.arange(length), 1000)
    np.testing.assert_array_equal(np.concatenate(found), text)


def test_opening_a_cache_of_1e8_documents_reads_no_token(huge, monkeypatch):
    def read(self, shard, kind):
        raise AssertionError("a file was read")

    monkeypatch.setattr(TokenCache, "_map", read)
    found = TokenCache(Source(huge))
    assert found.num_tokens == huge_cache.NUM_TOKENS
    sources.check(Source(huge))
    assert Rows(found, 512, 0).num_rows == huge_cache.NUM_TOKENS // 512
