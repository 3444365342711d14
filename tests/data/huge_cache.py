"""A token cache of 10^8 documents that takes no room: its files are sparse, all zeros but for their headers.

huge_cache.write(DIR)                        745 GiB of tokens by `ls`, some kilobytes on the disk
with huge_cache.spelt() as starts: ...       reads what stands for the places, and where rows were read
"""

import contextlib
import hashlib
import json
import os
from types import SimpleNamespace

import numpy as np

from convnlp.data.token_cache import VERSION, TokenCache

NUM_DOCUMENTS, DOCUMENT_TOKENS, NUM_SHARDS = 10**8, 500, 64
NUM_TOKENS = NUM_DOCUMENTS * DOCUMENT_TOKENS
TOKENIZER = SimpleNamespace(proto=b"the tokenizer of a cache that nobody made")


def write(directory):
    """Writes the cache; returns its source as a string."""
    os.makedirs(directory)
    shards = []
    for number in range(NUM_SHARDS):
        name, tokens = f"{number:05d}-0000", NUM_TOKENS // NUM_SHARDS
        path = os.path.join(directory, f"{name}.tokens.npy")
        with open(path, "wb") as file:
            header = {"descr": "<u2", "fortran_order": False, "shape": (tokens,)}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + 2 * tokens)
        size = os.path.getsize(path)
        shards.append(
            {"name": name, "documents": NUM_DOCUMENTS // NUM_SHARDS, "tokens": tokens, "tokens_bytes": size}
        )
    manifest = {"version": VERSION, "tokenizer": hashlib.sha256(TOKENIZER.proto).hexdigest()}
    manifest |= {"documents": NUM_DOCUMENTS, "tokens": NUM_TOKENS, "shards": shards}
    with open(os.path.join(directory, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    return f"tokens:{directory}"


def spell(places, vocabulary):
    """The tokens that stand for places of the text."""
    return (np.asarray(places, np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)).astype(
        np.int32
    ) % vocabulary


@contextlib.contextmanager
def spelt(vocabulary=1000):
    """Caches that are opened here give what stands for each place; yields a list of where rows were read."""
    open_it, original, starts, opened = TokenCache.__init__, TokenCache.read, [], []

    def init(self, source):
        open_it(self, source)
        opened.append(self)

    def read(self, wanted, length):
        rows = original(self, wanted, length)
        if not any(self is each for each in opened):  # of an iterator before, which still reads ahead
            return rows
        starts.extend(np.asarray(wanted).tolist())
        places = (np.asarray(wanted)[:, None] + np.arange(length)) % self.num_tokens
        return rows + spell(places, vocabulary)

    TokenCache.__init__, TokenCache.read = init, read
    try:
        yield starts
    finally:
        TokenCache.__init__, TokenCache.read = open_it, original
