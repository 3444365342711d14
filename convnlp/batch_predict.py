r"""Predicts a whole file or data set with an exported model, on Apache Beam.

    convnlp batch-predict --model=MODELS/sst2/1 --input='jsonl:texts-*.jsonl.gz' --output=DIR
    convnlp batch-predict ... --runner=DaskRunner -- --dask_client_address=tcp://HOST:8786

Inputs: jsonl:GLOB, csv:GLOB, tsv:GLOB, parquet:GLOB, lines:GLOB (one text per line), text:GLOB (documents
between blank lines), tfds:NAME, pydocs. For each shard of the input, DIR gets a file predictions-*; its rows
hold an example's place, its fields and the model's outputs. If the shard has bad lines, a file bad-* gives
their places and the reasons. The same command continues a run that was stopped. Beam's own flags come after
`--`.
"""

import os
import time

from absl import flags, logging

from convnlp import source_flags
from convnlp.bulk import inputs, job, model, outputs, runners
from convnlp.outputs import check_folder
from convnlp.programs import run

_VERSION = 1  # increased when a change of this package changes the files of a job
_MODEL = flags.DEFINE_string("model", None, "Directory of a SavedModel: MODELS/NAME/VERSION.", required=True)
_INPUT = flags.DEFINE_string(
    "input", None, "KIND:GLOB of jsonl, csv, tsv, parquet, lines or text; tfds:NAME; pydocs.", required=True
)
_OUTPUT = flags.DEFINE_string("output", None, "Directory to write to, new or of this job.", required=True)
_FORMAT = flags.DEFINE_enum(
    "format", "jsonl", outputs.FORMATS, "Format of the predictions; fractions in tfrecord are float32."
)
_SIGNATURE = flags.DEFINE_string("signature", "serving_default", "Signature to call; it must take texts.")
_TEXT_FIELDS = source_flags.define_text_fields(
    "text_fields", "Field for each input of the signature, sorted by name. Default: the inputs' names."
)
_SPLIT = source_flags.define_split("split", of="tfds:NAME")
_DATA_DIR = source_flags.define_data_dir("data_dir")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 64, "Examples per call of the model.", lower_bound=1)
_SHARD_SIZE = flags.DEFINE_integer(
    "shard_size", 10_000, "Examples per output file; a restart keeps the files that are complete.", 1
)
_RUNNER = flags.DEFINE_enum("runner", "DirectRunner", runners.RUNNERS, "Beam's runner; the first is local.")


def text_fields():
    """Returns the names of the fields to read, a tuple with one per input of the signature.

    Raises:
        ValueError: if --text_fields names another number of them.
    """
    names = model.text_inputs(_MODEL.value, _SIGNATURE.value)
    fields = _TEXT_FIELDS.value or names
    if len(fields) != len(names):
        raise ValueError(
            f"--text_fields must name a field for each input of the signature: {', '.join(names)}. "
            f"Received: {','.join(fields)}"
        )
    return tuple(fields)


def main(argv):
    """Input -> shards -> model -> files -> summary."""
    start = time.monotonic()
    job.check_outside(_OUTPUT.value, _MODEL.value)
    check_folder("output", _OUTPUT.value, takes_urls=True)
    pipeline, engine = (
        runners.load_pipeline(f"convnlp.bulk.{name}", "convnlp.batch_predict", _RUNNER.value)
        for name in ("pipeline", "engine")
    )
    options = engine.options(_RUNNER.value, argv[1:])
    fields = text_fields()
    source = inputs.open_input(_INPUT.value, _SPLIT.value, _SHARD_SIZE.value, _DATA_DIR.value, fields)
    folder = os.path.normpath(_OUTPUT.value) if "://" not in _OUTPUT.value else _OUTPUT.value.rstrip("/")
    described = {  # without the batch size, the runner and the model's location, which a restart may change
        "version": _VERSION,
        "model": model.fingerprint(_MODEL.value),
        "signature": _SIGNATURE.value,
        "fields": list(fields),
        "format": _FORMAT.value,
        "shard_size": _SHARD_SIZE.value,
        "input": f"{_INPUT.value} {_SPLIT.value}",
        "files": source.description(),
    }
    if changed := job.drop_changed(folder, described):
        logging.warning(
            "%s: %d input files changed, such as %s; their shards are made again",
            *(folder, len(changed), changed[0]),
        )
    summary = job.open_folder(folder, described)
    if summary is None:
        if kept := job.num_done(folder):
            logging.warning("%s: keeping %d shards of an earlier run", folder, kept)
        work = pipeline.Work(source, fields, folder, _FORMAT.value)
        handler = pipeline.Handler(_MODEL.value, _SIGNATURE.value, _BATCH_SIZE.value)
        pipeline.run(work, handler, options)
        summary = job.finish(folder)
    else:
        print(f"{folder} is complete: nothing is left to do")
    print(
        f"{summary['examples']} examples: {summary['predictions']} predictions, {summary['bad']} bad; "
        f"{summary['shards']} shards in {folder}, {time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    run(main, takes_arguments=True)  # those of Beam
