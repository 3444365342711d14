r"""Removes from a corpus what a model should not be pre-trained on, on Apache Beam.

    convnlp prepare-corpus --input='jsonl:web-*.jsonl.gz' --output=DIR --languages=en \
        --test_sources=jsonl:sst2.test.jsonl,csv:banking.csv

It removes documents that break a quality rule, are in another language, contain a text of a test set, or are
nearly the same as an earlier one; convnlp/corpora says how, with the sources. For each shard of the input,
DIR gets a file documents-*.jsonl with all fields of the documents that stay. Last comes summary.json, which
says how many documents and characters each rule has removed. Beam's own flags come after `--`.
"""

import inspect
import os
import time

from absl import flags

from convnlp import outputs, programs, source_flags
from convnlp.bulk import inputs, job, runners
from convnlp.corpora import contamination, duplicates, quality
from convnlp.corpora.languages import check as check_languages
from convnlp.data.rules import integer, number, one_of

_VERSION = 2  # increased when a change of this package changes what is kept


def prepare(
    input,
    output,
    *,
    split="train",
    data_dir=None,
    text_field="text",
    rules=tuple(quality.RULES),
    min_words=quality.MIN_WORDS,
    languages=(),
    test_sources=(),
    test_text_fields=(),
    min_similarity=duplicates.MIN_SIMILARITY,
    shard_size=10_000,
    runner="DirectRunner",
    beam_flags=(),
):
    """Writes the documents to keep, and the counts; if the directory is complete, only reads the counts.

    Args:
        input: string, see `convnlp.bulk.inputs`.
        output: string, a directory: new, or that of the same job.
        split: string, the split of a TFDS data set, optionally sliced. Defaults to "train".
        data_dir: string, where TFDS looks.
        text_field: string, the field that holds the text. Defaults to "text".
        rules: sequence of strings, names in `quality.RULES`. Defaults to all of them.
        min_words: int >= 0, the minimum number of words in a document. Defaults to 50.
        languages: sequence of strings, the languages to keep. Defaults to none, which keeps all.
        test_sources: sequence of strings, test sets; documents that contain their texts are removed. Defaults
            to none.
        test_text_fields: sequence of strings, their fields. Defaults to none, which means all text fields.
        min_similarity: float in [0, 1], see `duplicates.repeated`; 0 keeps duplicates. Defaults to 0.8.
        shard_size: int >= 1, documents per shard. Defaults to 10,000.
        runner: string, one of `runners.RUNNERS`. Defaults to "DirectRunner".
        beam_flags: sequence of strings, Beam's own flags.

    Returns:
        The summary, a dict; see `convnlp.corpora.pipeline.report`.

    Raises:
        ValueError: if an argument breaks its rule, if Beam or py3langid is not installed, or if the
            directory holds something else.
        SourceError: if the input or a test set cannot be read.
    """
    for name in rules:
        one_of(quality.RULES).check("rules", name)
    integer(0).check("min_words", min_words)
    number("[0, 1]").check("min_similarity", min_similarity)
    if test_text_fields and not test_sources:
        raise ValueError(
            "`test_text_fields` must only be given with `test_sources`. "
            f"Received: test_text_fields={','.join(test_text_fields)}"
        )
    outputs.check_folder("output", output, takes_urls=True)
    pipeline, engine = (
        runners.load_pipeline(f"convnlp.{name}", "convnlp.prepare_corpus", runner)
        for name in ("corpora.pipeline", "bulk.engine")
    )
    beam_options = engine.options(runner, list(beam_flags))
    if languages:
        check_languages(languages)
    source = inputs.open_input(input, split, shard_size, data_dir, (text_field,))
    test_sets = [contamination.source_of(name) for name in test_sources]
    test_texts = contamination.TestTexts(
        text for test_set in test_sets for text in contamination.texts_of(test_set, test_text_fields)
    )
    folder = os.path.normpath(output) if "://" not in output else output.rstrip("/")
    described = {
        "version": _VERSION,
        "input": f"{input} {split}",
        "field": text_field,
        "rules": list(rules),
        "min_words": min_words,
        "languages": list(languages),
        "test_sources": list(test_sources),
        "test_texts": test_texts.fingerprint(),
        "min_similarity": min_similarity,
        "shard_size": shard_size,
        "files": source.description(),
    }
    summary = job.open_folder(folder, described)
    if summary is not None:
        print(f"{folder} is complete: nothing is left to do")
        return summary
    work = pipeline.Work(
        inputs=source,
        field=text_field,
        folder=folder,
        rules=tuple(rules),
        min_words=min_words,
        languages=tuple(languages),
        test_texts=test_texts if len(test_texts) else None,
        min_similarity=min_similarity,
    )
    pipeline.run(work, beam_options)
    return job.finish(folder)


def table(summary):
    """Returns the counts of a summary as lines of text."""
    removed = sorted(summary["removed"].items(), key=lambda item: -item[1]["documents"])
    rows = [("kept", summary["kept"]), *removed]
    lines = [f"{summary['documents']:>12,} documents"]
    lines += [
        f"{row['documents']:>12,} {name.replace('_', ' ')}, "
        + (f"first {row['first']}" if "first" in row else f"{row['characters']:,} characters")
        for name, row in rows
    ]
    return "\n".join(lines)


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string(
        "input",
        None,
        "KIND:GLOB of jsonl, csv, tsv, parquet, lines or text; tfds:NAME; pydocs.",
        required=True,
    )
    flags.DEFINE_string("output", None, "Directory to write to, new or of this job.", required=True)
    source_flags.define_split("split", of="tfds:NAME")
    source_flags.define_data_dir("data_dir")
    source_flags.define_text_field("text_field", "Field of the text.")
    flags.DEFINE_list("rules", list(quality.RULES), "Quality rules to apply; empty for none.")
    flags.DEFINE_integer("min_words", quality.MIN_WORDS, "Minimum number of words in a document.", 0)
    flags.DEFINE_list("languages", [], "Languages to keep, such as en,de; empty for all. Needs py3langid.")
    flags.DEFINE_list("test_sources", [], "Test sets whose texts are removed: jsonl:GLOB, csv:GLOB, ...")
    source_flags.define_text_fields(
        "test_text_fields", "Fields of the test sets to look for; empty for all texts.", []
    )
    flags.DEFINE_float(
        "min_similarity",
        duplicates.MIN_SIMILARITY,
        "Share of five-word runs that near-duplicates have in common; 0 keeps duplicates.",
    )
    flags.DEFINE_integer("shard_size", 10_000, "Maximum number of documents per shard of the input.", 1)
    flags.DEFINE_enum("runner", "DirectRunner", runners.RUNNERS, "Beam's runner; the first is local.")


def main(argv):
    """Reads the flags, prepares, prints the counts."""
    start = time.monotonic()
    names = [name for name in inspect.signature(prepare).parameters if name != "beam_flags"]
    summary = prepare(**{name: flags.FLAGS[name].value for name in names}, beam_flags=argv[1:])
    print(table(summary))
    print(f"{flags.FLAGS.output}, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    define_flags()
    programs.run(main, takes_arguments=True)  # those of Beam
