"""Writes a token cache: every document of a source is read and tokenized once.

A shard appears under its name once it is complete, and the manifest once all shards are. The content of a
shard depends only on the source, the tokenizer and `shard_tokens`, so a run that was killed and restarted
ends with the same bytes in all files as an uninterrupted one.
"""

import contextlib
import hashlib
import itertools
import json
import os
import re

import numpy as np
import tensorflow as tf
from absl import logging

from convnlp.data import files, rules, sources, tfds_source
from convnlp.data.errors import SourceError, unwrapped
from convnlp.data.token_cache import JOB, MANIFEST, VERSION, array_path, read_json
from convnlp.data.tokenizing import sum_of, token_ids

SHARD_TOKENS = 1 << 26  # 128 MiB in the smaller type, which are in memory at a time
KINDS = ("tokens", "ends")
PARTIAL = ".partial"  # suffix of files that are being written
_LEFTOVER = re.compile(rf"(job|manifest|\d{{5}}-\d{{4}}(\.tokens|\.ends)?)\.(json|npy){re.escape(PARTIAL)}")


def write(source, tokenizer, directory, field="text", *, shard_tokens=SHARD_TOKENS):
    r"""Writes a token cache, or completes one that an earlier run has begun.

    Args:
        source: `Source` of text.
        tokenizer: has `tokenize`, `vocabulary_size()`, `end_token_id`, `proto`.
        directory: string, a new directory or one that holds the same cache.
        field: string, the text's field. Defaults to "text".
        shard_tokens: int >= 1. A shard ends with the block of documents that fills it to this many tokens.
            Defaults to 2**26.

    Returns:
        The manifest, a dict.

    Raises:
        ValueError: if the directory is not local, or holds something else, or a cache with another source,
            tokenizer or shard size.
        SourceError: as `sources.read`, or if the source has no documents.

    Example:
    >>> _ = open("days.txt", "w").write("The old river.\n\nThe quiet valley.")
    >>> manifest = write(Source("text:days.txt"), tokenizer, "cache")
    >>> manifest["documents"], manifest["tokens"] == sum(len(tokenizer.tokenize(text)) + 1
    ...     for text in ("The old river.", "The quiet valley."))
    (2, True)
    >>> from convnlp.data.token_cache import Rows, TokenCache
    >>> rows = Rows(TokenCache(Source("tokens:cache")), length=4, seed=0)
    >>> rows.at([0, 1, 10**9]).shape
    (3, 4)
    """
    rules.integer(1, below=1 << 40).check("shard_tokens", shard_tokens)
    check_directory(directory)
    parts = sources.parts(source, (field,))
    job = {
        "version": VERSION,
        "source": source.name,
        "split": source.split,
        "field": field,
        "inputs": _inputs(source),
        "tokenizer": sum_of(tokenizer),
        "vocabulary_size": tokenizer.vocabulary_size(),
        "shard_tokens": shard_tokens,
    }
    kept = _open_directory(directory, job)
    shards = []
    for number, part in enumerate(parts):
        work = _Part(directory, number, shard_tokens, kept)
        shards += work.finish(lambda part=part: _tokenized(part(), tokenizer, field))
    manifest = job | {
        "documents": sum(shard["documents"] for shard in shards),
        "tokens": sum(shard["tokens"] for shard in shards),
        "shards": [shard for shard in shards if shard["documents"]],
    }
    if not manifest["documents"]:
        raise SourceError(f"{source} has no documents")
    _write_json(os.path.join(directory, MANIFEST), manifest)
    return manifest


def check_directory(directory):
    """Raises ValueError if the directory is a URL, where a cache is impossible, or holds something else."""
    if "://" in directory:
        raise ValueError(
            "`output` must be on a local disk, because a token cache is mapped into memory. "
            f"Received: output={directory}"
        )
    found = _names(directory)
    others = [name for name in found if name != "run.lock" and not _LEFTOVER.fullmatch(name)]
    if others and JOB not in found:
        raise ValueError(f"`output` must be a new or empty directory. {directory} holds {others[0]}")


def _names(directory):
    """Returns the names in a directory, a sorted list; empty if there is none."""
    return sorted(os.listdir(directory)) if os.path.exists(directory) else []


def _inputs(source):
    """Summarises the names and sizes of a source's files, which identify it without reading it."""
    if source.kind == "tfds":
        info = tfds_source.builder(source.path, source.data_dir).info
        return {info.full_name: {name: split.num_examples for name, split in sorted(info.splits.items())}}
    paths = sources.paths(source)
    sizes = files.sizes(paths)
    lines = "".join(f"{size} {path}\n" for size, path in zip(sizes, paths, strict=True))
    return {"files": len(paths), "bytes": sum(sizes), "sha256": hashlib.sha256(lines.encode()).hexdigest()}


def _open_directory(directory, job):
    """Creates the directory, or continues in that of the same job; returns whether it may hold shards."""
    found = _names(directory)
    leftovers = [name for name in found if _LEFTOVER.fullmatch(name)]
    if JOB in found:
        before = read_json(os.path.join(directory, JOB))
        for name in job:
            if before.get(name) != job[name]:
                raise ValueError(
                    f"`output` must be a new directory or hold the same cache. {directory} was made with "
                    f"{name}={rules.short(before.get(name))}. Received: {name}={rules.short(job[name])}"
                )
    for name in leftovers:
        os.remove(os.path.join(directory, name))
    if JOB not in found:
        os.makedirs(directory, exist_ok=True)
        _write_json(os.path.join(directory, JOB), job)
    return JOB in found


def _tokenized(blocks, tokenizer, field):
    """Maps blocks of documents to (their token ids [n], number of tokens of each document [d])."""

    @tf.autograph.experimental.do_not_convert
    def tokenize(block):
        ids = token_ids(block[field], tokenizer)
        return ids.flat_values, ids.row_lengths()

    return blocks.map(tokenize, tf.data.AUTOTUNE, deterministic=True)


class _Part:
    """The shards of one part of the source, see `sources.parts`.

    Args:
        directory: string.
        number: int, number of the part.
        shard_tokens: int.
        kept: bool, whether to look for shards from an earlier run.
    """

    def __init__(self, directory, number, shard_tokens, kept):
        self._directory, self._number, self._shard_tokens = directory, number, shard_tokens
        self._shards = list(self._found()) if kept else []

    def finish(self, dataset):
        """Writes the missing shards; returns the facts of all shards, a list of dicts.

        `dataset` is a function that opens the blocks of tokens of the whole part.
        """
        if self._shards and self._shards[-1]["is_last"]:
            return self._shards
        values, lengths, size = [], [], 0
        with unwrapped():
            blocks = dataset().skip(sum(shard["blocks"] for shard in self._shards))
            for ids, counts in blocks.as_numpy_iterator():
                if size >= self._shard_tokens:
                    self._write(values, lengths, is_last=False)
                    values, lengths, size = [], [], 0
                values.append(ids)
                lengths.append(counts)
                size += len(ids)
        self._write(values, lengths, is_last=True)
        return self._shards

    def _found(self):
        """Yields the facts of the shards, up to the first that is missing or does not match its checksums."""
        for index in itertools.count():
            facts = _read_facts(self._directory, self._name(index))
            if facts is None:
                return
            yield facts
            if facts["is_last"]:
                return

    def _name(self, index):
        return f"{self._number:05d}-{index:04d}"

    def _write(self, values, lengths, is_last):
        """Writes the next shard, its facts last; a shard without documents has no other files."""
        name = self._name(len(self._shards))
        facts = {"name": name, "documents": sum(map(len, lengths)), "tokens": sum(map(len, values))}
        facts |= {"blocks": len(values), "is_last": is_last}
        if facts["documents"]:
            arrays = np.concatenate(values), np.cumsum(np.concatenate(lengths), dtype=np.int64)
            for kind, array in zip(KINDS, arrays, strict=True):
                path = array_path(self._directory, name, kind)
                with _writing(path) as file:
                    # What np.save does, whose error says neither which file could not be written nor why.
                    header = np.lib.format.header_data_from_array_1_0(array)
                    np.lib.format.write_array_header_1_0(file, header)
                    file.write(array)
                facts |= {f"{kind}_bytes": os.path.getsize(path), f"{kind}_sha256": _sum_of_file(path)}
        _write_json(os.path.join(self._directory, f"{name}.json"), facts)
        self._shards.append(facts)
        logging.warning("shard %s: %d documents, %d tokens", name, facts["documents"], facts["tokens"])


def _read_facts(directory, name):
    """Returns the facts of a shard; None if it is incomplete or has changed since it was written."""
    path = os.path.join(directory, f"{name}.json")
    if not os.path.exists(path):
        return None
    try:
        facts = read_json(path)
        for kind in KINDS if facts["documents"] else ():
            if _sum_of_file(array_path(directory, name, kind)) != facts[f"{kind}_sha256"]:
                raise SourceError(f"{array_path(directory, name, kind)} does not match its SHA-256 sum")
        return facts if facts["name"] == name and isinstance(facts["is_last"], bool) else None
    except (SourceError, OSError, KeyError) as error:
        logging.warning("shard %s is damaged and will be made again: %s", name, error)
        return None


def _sum_of_file(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_json(path, value):
    with _writing(path) as file:
        file.write(json.dumps(value, indent=1, sort_keys=True).encode())


@contextlib.contextmanager
def _writing(path):
    """Opens a binary file that appears under its name when the block ends; an error names the file."""
    try:
        with open(f"{path}{PARTIAL}", "wb") as file:
            yield file
        os.replace(f"{path}{PARTIAL}", path)
    except OSError as error:
        error.filename = error.filename or path  # a full disk has none
        raise
