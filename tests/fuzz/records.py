"""The readers of data: files of records in every format, plain and packed, as `convnlp.data` reads them."""

import gzip
import io

import pyarrow
import pyarrow.parquet

from convnlp.data import Label, Source, SourceError, sources
from tests.fuzz.reader import Reader, documented

_ROWS = b'{"text": "A fine day.", "label": 1}\n{"text": "caf\\u00e9", "label": 0}\n'
_TABLE = b'text,label\n"A ""fine"" day.",1\ncaf\xc3\xa9,0\n'
# What stands before the colon of a source, and how the name of a file ends.
FORMATS = (
    ("jsonl", ".jsonl"),
    ("csv", ".csv"),
    ("tsv", ".tsv"),
    ("text", ".txt"),
    ("parquet", ".parquet"),
    ("jsonl", ".jsonl.gz"),
    ("csv", ".csv.zst"),
)


def _table():
    return pyarrow.table({"text": ["A fine day.", "caf\u00e9"], "label": [1, 0]})


def _seeds():
    parquet, packed = io.BytesIO(), pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(_table(), parquet)
    with pyarrow.CompressedOutputStream(packed, "zstd") as file:
        file.write(_TABLE)
    utf_16 = _TABLE.decode().encode("utf-16")
    return {
        0: [_ROWS],
        1: [_TABLE, _TABLE.replace(b",", b";"), utf_16],
        2: [_TABLE.replace(b",", b"\t")],
        3: [b"A fine day.\n\nA lost day.\nOr not.\n"],
        4: [parquet.getvalue()],
        5: [gzip.compress(_ROWS, mtime=0)],
        6: [packed.getvalue().to_pybytes()],
    }


class Records(Reader):
    """The first byte chooses the format, the others are the file."""

    def __init__(self, folder):
        super().__init__(folder)
        self.seeds = [bytes([i]) + data for i, found in _seeds().items() for data in found]

    def read(self, data):
        kind, ending = FORMATS[(data[0] if data else 0) % len(FORMATS)]
        path = self.folder / f"data{ending}"
        path.write_bytes(data[1:])
        source = Source(f"{kind}:{path}")
        outcome = "refused"
        with documented(SourceError):
            for record, texts in sources.records(source):
                assert isinstance(record, dict)
                assert all(text.decode() is not None for text in texts)
            outcome = "read"
        for use in (sources.label_names, sources.multi_label_names):
            with documented(SourceError):
                use(source)
        with documented(SourceError):
            sources.check(source, label=Label(num_classes=2))
        return outcome
