"""What `convnlp predict`, `embed` and `explain` share: their flags, and the path from texts to answers."""

import contextlib
import gzip
import itertools
import pathlib
import sys
import time

from absl import flags, logging

from convnlp import outputs, source_flags, standard_input
from convnlp.data import Source, sources
from convnlp.models import preset_names
from convnlp.prediction import asking, rows
from convnlp.tasks import fields

_PRESET = flags.DEFINE_string("preset", None, "Name or directory of a preset.", required=True)
_TEXT = flags.DEFINE_multi_string("text", None, "A text; may be repeated.")
_TEXT_PAIR = flags.DEFINE_multi_string("text_pair", None, "The second text of each --text, for pairs.")
_SOURCE = source_flags.define_source("source")
_SPLIT = source_flags.define_split("split")
_TEXT_FIELDS = source_flags.define_text_fields("text_fields")
_OUTPUT = flags.DEFINE_string("output", None, "File to write. Default: standard output.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Texts per batch.", lower_bound=1)


def preset():
    """Checks the other flags, and returns the directory of --preset.

    Raises:
        ValueError: if a flag is wrong; the message names the flag, the rule and what was received.
    """
    texts, pairs = _TEXT.value or [], _TEXT_PAIR.value or []
    if _SOURCE.value and texts:
        raise ValueError("`source` must not be given beside `text`. Received: both")
    if pairs and len(pairs) != len(texts):
        raise ValueError(
            f"`text_pair` must be given as often as `text`. Received: {len(pairs)} and {len(texts)}"
        )
    for name in ("text_fields", "split"):
        if flags.FLAGS[name].present and not _SOURCE.value:
            raise ValueError(f"`{name}` must only be given for a source. Received: no source")
    if len(_TEXT_FIELDS.value or ()) > 2:
        raise ValueError(f"`text_fields` must be one or two. Received: {','.join(_TEXT_FIELDS.value)}")
    read = sources.paths(_source()) if _SOURCE.value else []
    if _SOURCE.value and not read:
        raise ValueError(f"`source` must be files, such as csv:GLOB. Received: source={_SOURCE.value}")
    directory = preset_names.locate(_PRESET.value)
    if _OUTPUT.value is not None:
        outputs.check_file("output", _OUTPUT.value, inputs=[directory, *read])
    else:
        outputs.check_standard_output("output")
    return directory


def output_format(formats, format=None):
    """Returns the format of the output: the given one, or else that of the ending of --output.

    Args:
        formats: tuple of str, all formats; the first is that of standard output. Those of rows may be
            compressed: their ending is followed by .gz.
        format: str or None, the value of a flag.

    Raises:
        ValueError: if the ending is not one of the formats, or is that of another than the given one.
    """
    name, packed = _name_and_packing()
    if packed:
        formats = [each for each in formats if each in rows.FORMATS]
    ending = pathlib.Path(name).suffix.removeprefix(".")
    if format and ending in formats and format != ending:
        raise ValueError(
            "`format` must be the one that `output` ends in. "
            f"Received: format={format}, output={_OUTPUT.value}"
        )
    format = format or (ending if _OUTPUT.value else formats[0])
    if format not in formats:
        endings = ", ".join(f".{each}{packed}" for each in formats)
        raise ValueError(f"`output` must end in one of {endings}. Received: output={_OUTPUT.value}")
    return format


def texts(directory, as_trained=True):
    """Returns the texts to ask about.

    Args:
        directory: str, the preset.
        as_trained: bool, whether there must be as many texts per answer as the model was trained on.

    Returns:
        (1 or 2, the number of texts per answer; iterator of (record, a dict; its texts, a tuple of UTF-8
        bytes)).

    Raises:
        ValueError: if there are no texts, or not as many per answer as there must be.
    """
    trained = fields.trained_on(directory)
    if _SOURCE.value:
        names = fields.texts_of_preset(directory, _source(), _TEXT_FIELDS.value)
        found = sources.records(_source(), names)
    elif _TEXT.value:
        names = ("text", "text_pair") if _TEXT_PAIR.value else ("text",)
        columns = [standard_input.checked(name, flags.FLAGS[name].value) for name in names]
        given = zip(*columns, strict=True)
        found = (
            (dict(zip(names, each, strict=True)), tuple(text.encode() for text in each)) for each in given
        )
    else:
        names = ("text",)
        found = (({"text": line}, (line.encode(),)) for line in standard_input.lines())
    if as_trained and trained and len(trained) != len(names):
        raise ValueError(
            f"preset {_PRESET.value}: was trained on {' and '.join(trained)}, so it must be asked about "
            f"{('one text each', 'pairs of texts')[len(trained) - 1]}. Received: {' and '.join(names)}"
        )
    return len(names), found


def answered(function, tokenizer, num_texts, found, longest=None):
    """Yields answers to all texts.

    Args:
        function: as for `asking.in_batches`, of `text` and, for pairs, `text_pair`.
        tokenizer: the model's `convnlp.models.Tokenizer`.
        num_texts: int, 1 or 2.
        found: what `texts` returned.
        longest: int, tokens that are read of a text, without its end token; a line says how many texts have
            more. Default None: any number.

    Yields:
        (record, dict, output -> NumPy value), in order.

    Raises:
        ValueError: if there are no texts.
    """
    started, count, num_blank, num_cut = time.monotonic(), 0, 0, 0
    names = ("text", "text_pair")[:num_texts]
    in_tokens = asking.lengths_in_tokens(tokenizer.ragged)

    def lengths_of(rows):
        nonlocal num_cut
        lengths = in_tokens(rows)
        num_cut += 0 if longest is None else int((lengths > longest).sum())
        return lengths

    is_asked_by_hand = not (_SOURCE.value or _TEXT.value) and standard_input.is_terminal()
    while chunk := list(itertools.islice(found, 1 if is_asked_by_hand else asking.CHUNK)):
        rows = [texts for _, texts in chunk]
        answers = asking.in_batches(function, names, rows, _BATCH_SIZE.value, lengths_of)
        for (record, _), answer in zip(chunk, answers, strict=True):
            yield record, answer
        count += len(chunk)
        num_blank += sum(not b"".join(texts).decode("utf-8", "replace").strip() for texts in rows)
    if not count:
        raise ValueError("there is no text: give --source, --text, or lines on the standard input")
    if num_blank:
        logging.warning(
            "%d of %d texts are blank: their answers are those to nothing, however sure the model is",
            num_blank,
            count,
        )
    if num_cut:
        logging.warning("%d of %d texts have more than %d tokens and are cut", num_cut, count, longest)
    if _OUTPUT.value is not None:
        seconds = time.monotonic() - started
        print(f"{count:,} texts in {seconds:.1f} s -> {_OUTPUT.value}", file=sys.stderr)


def output():
    """Returns the path of --output, or None for standard output."""
    return _OUTPUT.value


@contextlib.contextmanager
def writer(format):
    """Yields a function that writes a row, a dict, to stdout or --output, which appears whole or not at all.

    Args:
        format: one of `rows.FORMATS`.
    """
    line = rows.lines(format)
    if _OUTPUT.value is None:

        def show(row):
            sys.stdout.buffer.write(line(row))
            sys.stdout.buffer.flush()  # somebody may be waiting for it

        yield show
        return
    _, packed = _name_and_packing()
    with outputs.writing(_OUTPUT.value) as file, contextlib.ExitStack() as stack:
        if packed:  # the same rows give the same bytes
            file = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
        yield lambda row: file.write(line(row))


def _name_and_packing():
    """Returns the name of --output without .gz, and ".gz" if it has that ending, else ""."""
    name = pathlib.Path(_OUTPUT.value or "").name
    packed = ".gz" if name.endswith(".gz") else ""
    return name.removesuffix(packed), packed


def _source():
    return Source(_SOURCE.value, _SPLIT.value)
