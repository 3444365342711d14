"""Writes the metadata of a TFLite file: TensorFlow Lite's own, and a zip archive that anything can read.

The archive follows the flatbuffer; TFLite does not look there. The entry "TFLITE_METADATA" of the flatbuffer,
which Android's MetadataExtractor reads, describes the inputs and outputs, and says which files of the archive
are the labels and the vocabulary. Its schema is metadata_schema.fbs of tflite-support; the package itself is
not needed to write these few tables.
"""

import io
import json
import pathlib
import zipfile

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from convnlp.export.edge_model import FACTS, VOCABULARY
from convnlp.export.lite.float_operations import packed
from convnlp.export.preset import label_lines

ENTRY = "TFLITE_METADATA"
LABELS = "labels.txt"
_MEANINGS = {
    "logits": "The scores are their softmax.",
    "probabilities": "The probability of each class, whatever those of the others.",
}
_SCHEMA, _PARSER = b"M001", "1.1.0"
# The fields of the schema's tables, by their slots.
_MODEL = {"name": 0, "description": 1, "subgraph_metadata": 3, "min_parser_version": 7}
_SUBGRAPH = {"input_tensor_metadata": 2, "output_tensor_metadata": 3}
_TENSOR = {"name": 0, "description": 1, "dimension_names": 2, "process_units": 4, "associated_files": 6}
_FILE = {"name": 0, "description": 1, "type": 2}
_AXIS_LABELS, _SENTENCEPIECE_OPTIONS = 2, 5  # of AssociatedFileType and of the union ProcessUnitOptions


def with_metadata(content, facts):
    """Returns a flatbuffer with the entry "TFLITE_METADATA".

    Args:
        content: bytes of the model.
        facts: dict, see `EdgeModel`.
    """
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(_metadata(facts), np.uint8)
    entry.name, entry.buffer = ENTRY, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), entry]
    return packed(model)


def with_archive(content, files, facts):
    """Returns a flatbuffer followed by a zip archive: files, the facts as JSON, and the labels.

    Args:
        content: bytes of the model.
        files: dict, name -> path.
        facts: dict, see `EdgeModel`.
    """
    entries = {name: pathlib.Path(path).read_bytes() for name, path in files.items()}
    entries[FACTS] = json.dumps(facts, ensure_ascii=False, indent=1) + "\n"
    if facts["labels"] is not None:
        entries[LABELS] = label_lines(facts["labels"])
    stream = io.BytesIO(content)
    with zipfile.ZipFile(stream, "a") as zipped:  # the archive's offsets count from the start of the model
        for name, entry in entries.items():
            info = zipfile.ZipInfo(name)  # of 1980, whenever it is made: equal files give equal bytes
            info.external_attr = 0o644 << 16  # who may read it once it is unpacked
            zipped.writestr(info, entry)
    return stream.getvalue()


def _metadata(facts):
    builder = flatbuffers.Builder(1024)
    if facts["inputs"] == "ids":
        source = {
            "name": builder.CreateString("token_ids"),
            "description": builder.CreateString(
                f"Ids of the SentencePiece model {VOCABULARY}, ended by {facts['end_token_id']} and padded "
                f"with {facts['pad_token_id']}. Ids beyond {facts['sequence_length']} positions are cut off."
            ),
            "dimension_names": _strings(builder, ["batch", "token"]),
            "process_units": _vector(builder, [_tokenizer(builder)]),
        }
    else:
        source = {
            "name": builder.CreateString("text"),
            "description": builder.CreateString("Texts; the tokenizer is inside the model."),
            "dimension_names": _strings(builder, ["batch"]),
        }
    target = {
        "name": builder.CreateString(facts["output"]),
        "dimension_names": _strings(builder, ["batch", "class" if facts["labels"] else "channel"]),
    }
    if facts["labels"] is not None:
        target["description"] = builder.CreateString(_MEANINGS.get(facts["output"], "A score of each class."))
        target["associated_files"] = _vector(
            builder, [_file(builder, LABELS, "The names of the classes, one per line.", _AXIS_LABELS)]
        )
    source, target = (_table(builder, _TENSOR, tensor) for tensor in (source, target))
    graph = {
        "input_tensor_metadata": _vector(builder, [source]),
        "output_tensor_metadata": _vector(builder, [target]),
    }
    graphs = _vector(builder, [_table(builder, _SUBGRAPH, graph)])
    model = {
        "name": builder.CreateString("convnlp"),
        "description": builder.CreateString(
            f"Text to {facts['output']}; {FACTS} in the archive behind the model holds this as JSON."
        ),
        "subgraph_metadata": graphs,
        "min_parser_version": builder.CreateString(_PARSER),
    }
    builder.Finish(_table(builder, _MODEL, model), file_identifier=_SCHEMA)
    return bytes(builder.Output())


def _tokenizer(builder):
    """Returns a ProcessUnit; its options are a union, stored as type and table."""
    model = _vector(builder, [_file(builder, VOCABULARY, "The SentencePiece model of the token ids.", 0)])
    options = _table(builder, {"sentencePiece_model": 0}, {"sentencePiece_model": model})
    builder.StartObject(2)
    builder.PrependUint8Slot(0, _SENTENCEPIECE_OPTIONS, 0)
    builder.PrependUOffsetTRelativeSlot(1, options, 0)
    return builder.EndObject()


def _file(builder, name, description, kind):
    strings = builder.CreateString(name), builder.CreateString(description)
    builder.StartObject(len(_FILE))
    for slot, value in enumerate(strings):
        builder.PrependUOffsetTRelativeSlot(slot, value, 0)
    builder.PrependInt8Slot(_FILE["type"], kind, 0)
    return builder.EndObject()


def _table(builder, places, fields):
    """Returns a table of offsets."""
    builder.StartObject(max(places.values()) + 1)
    for name, value in fields.items():
        builder.PrependUOffsetTRelativeSlot(places[name], value, 0)
    return builder.EndObject()


def _strings(builder, values):
    return _vector(builder, [builder.CreateString(value) for value in values])


def _vector(builder, offsets):
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()
