"""Writes the records that a model answers otherwise than they are labelled, where wrong labels are found."""

import itertools

from absl import logging

from convnlp.data import Source, SourceError, opening
from convnlp.data.schema import EveryField
from convnlp.prediction import rows
from convnlp.runs import inputs
from convnlp.training import run_config, storage


def write(config, workdir, task, judged):
    """Writes mistakes_NAME.csv, .tsv or .jsonl for each set that is scored; what `Task.mistakes` returns.

    A row has all fields of its record, then the answer, as in the output of `convnlp predict`. Of data in
    `tfds:`, whose records have no text form, and of examples whose places are not known, nothing is written.
    Nor of files that can no longer be read or have changed since the run began, whose records may be others:
    a warning says so, since the training is over and its other results are there.

    Args:
        config: the experiment.
        workdir: directory of the run.
        task: `Task`.
        judged: dict, "validation" or "test" -> `convnlp.finetuning.outcome.Judged`.

    Returns:
        list of str, the files.
    """
    written = []
    for name, each in judged.items():
        source, found, places = _source(config, name), each.mistakes(task), each.examples.places
        records, path = None, None
        if found and places is not None and source.kind != "tfds":
            answers = [(int(places[index]), answer) for index, answer in found]
            records = _unchanged_records(source, workdir, name, {place for place, _ in answers})
        if records:
            format = _format(source, records)
            lines = map(rows.lines(format), (_joined(records[place], answer) for place, answer in answers))
            path = _path(workdir, name, format)
            storage.write(path, b"".join(lines))
            written.append(path)
        for former in {_path(workdir, name, format) for format in rows.FORMATS} - {path}:
            storage.remove(former)  # of an earlier start
    return written


def _path(workdir, name, format):
    return storage.join(workdir, f"mistakes_{name}.{format}")


def _format(source, records):
    """Returns the format of the source's files, or "jsonl" if that is no table or their columns differ."""
    is_table = source.kind in rows.DELIMITERS and len({frozenset(each) for each in records.values()}) == 1
    return source.kind if is_table else "jsonl"


def _unchanged_records(source, workdir, name, places):
    """Returns `_records`; None, and logs why, if they are not or may not be those that the run has read."""
    try:
        records = _records(source, places)
        # Afterwards, so that a change while they are read shows too.
        if inputs.of_source(source.whole) != _fingerprints(workdir, name):
            raise SourceError(
                f"{source}: the files have changed since the run began, by the sums in config.json"
            )
    except (ValueError, *storage.ERRORS) as error:
        message = "mistakes_%s is not written, since its rows cannot be read again: %s"
        logging.warning(message, name, storage.reason(error))
        return None
    return records


def _fingerprints(workdir, name):
    """Returns what `inputs.fingerprints` said of the files of a set when the run began; None if unknown."""
    found = storage.read_json(storage.join(workdir, "config.json")).get(run_config.INPUTS, {})
    if name == "test":
        return found.get("data.test_source")
    return found.get("data.validation_source", found.get("data.source"))


def _source(config, name):
    data = config.data
    if name == "test":
        return Source(data.test_source, data.test_split, data.data_dir)
    if data.validation_split:
        return Source(data.validation_source or data.source, data.validation_split, data.data_dir)
    return Source(data.source, data.split, data.data_dir)


def _records(source, places):
    """Returns {place: record} of the records at these places, in the order in which examples are read."""
    stream = opening.stream_of(source, EveryField())
    found = itertools.islice(enumerate(stream.records()), max(places) + 1)
    return {place: stream.values(record) for place, record in found if place in places}


def _joined(record, answer):
    """As `rows.joined`, but answers of an earlier file are replaced: the run is over, and must not fail."""
    return {**record, **{f"predicted_{key}" if key in record else key: answer[key] for key in answer}}
