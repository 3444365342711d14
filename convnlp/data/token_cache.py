"""A tokenized corpus in files that are mapped into memory, `tokens:DIR`, with random access.

    DIR/job.json                  what it is made from, and how; a run that continues it must match
    DIR/00000-0000.tokens.npy     token ids of a shard's documents, one after the other, with end tokens
    DIR/00000-0000.ends.npy       where each document ends in that file, int64
    DIR/00000-0000.json           counts and checksums of these two files; written after them
    DIR/manifest.json             counts and checksums of all shards, and that of the tokenizer; written last

A row for pre-training is any `length` consecutive tokens, and `length` is a setting of the training run.
Tokens must therefore be found by their number, which is possible in .npy but not in formats of records
(TFRecord, ArrayRecord). The rows are those that `pretraining.cut_rows` cuts from the text: documents follow
each other, separated by their end tokens.
"""

import contextlib
import functools
import json
import os

import numpy as np

from convnlp.data.errors import SourceError
from convnlp.data.permutation import permute
from convnlp.data.source import ALL, Split
from convnlp.data.tokenizing import sum_of

VERSION = 1  # increased when a change of this package changes the files
OPEN_FILES = 256  # files that are mapped at a time
JOB, MANIFEST = "job.json", "manifest.json"
_NEEDED = {"tokenizer", "documents", "tokens", "shards"}
_NEEDED_OF_SHARD = {"name", "documents", "tokens", "tokens_bytes"}


def directory_of(source):
    """Returns the directory of a source `tokens:DIR`; raises `SourceError` if it is not local."""
    path = source.path.replace("{split}", Split.parse(source.split).name)
    if "://" in path:
        raise SourceError(
            f"{source.name}: a token cache must be on a local disk, because it is mapped into memory"
        )
    return path


def read_json(path):
    """Returns the JSON object in a file of the cache, a dict; raises `SourceError` if it holds none."""
    try:
        with open(path, "rb") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise SourceError(f"{path}: must hold a JSON object")
    return found


def read_manifest(directory):
    """Returns the manifest of a complete cache, a dict; raises `SourceError` if there is none."""
    path = os.path.join(directory, MANIFEST)
    if not os.path.exists(path):
        begun = os.path.exists(os.path.join(directory, JOB))
        hint = "is not complete: run convnlp prepare-tokens again" if begun else "is not a token cache"
        raise SourceError(f"tokens:{directory}: {hint} (there is no {MANIFEST})")
    found = read_json(path)
    if found.get("version") != VERSION:
        raise SourceError(f"{path}: must have version {VERSION}. Received: version={found.get('version')!r}")
    is_whole = found.keys() >= _NEEDED
    if not is_whole or not all(shard.keys() >= _NEEDED_OF_SHARD for shard in found["shards"]):
        raise SourceError(f"{path}: is not a manifest of convnlp prepare-tokens: a field is missing")
    return found


def array_path(directory, shard, kind):
    """Returns the path of a shard's array; `kind` is "tokens" or "ends"."""
    return os.path.join(directory, f"{shard}.{kind}.npy")


@contextlib.contextmanager
def _reading(path):
    """Raises `SourceError` if a file cannot be read."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error


class TokenCache:
    """The tokens of a cache, or of a slice of it, numbered from 0.

    A slice is taken from every shard, just as a slice of files is taken from every file.

    Args:
        source: `Source` of kind "tokens".

    Attributes:
        name: string, the source with its split.
        manifest: dict.
        num_tokens: int, tokens in the slice.

    Raises:
        SourceError: if there is no complete cache, a file is missing or has the wrong size, or the slice is
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
            self._check_size(shard)
        self._layouts = [self._layout(number) for number in range(len(shards))]
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
            raise SourceError(f"{self.name} contains none of the {self.manifest['documents']} documents")

    def check_tokenizer(self, tokenizer):
        """Raises `SourceError` if the cache was made with another tokenizer."""
        made, given = self.manifest["tokenizer"], sum_of(tokenizer)
        if made != given:
            raise SourceError(
                f"{self.name} was made with another tokenizer: the SHA-256 sum of its model is "
                f"{made[:12]}...; that of this run's tokenizer is {given[:12]}..."
            )

    def read(self, starts, length):
        """Returns consecutive tokens from each of some places; the first token follows the last.

        Args:
            starts: integers [n], the number of the first token of each row.
            length: int, tokens in each row.

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
                row[done : done + count] = self._mapped(shard)[place : place + count]
                done, start = done + count, (start + count) % self.num_tokens
        return rows

    def _end(self, shard, documents):
        """Returns the number of tokens in the first `documents` documents of a shard."""
        return int(self._load(shard, "ends")[documents - 1]) if documents else 0

    def _layout(self, shard):
        """Returns what a thread needs to map a shard's tokens without parsing the file's header.

        NumPy parses headers with `ast`, which fails now and then in Python 3.11 while another thread parses,
        as `tf.function` does (https://github.com/python/cpython/issues/106905).
        """
        tokens = self._load(shard, "tokens")
        return {"dtype": tokens.dtype, "offset": tokens.offset, "shape": tokens.shape}

    def _load(self, shard, kind):
        path = array_path(self._directory, self._names[shard], kind)
        with _reading(path):
            return np.load(path, mmap_mode="r")

    def _map(self, shard):
        path = array_path(self._directory, self._names[shard], "tokens")
        with _reading(path):
            return np.memmap(path, mode="r", **self._layouts[shard])

    def _check_size(self, shard):
        path, wanted = array_path(self._directory, shard["name"], "tokens"), shard["tokens_bytes"]
        size = os.path.getsize(path) if os.path.exists(path) else None
        if size != wanted:
            found = "no such file" if size is None else f"{size} bytes"
            raise SourceError(f"{path}: must have {wanted} bytes. Received: {found}")


class Rows:
    """The rows of a cache in the order of endless training; each is determined by its place.

    With T tokens, an epoch has N = T // length rows. The row at place p is in epoch e = p // N. With that
    epoch's permutation (see `permutation.permute`), it begins at the token

        (phase_e + length * permute(p mod N, N, (seed, e))) mod T

    So every epoch has every row once, in its own order and, since phase_e in [0, length) is random too, cut
    at different places; less than a row is left out. Worker w of W has the places w, w + W, w + 2W, ...

    Args:
        cache: `TokenCache`.
        length: int, tokens in a row.
        seed: int; None for a fixed order for all runs and epochs.
        shard: `Shard`. Defaults to all.

    Attributes:
        num_rows: int, N, of all workers together.

    Raises:
        SourceError: if the cache has fewer tokens than a row.

    Example: see `convnlp.data.token_writer.write`.
    """

    def __init__(self, cache, length, seed, shard=ALL):
        self._cache, self._length, self._seed, self._shard = cache, length, seed, shard
        self.num_rows = cache.num_tokens // length
        if not self.num_rows:
            raise SourceError(
                f"{cache.name}: not enough text for a row of {length} tokens: it has only {cache.num_tokens}"
            )

    def count(self, num_epochs):
        """Returns the number of rows of this worker in `num_epochs` epochs."""
        shard = self._shard
        return len(range(shard.index, self.num_rows * num_epochs, shard.count))

    def at(self, places):
        """Returns the rows at some places in this worker's order, int32 array [n,length].

        Args:
            places: integers [n] from 0.
        """
        return self._cache.read(self.starts(places), self._length)

    def starts(self, places):
        """Returns the number of the first token of each of these rows, int64 array [n]."""
        places = np.asarray(places, np.int64) * self._shard.count + self._shard.index
        epochs, places = np.divmod(places, self.num_rows)
        starts = np.empty_like(places)
        for epoch in np.unique(epochs).tolist():
            mine = epochs == epoch
            key, phase = self._epoch(epoch)
            starts[mine] = phase + self._length * permute(places[mine], self.num_rows, key)
        return starts % self._cache.num_tokens

    def _epoch(self, number):
        """Returns (the seed of an epoch's permutation, its phase)."""
        if self._seed is None:
            return (0, 0), 0
        drawn = np.random.SeedSequence([self._seed, number, 1]).generate_state(1, np.uint64)
        return (self._seed, number), int(drawn[0] % np.uint64(self._length))
