"""A tokenised corpus in files that are mapped into memory: `tokens:DIR`, read from any place at once.

    DIR/job.json                  what it is made of and how; a run that continues it must agree
    DIR/00000-0000.tokens.npy     token ids of the documents of a shard, one after the other, with their ends
    DIR/00000-0000.ends.npy       where each of the documents ends in it, int64
    DIR/00000-0000.json           counts and sums of the two; written after them
    DIR/manifest.json             counts and sums of all shards, and the tokenizer's sum; written last

A row of pre-training is any `length` tokens of the whole, and `length` is a setting of the training. So
tokens have to be found by their number, which is possible in .npy and not in a format of records (TFRecord,
ArrayRecord). The rows are those that `pretraining.cut_rows` cuts of the text: documents follow each other,
told apart by their end tokens.
"""

import functools
import json
import os

import numpy as np

from convnlp.data.errors import SourceError
from convnlp.data.permutation import permute
from convnlp.data.source import ALL, Split
from convnlp.data.tokenizing import sum_of

VERSION = 1  # counts changes of this package that change the files
OPEN_FILES = 256  # mapped at a time
JOB, MANIFEST = "job.json", "manifest.json"
_NEEDED = {"tokenizer", "documents", "tokens", "shards"}
_NEEDED_OF_SHARD = {"name", "documents", "tokens", "tokens_bytes"}


def directory_of(source):
    """The directory of a source `tokens:DIR`; raises `SourceError` where it is no local one."""
    path = source.path.replace("{split}", Split.parse(source.split).name)
    if "://" in path:
        raise SourceError(
            f"{source.name}: a token cache is mapped into memory and must be on a local disk; copy it there"
        )
    return path


def read_json(path):
    """The JSON object of a file of the cache; raises `SourceError` with its path where it holds none."""
    try:
        with open(path, "rb") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise SourceError(f"{path}: must hold a JSON object")
    return found


def read_manifest(directory):
    """The manifest of a complete cache, a dict."""
    path = os.path.join(directory, MANIFEST)
    if not os.path.exists(path):
        begun = os.path.exists(os.path.join(directory, JOB))
        hint = "is not complete: run convnlp prepare-tokens again" if begun else "is no token cache"
        raise SourceError(f"tokens:{directory}: {hint} (there is no {MANIFEST})")
    found = read_json(path)
    if found.get("version") != VERSION:
        raise SourceError(f"{path}: must be of version {VERSION}. Received: version={found.get('version')!r}")
    is_whole = found.keys() >= _NEEDED
    if not is_whole or not all(shard.keys() >= _NEEDED_OF_SHARD for shard in found["shards"]):
        raise SourceError(f"{path}: is not what convnlp prepare-tokens has written: a field is missing")
    return found


def array_path(directory, shard, kind):
    """The path of a shard's "tokens" or "ends"."""
    return os.path.join(directory, f"{shard}.{kind}.npy")


class TokenCache:
    """The tokens of a cache, or of a slice of it, numbered from 0.

    A slice is taken of every shard, as of files it is taken of every file.

    Args:
        source: `Source` of kind "tokens".

    Attributes:
        name: string, of the source with its split.
        manifest: dict.
        num_tokens: int, in the slice.

    Raises:
        SourceError: if there is no complete cache, a file is missing or of another size, or the slice is
            empty.

    Example: see `convnlp.data.token_writer.write`.
    """

    def __init__(self, source):
        self.name = str(source)
        self._directory = directory_of(source)
        self.manifest = read_manifest(self._directory)
        shards = self.manifest["shards"]
        self._names = [shard["name"] for shard in shards]
        self._mapped = functools.lru_cache(maxsize=OPEN_FILES)(self._map)
        for shard in shards:
            self._check_size(shard, "tokens")
        split = Split.parse(source.split)
        if split.is_whole:
            firsts, lasts = [0] * len(shards), [shard["tokens"] for shard in shards]
        else:
            bounds = [split.bounds(shard["documents"]) for shard in shards]
            firsts, lasts = (
                [self._end(number, pair[side]) for number, pair in enumerate(bounds)] for side in (0, 1)
            )
        sizes = np.maximum(np.subtract(lasts, firsts), 0)
        self._firsts = np.array(firsts, np.int64)  # of each shard, the first token of the slice
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])  # and its number in the slice
        self.num_tokens = int(self._starts[-1])
        if not self.num_tokens:
            raise SourceError(f"{self.name} leaves none of {self.manifest['documents']} documents")

    def check_tokenizer(self, tokenizer):
        """Raises `SourceError` if the cache was made by another tokenizer."""
        made, given = self.manifest["tokenizer"], sum_of(tokenizer)
        if made != given:
            raise SourceError(
                f"{self.name} was made by another tokenizer: the sum of its model is {made[:12]}..., "
                f"that of the tokenizer of this run {given[:12]}..."
            )

    def read(self, starts, length):
        """Pieces of the text; behind the last token comes the first.

        Args:
            starts: integers [n], the number of the first token of each.
            length: int, tokens of each.

        Returns:
            int32 array [n,length].
        """
        rows = np.empty([len(starts), length], np.int32)
        for row, start in zip(rows, np.asarray(starts, np.int64).tolist(), strict=True):
            done = 0
            while done < length:
                shard = int(np.searchsorted(self._starts, start, "right")) - 1
                count = min(length - done, int(self._starts[shard + 1]) - start)
                place = int(self._firsts[shard]) + start - int(self._starts[shard])
                row[done : done + count] = self._mapped(shard, "tokens")[place : place + count]
                done, start = done + count, (start + count) % self.num_tokens
        return rows

    def _end(self, shard, documents):
        """Tokens of the first `documents` documents of a shard."""
        return int(self._mapped(shard, "ends")[documents - 1]) if documents else 0

    def _map(self, shard, kind):
        path = array_path(self._directory, self._names[shard], kind)
        try:
            return np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise SourceError(f"{path}: cannot be read: {error}") from error

    def _check_size(self, shard, kind):
        path = array_path(self._directory, shard["name"], kind)
        size = os.path.getsize(path) if os.path.exists(path) else None
        if size != shard[f"{kind}_bytes"]:
            found = "it is missing" if size is None else f"{size} bytes"
            raise SourceError(f"{path}: must have {shard[f'{kind}_bytes']} bytes. Received: {found}")


class Rows:
    """The rows of a cache in the order of an endless training, each known by its place alone.

    With T tokens an epoch has N = T // length rows. The row at place p of the training, with epoch e = p // N
    and a permutation of that epoch, see `permutation.permute`, begins at the token

        (phase_e + length * permute(p mod N, N, (seed, e))) mod T

    so every epoch has every row once, in an order of its own and, since phase_e in [0, length) is drawn too,
    cut at other places; less than a row is left out. Worker w of W has the places w, w + W, w + 2W, ...

    Args:
        cache: `TokenCache`.
        length: int, tokens of a row.
        seed: int; None for one order that all runs and epochs share.
        shard: `Shard`. Defaults to all.

    Attributes:
        num_rows: int, N, of all workers.

    Raises:
        SourceError: if there is less than one row.

    Example: see `convnlp.data.token_writer.write`.
    """

    def __init__(self, cache, length, seed, shard=ALL):
        self._cache, self._length, self._seed, self._shard = cache, length, seed, shard
        self.num_rows = cache.num_tokens // length
        if not self.num_rows:
            raise SourceError(
                f"{cache.name}: not enough text for a row of {length} tokens: it has {cache.num_tokens}"
            )

    def count(self, num_epochs):
        """How many rows this worker has in so many epochs."""
        shard = self._shard
        return len(range(shard.index, self.num_rows * num_epochs, shard.count))

    def at(self, places):
        """The rows at places of this worker's order, int32 [n,length].

        Args:
            places: integers [n] from 0.
        """
        return self._cache.read(self.starts(places), self._length)

    def starts(self, places):
        """Where these rows begin: numbers of tokens, int64 [n]."""
        places = np.asarray(places, np.int64) * self._shard.count + self._shard.index
        epochs, places = np.divmod(places, self.num_rows)
        starts = np.empty_like(places)
        for epoch in np.unique(epochs).tolist():
            mine = epochs == epoch
            key, phase = self._epoch(epoch)
            starts[mine] = phase + self._length * permute(places[mine], self.num_rows, key)
        return starts % self._cache.num_tokens

    def _epoch(self, number):
        """(the seed of the permutation of an epoch, where its first row begins)."""
        if self._seed is None:
            return (0, 0), 0
        drawn = np.random.SeedSequence([self._seed, number, 1]).generate_state(1, np.uint64)
        return (self._seed, number), int(drawn[0] % np.uint64(self._length))
