"""Opens the files of a source: where they are, in which format, and the records in them."""

import functools
import itertools
import os

from convnlp.data import files, pydocs, token_cache
from convnlp.data.errors import SourceError
from convnlp.data.formats import FORMATS
from convnlp.data.source import ALL, Split

NO_TEXT = "{} holds token ids and no text; only convnlp pretrain can read it"


def paths(source):
    """Returns the paths of a source's files, a list: the manifest for `tokens:`, none for `tfds:`."""
    if source.kind == "tfds":
        return []
    if source.kind == "tokens":
        directory = token_cache.directory_of(source)
        token_cache.read_manifest(directory)
        return [os.path.join(directory, token_cache.MANIFEST)]
    path = pydocs.path(source.path) if source.kind == "pydocs" else source.path
    globs = format_of(source).locate(path, Split.parse(source.split).name)
    return [*itertools.chain(*files.of_each(functools.partial(files.find, source.name), globs))]


def format_of(source):
    """Returns the `Format` of a source's files."""
    return FORMATS["jsonl" if source.kind == "pydocs" else source.kind]


def stream_of(source, schema, shard=ALL):
    """Returns the `files.Stream` of a source that has files with text; else raises `SourceError`.

    Args:
        source: `Source`, not `tfds:`.
        schema: `Schema` or one of its kind: what to read from each record.
        shard: `Shard`. Defaults to all.
    """
    if source.kind == "tokens":
        raise SourceError(NO_TEXT.format(source.name))
    return files.Stream(paths(source), format_of(source), schema, Split.parse(source.split), shard)
