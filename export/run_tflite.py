"""Runs a TFLite file with only ai-edge-litert, NumPy, sentencepiece and absl, without TensorFlow.

    convnlp run-tflite --model=sentiment.tflite --text="a gripping film" --text="dull"
    convnlp run-tflite --model=sentiment.tflite --input=texts.txt

Prints one JSON object per text: {"label", "scores"}, or {"embedding"} for a language model's encoder. A file
for --input has one text per line or, if its name ends in .jsonl, one object with "text" and, for pairs,
"text_pair", where blank lines are skipped; "-" is standard input.
"""

import codecs
import itertools
import json
import os
import signal
import sys

from absl import app, flags

try:
    from convnlp.export.edge_model import EdgeModel
except ModuleNotFoundError:  # copies of both files in one folder
    from edge_model import EdgeModel

_MODEL = flags.DEFINE_string("model", None, "File written by convnlp export-tflite.", required=True)
_TEXT = flags.DEFINE_multi_string("text", [], "A text; may be repeated.")
_TEXT_PAIR = flags.DEFINE_multi_string("text_pair", [], "The second text of a pair, one for each --text.")
_INPUT = flags.DEFINE_string(
    "input", None, "File with one text or JSON object per line; - is standard input."
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 8, "Texts per batch.", lower_bound=1)
_NUM_THREADS = flags.DEFINE_integer("num_threads", 1, "Number of threads.", lower_bound=1)


def examples():
    """Yields (text, second text or None) from the flags and the file.

    Raises:
        ValueError: if a pair has only one text, or a line of the file is not an example.
    """
    pairs = _TEXT_PAIR.value or [None] * len(_TEXT.value)
    if len(pairs) != len(_TEXT.value):
        raise ValueError(
            f"--text_pair must be given for each --text. Received: {len(pairs)} of {len(_TEXT.value)}"
        )
    yield from zip(_TEXT.value, pairs, strict=True)
    if _INPUT.value is None:
        return
    for number, line in _lines(_INPUT.value):
        if not _INPUT.value.endswith(".jsonl"):
            yield line, None
            continue
        if not line.strip():
            continue
        try:
            example = json.loads(line)
            text, pair = example["text"], example.get("text_pair")
            if not isinstance(text, str) or not isinstance(pair, str | None):
                raise TypeError
            (text + (pair or "")).encode()
        except UnicodeEncodeError:
            raise ValueError(f"{_INPUT.value}, line {number}: half of a surrogate pair in a text") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError(
                f'{_INPUT.value}, line {number}: not a JSON object whose "text" is a string'
            ) from None
        yield text, pair


def _lines(path):
    """Yields the numbers and the lines of a file, or of standard input, whatever the machine's encoding.

    A carriage return alone does not end a line, and a byte-order mark is no part of the first one.
    """
    with sys.stdin.buffer if path == "-" else open(os.path.expanduser(path), "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = (line if number > 1 else line.removeprefix(codecs.BOM_UTF8)).decode()
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}, line {number}: not UTF-8 ({error})") from None
            yield number, text.rstrip("\r\n")


def main(argv):
    """Loads the model and answers, batch by batch."""
    try:
        if len(argv) > 1:
            raise ValueError(
                "a value must follow its flag as --flag=value, in quotes if it contains spaces. "
                f"Received: {argv[1]!r}, which belongs to no flag"
            )
        if not _TEXT.value and _INPUT.value is None:
            raise ValueError("--text or --input must be given")
        model = EdgeModel(os.path.expanduser(_MODEL.value), _NUM_THREADS.value)
        # Single texts and pairs do not share a batch.
        for has_pair, group in itertools.groupby(examples(), key=lambda example: example[1] is not None):
            while batch := list(itertools.islice(group, _BATCH_SIZE.value)):
                texts, pairs = zip(*batch, strict=True)
                for answer in model.predict(texts, pairs if has_pair else None):
                    print(json.dumps(answer, ensure_ascii=False), flush=True)
    except BrokenPipeError:  # nobody reads the answers any more: as where SIGPIPE ends a program
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still in its buffer
        sys.exit(128 + signal.SIGPIPE)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    app.run(main)
