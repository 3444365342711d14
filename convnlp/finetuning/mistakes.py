"""Writes the records that a model answers otherwise than they are labelled, where wrong labels are found."""

import itertools

from convnlp.data import Source, opening
from convnlp.data.schema import EveryField
from convnlp.prediction import rows
from convnlp.training import storage


def write(config, workdir, task, judged):
    """Writes mistakes_NAME.csv, .tsv or .jsonl for each set that is scored; what `Task.mistakes` returns.

    A row has all fields of its record, then the answer, as in the output of `convnlp predict`. Of data in
    `tfds:`, whose records have no text form, and of examples whose places are not known, nothing is written.

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
        source = _source(config, name)
        format = source.kind if source.kind in rows.DELIMITERS else "jsonl"
        file = f"mistakes_{name}.{format}"
        found, places = each.mistakes(task), each.examples.places
        if found and places is not None and source.kind != "tfds":
            path = storage.join(workdir, file)
            storage.write(path, b"".join(_lines(source, format, places, found)))
            written.append(path)
        elif storage.has(workdir, file):  # of an earlier start
            storage.remove(storage.join(workdir, file))
    return written


def _lines(source, format, places, found):
    """Yields the lines of the file for what `Task.mistakes` found among examples at these places."""
    records, line = _records(source, {int(places[index]) for index, _ in found}), rows.lines(format)
    for index, answer in found:
        yield line(_joined(records[int(places[index])], answer))


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
