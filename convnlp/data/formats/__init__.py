"""The formats of files.

To add one, write a subclass of `Format` in a new file and add it to `FORMATS`, under the key that stands
before the colon of a source.
"""

from convnlp.data.formats.delimited import Delimited
from convnlp.data.formats.format import Format as Format
from convnlp.data.formats.format import Record as Record
from convnlp.data.formats.huggingface import HuggingFace
from convnlp.data.formats.jsonl import JSONLines
from convnlp.data.formats.parquet import Parquet
from convnlp.data.formats.text import Text

FORMATS = {
    "jsonl": JSONLines(),
    "text": Text(),
    "csv": Delimited(","),
    "tsv": Delimited("\t"),
    "parquet": Parquet(),
    "hf": HuggingFace(),
}
