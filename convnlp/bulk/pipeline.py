"""The pipeline: parts of the input -> shards -> RunInference -> files.

A shard is a single element from when it is read until its file is written. So nothing needs grouping, memory
is bounded by a shard, the texts of a shard can be sorted by length, and if a runner repeats work, a shard's
file is only rewritten with the same content and name.
"""

import dataclasses

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.utils.shared import Shared

from convnlp.bulk import engine, job, outputs
from convnlp.bulk.model import Predictor
from convnlp.data.schema import Schema

_NOTHING = 0, 0, 0  # examples, bad examples, shards


@dataclasses.dataclass(frozen=True)
class Work:
    """What every worker needs to know.

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
    """A shard whose examples have been parsed.

    Args:
        name: string.
        good: list of (file, line, fields) of the examples to predict.
        texts: list of tuples of bytes, the texts of each example in `good`.
        bad: list of dicts {"file", "line", "reason"}.
    """

    name: str
    good: list
    texts: list
    bad: list

    def __len__(self):
        return len(self.good)


def run(work, handler, beam_options):
    """Predicts the shards that are not done; returns once all are done and the summary is written.

    Args:
        work: `Work`.
        handler: `Handler`.
        beam_options: see `engine.options`.

    Raises:
        ValueError: see `engine.open_pipeline`.
    """
    with engine.open_pipeline(beam_options) as pipeline:
        parts = engine.parts(pipeline, work.inputs)
        if engine.runs_steps_whole(pipeline):
            counted = parts | "predict" >> beam.ParDo(_Predict(work, handler))
        else:
            shards = parts | "read" >> beam.ParDo(_Read(work)).with_outputs("done", main="todo")
            written = shards.todo | RunInference(handler) | "write" >> beam.Map(_write, work)
            counted = (shards.done, written) | "old and new" >> beam.Flatten()
        _ = (
            (counted, pipeline | "nothing" >> beam.Create([_NOTHING]))
            | beam.Flatten()
            | beam.CombineGlobally(_add).without_defaults()
            | "summary" >> beam.Map(lambda counts: job.write_summary(work.folder, _summary(counts)))
        )


class Handler(ModelHandler):
    """Runs a `Predictor` in RunInference; one of Beam's batches is a `Shard`.

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
    """`Part` -> `Shard`s; for those that are done, only the counts, with the tag "done"."""

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


class _Predict(beam.DoFn):
    """`Part` -> the counts of its shards; each is read, predicted and written before the next."""

    def __init__(self, work, handler):
        self._work, self._handler, self._read, self._models = work, handler, _Read(work), Shared()

    def setup(self):
        self._model = self._models.acquire(self._handler.load_model)  # one for all tasks of a process

    def process(self, part):
        for found in self._read.process(part):
            if isinstance(found, Shard):
                (answered,) = self._handler.run_inference(found, self._model)
                yield _write(answered, self._work)
            else:
                yield found.value


def _write(answered, work):
    """Writes the files of a shard; returns its (examples, bad examples, 1)."""
    shard, answers = answered
    rows = (outputs.row(*good, answer) for good, answer in zip(shard.good, answers, strict=True))
    outputs.write_shard(work.folder, shard.name, work.format, rows, shard.bad)
    return len(shard.good) + len(shard.bad), len(shard.bad), 1


def _add(counts):
    """Sums up (examples, bad examples, shards)."""
    totals = list(_NOTHING)
    for count in counts:
        totals = [total + more for total, more in zip(totals, count, strict=True)]
    return tuple(totals)


def _summary(counts):
    examples, bad, shards = counts
    return {"examples": examples, "predictions": examples - bad, "bad": bad, "shards": shards}
