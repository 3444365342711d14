"""Writes a token cache, and dies of `kill -9` in the N-th call that puts a file in its place.

    python -m tests.data.dying_writer SOURCE TOKENIZER DIR N

In such a process blocks and shards are small, so that there are many of them.
"""

import os
import signal
import sys

from convnlp.data import Source, files, sources, token_writer
from convnlp.models import Tokenizer


def main(source, tokenizer, directory, number):
    """Writes to the end, or to the moment."""
    files.BLOCK_BYTES, sources.PART_BYTES = 2000, 1
    replace, calls = os.replace, []

    def dying(*paths):
        calls.append(paths)
        if len(calls) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*paths)

    os.replace = dying
    token_writer.write(Source(source), Tokenizer.from_file(tokenizer), directory, shard_tokens=3000)


if __name__ == "__main__":
    main(*sys.argv[1:])
