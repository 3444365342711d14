"""The pipeline: parts of the input -> shards, filtered -> groups of near-duplicates -> files.

    shard       a single element from when it is read; documents that break a rule have been removed
    groups      hold only the places and minima of the remaining documents, see `duplicates`
    files       a shard is joined with the places in it that repeat earlier documents, and written to a file

A shard's file has the same rows and name even if a runner repeats work, and in whatever order it works.
"""

import dataclasses

import apache_beam as beam

from convnlp.bulk import engine, inputs, job, outputs
from convnlp.corpora import duplicates, languages, quality, words
from convnlp.data.schema import Schema

UNREADABLE, OTHER_LANGUAGE, IN_TEST_SET = "unreadable", "other_language", "in_a_test_set"
_READ, _KEPT, _FILES = "documents", "kept", "files"  # counts that belong to no rule
_SHARDS, _MEMBERS, _COUNTS = "shards", "members", "counts"


@dataclasses.dataclass(frozen=True)
class Work:
    """What every worker needs to know.

    Args:
        inputs: see `convnlp.bulk.inputs.open_input`.
        field: string, field of the text.
        folder: string, where the files go.
        rules: tuple of strings, names in `quality.RULES`.
        min_words: int, minimum for the rule `num_words`.
        languages: tuple of strings, languages to keep; empty for all.
        test_texts: `contamination.TestTexts`, or None.
        min_similarity: float, see `duplicates.repeated`; 0 keeps duplicates.
    """

    inputs: object
    field: str
    folder: str
    rules: tuple
    min_words: int
    languages: tuple
    test_texts: object
    min_similarity: float


def run(work, beam_options):
    """Writes the documents to keep, and then the report, which `convnlp.bulk.job.read_summary` reads.

    Args:
        work: `Work`.
        beam_options: see `convnlp.bulk.engine.options`.

    Raises:
        ValueError: see `convnlp.bulk.engine.open_pipeline`.
    """
    with engine.open_pipeline(beam_options) as pipeline:
        found = engine.parts(pipeline, work.inputs) | "read and filter" >> beam.ParDo(_Filter(work))
        shards, members, counts = (engine.tagged(found, tag) for tag in (_SHARDS, _MEMBERS, _COUNTS))
        repeats = (
            members | "groups" >> beam.GroupByKey() | "compare" >> beam.FlatMap(_repeats, work.min_similarity)
        )
        written = (
            {"shards": shards, "repeats": repeats}
            | "shards with their repeats" >> beam.CoGroupByKey()
            | "write" >> beam.FlatMap(_write, work)
        )
        _ = (
            (counts, written, pipeline | "nothing" >> beam.Create([(_READ, (0, 0, ()))]))
            | beam.Flatten()
            | "count" >> beam.CombinePerKey(_add)
            | beam.combiners.ToDict().without_defaults()
            | "report" >> beam.Map(lambda counts: job.write_summary(work.folder, report(counts)))
        )


class _Filter(beam.DoFn):
    """`Part` -> (tag, element): its shards with the documents that obey all rules, counts, members."""

    def __init__(self, work):
        self._work = work

    def setup(self):
        self._language_of = languages.identifier() if self._work.languages else None

    def process(self, part):
        work, schema = self._work, Schema((self._work.field,))
        for name, records in work.inputs.shards(part):
            kept = []
            for record in records:
                yield _COUNTS, (_READ, (1, 0, ()))
                try:
                    fields = work.inputs.fields(record)
                    text = schema.values(fields)[0].decode("utf-8")
                except ValueError as error:
                    reason = f"{record.file}, line {record.line}: {error}"
                    yield _COUNTS, (UNREADABLE, (1, 0, (*_numbers(name), record.line, reason)))
                    continue
                hashes = words.hashes(words.words(text))
                if rule := self._broken(text, hashes):
                    yield _COUNTS, (rule, (1, len(text), ()))
                    continue
                kept.append((record.line, fields))
                if work.min_similarity:
                    groups, signature = duplicates.keys(text, hashes, work.min_similarity)
                    for group in groups:
                        yield _MEMBERS, (group, (name, record.line, signature))
            if kept:
                yield _SHARDS, (name, kept)

    def _broken(self, text, hashes):
        """Returns the name of the rule that a document breaks, or None."""
        work = self._work
        if rule := quality.broken(text, work.rules, work.min_words):
            return rule
        if self._language_of and self._language_of(text) not in work.languages:
            return OTHER_LANGUAGE
        return IN_TEST_SET if work.test_texts and work.test_texts.are_in(hashes) else None


def _repeats(group, min_similarity):
    """Yields (shard, (line, rule)) for the documents of a group that repeat an earlier one in it."""
    name, members = group
    places = (((*_numbers(shard), line), signature) for shard, line, signature in members)
    for (file, number, line), rule in duplicates.repeated(name, places, min_similarity):
        yield inputs.shard_name(file, number), (line, rule)


def _numbers(shard):
    """Returns the numbers in a shard's name, which are in the input's order; "100000-..." < "99999-..."."""
    return tuple(map(int, shard.split("-")))


def _write(joined, work):
    """Writes the file of a shard, if it keeps any document; yields counts."""
    name, found = joined
    (documents,) = found["shards"]
    repeats = {}
    for line, rule in sorted(found["repeats"]):  # "duplicate" comes before "near_duplicate"
        repeats.setdefault(line, rule)
    rows = []
    for line, fields in documents:
        size = len(fields[work.field])
        yield repeats.get(line, _KEPT), (1, size, ())
        if line not in repeats:
            rows.append(fields)
    if rows:
        outputs.write_rows(f"{work.folder}/documents-{name}.jsonl", "jsonl", rows)
        yield _FILES, (1, 0, ())


def _add(counts):
    """Sums up (documents, characters, example), of which the example is the first that is not ()."""
    documents, characters, first = 0, 0, ()
    for more, size, example in counts:
        documents, characters = documents + more, characters + size
        first = min(filter(None, (first, example)), default=())
    return documents, characters, first


def report(counts):
    """Returns the report that is written at the end.

    Args:
        counts: dict, rule -> (documents, characters, example), including `_READ`, `_KEPT` and `_FILES`.

    Returns:
        dict of `documents`, int; `kept`, {"documents", "characters"}; `removed`, rule -> {"documents",
        "characters"}, or, of what is unreadable, {"documents", "first"}, the place and reason of the first;
        `shards`, int, the number of files that were written.
    """
    counts = dict(counts)
    (read, *_), (kept, characters, _), (files, *_) = (
        counts.pop(name, (0, 0, ())) for name in (_READ, _KEPT, _FILES)
    )
    removed = {
        rule: {"documents": number} | ({"first": first[-1]} if first else {"characters": size})
        for rule, (number, size, first) in sorted(counts.items())
    }
    kept = {"documents": kept, "characters": characters}
    return {"documents": read, "kept": kept, "removed": removed, "shards": files}
