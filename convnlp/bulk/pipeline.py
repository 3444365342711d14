"""The pipeline: parts of the input -> shards -> RunInference -> files.

A shard is one element from the moment it is read until its file is there. So there is nothing to group,
memory is bounded by a shard, the texts of a shard can be sorted by length, and whatever a runner repeats, a
shard's file is written once more in the same way and under the same name.
"""

import dataclasses

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions

from convnlp.bulk import job, outputs
from convnlp.bulk.model import Predictor
from convnlp.data.schema import Schema

# Beam's own DirectRunner looks for a program to download first.
_RUNNERS = {"DirectRunner": "FnApiRunner"}


@dataclasses.dataclass(frozen=True)
class Work:
    """What every worker knows.

    Args:
        inputs: see `convnlp.bulk.inputs.open_input`.
        fields: tuple of strings, the text fields, in the order of the signature's inputs.
        folder: string, where the files go.
        format: "jsonl" or "tfrecord".
    """

    inputs: object
    fields: tuple
    folder: str
    format: str


@dataclasses.dataclass
class Shard:
    """A shard whose examples have been looked at.

    Args:
        name: string.
        good: list of (file, line, fields) of the examples to predict.
        texts: list of tuples of bytes, beside `good`.
        bad: list of dicts {"file", "line", "reason"}.
    """

    name: str
    good: list
    texts: list
    bad: list

    def __len__(self):
        return len(self.good)


def options(runner, arguments):
    """Beam's options.

    Args:
        runner: string, such as "DirectRunner".
        arguments: list of strings, Beam's own flags.

    Raises:
        ValueError: if Beam knows one of them not.
    """
    found = PipelineOptions([f"--runner={_RUNNERS.get(runner, runner)}", *arguments])
    known = found.get_all_options()
    for argument in arguments:
        name = argument.removeprefix("--").split("=")[0]
        if argument.startswith("--") and name not in known and name.removeprefix("no_") not in known:
            raise ValueError(f"Beam has no such flag. Received: {argument!r}")
    return found


def run(work, handler, beam_options):
    """Predicts the shards that are not done; returns when all of them are and the summary is written.

    Args:
        work: `Work`.
        handler: `Handler`.
        beam_options: see `options`.

    Raises:
        ValueError: if a worker fails by an error whose class Beam does not keep, such as a full disk.
    """
    try:
        _run(work, handler, beam_options)
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def _run(work, handler, beam_options):
    with beam.Pipeline(options=beam_options) as pipeline:
        shards = (
            pipeline
            | "files" >> beam.Create(range(len(work.inputs.paths)))
            | "spread files" >> beam.Reshuffle()
            | "parts" >> beam.FlatMap(work.inputs.parts)
            | "spread parts" >> beam.Reshuffle()
            | "read" >> beam.ParDo(_Read(work)).with_outputs("done", main="todo")
        )
        written = shards.todo | RunInference(handler) | "write" >> beam.Map(_write, work)
        _ = (
            (shards.done, written)
            | beam.Flatten()
            | beam.CombineGlobally(_add)
            | "summary" >> beam.Map(lambda counts: job.write_summary(work.folder, _summary(counts)))
        )


class Handler(ModelHandler):
    """RunInference's view of a `Predictor`: a batch of Beam's is a `Shard`.

    Args:
        directory: string, a SavedModel.
        signature: string.
        batch_size: int.
    """

    def __init__(self, directory, signature, batch_size):
        super().__init__()
        self._arguments = directory, signature, batch_size

    def load_model(self):
        return Predictor(*self._arguments)

    def run_inference(self, batch, model, inference_args=None):
        return [(batch, model.predict(batch.texts))]

    def should_skip_batching(self):
        return True  # shards are batches already

    def get_num_bytes(self, batch):
        return sum(len(text) for texts in batch.texts for text in texts)


class _Read(beam.DoFn):
    """`Part` -> `Shard`s; of those that are done, only the counts, with the tag "done"."""

    def __init__(self, work):
        self._work = work

    def process(self, part):
        inputs, schema = self._work.inputs, Schema(self._work.fields)
        folder, format = self._work.folder, self._work.format
        for name, records in inputs.shards(part):
            if outputs.is_done(folder, name, format):
                yield beam.pvalue.TaggedOutput("done", (len(records), outputs.num_bad(folder, name), 1))
                continue
            shard = Shard(name, [], [], [])
            for record in records:
                try:
                    fields = inputs.fields(record)
                    shard.texts.append(tuple(schema.values(fields)))
                    shard.good.append((record.file, record.line, fields))
                except ValueError as error:
                    shard.bad.append({"file": record.file, "line": record.line, "reason": str(error)})
            yield shard


def _write(answered, work):
    """Writes the files of a shard and counts."""
    shard, answers = answered
    rows = (outputs.row(*good, answer) for good, answer in zip(shard.good, answers, strict=True))
    outputs.write_shard(work.folder, shard.name, work.format, rows, shard.bad)
    return len(shard.good) + len(shard.bad), len(shard.bad), 1


def _add(counts):
    """Sums of (examples, bad ones, shards)."""
    totals = [0, 0, 0]
    for count in counts:
        totals = [total + more for total, more in zip(totals, count, strict=True)]
    return tuple(totals)


def _summary(counts):
    examples, bad, shards = counts
    return {"examples": examples, "predictions": examples - bad, "bad": bad, "shards": shards}
